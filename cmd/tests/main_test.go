package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// ran runs the tests of testdata/standing.
func ran(t *testing.T, still time.Duration, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	errors, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer errors.Close()
	var out bytes.Buffer
	status = run(t.Context(), slices.Concat([]string{"-C", "testdata/standing", "-count=1"}, args, []string{"./..."}),
		still, &out, errors)
	said, err := os.ReadFile(errors.Name())
	if err != nil {
		t.Fatal(err)
	}
	return status, out.String(), string(said)
}

// A run with a hanging test is ended, and the test is named, with its goroutines. Earlier failures are reported.
func TestStandingTestIsNamed(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := ran(t, 5*time.Second)
	if status != 1 {
		t.Errorf("status %d", status)
	}
	if part := "FAIL: standing TestStands/deep stands still"; !strings.Contains(stderr, part) {
		t.Errorf("%q is not in what it said:\n%s", part, stderr)
	}
	for _, part := range []string{"because of this", "standing.TestStands.func1", "FAIL\tstanding"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("%q is not in what it printed:\n%s", part, stdout)
		}
	}
	if strings.Contains(stdout, "not worth a word") {
		t.Errorf("it printed what a test said that passed:\n%s", stdout)
	}
}

// The goroutines of a hanging test are also printed if a process that outlives the test holds its output open, so
// that go test does not end by itself.
func TestStandingTestLeavesAProcess(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := ran(t, 2*time.Second, "-tags", "leaving", "-run", "TestLeavesAProcess")
	if part := "FAIL: standing TestLeavesAProcess stands still"; status != 1 || !strings.Contains(stderr, part) {
		t.Errorf("status %d; %q is not in what it said:\n%s", status, part, stderr)
	}
	if part := "standing.TestLeavesAProcess("; !strings.Contains(stdout, part) {
		t.Errorf("%q is not in what it printed:\n%s", part, stdout)
	}
}

// A test whose subtests wait for a free parallel slot does not count as hanging.
func TestWaitingForAPlaceIsNotStandingStill(t *testing.T) {
	t.Parallel()
	if status, stdout, stderr := ran(t, 1500*time.Millisecond, "-run", "TestCrowded", "-parallel", "1"); status != 0 {
		t.Errorf("status %d:\n%s%s", status, stdout, stderr)
	}
}

// A run without a hanging test ends as go test does: failures and skips are printed, and passes take one line.
func TestRunIsToldOf(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]struct {
		status int
		says   []string
	}{
		"TestPasses":           {0, []string{"ok  \tstanding"}},
		"TestStands":           {0, []string{"for those in a hurry", "ok  \tstanding"}},
		"TestPasses|TestFails": {1, []string{"--- FAIL: TestFails/inner", "because of this", "FAIL\tstanding"}},
	} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			status, stdout, stderr := ran(t, time.Minute, "-short", "-run", pattern)
			if status != want.status {
				t.Errorf("status %d, want %d", status, want.status)
			}
			for _, part := range want.says {
				if !strings.Contains(stdout, part) {
					t.Errorf("%q is not in what it printed:\n%s%s", part, stdout, stderr)
				}
			}
		})
	}
}
