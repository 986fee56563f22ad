package orchestratortest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest"
)

// broken is paper with a fault. Functions that are nil behave correctly.
type broken struct {
	*paper
	check   func(address string) (string, error)
	deliver func(ctx context.Context, a orchestrator.Attempt) []error
	ask     func(ctx context.Context, a orchestrator.Attempt) (bool, error)
}

func (b *broken) Check(address string) (string, error) {
	if b.check != nil {
		return b.check(address)
	}
	return b.paper.Check(address)
}

func (b *broken) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	if b.deliver != nil {
		return b.deliver(ctx, a)
	}
	return b.paper.Deliver(ctx, a)
}

func (b *broken) Recover(ctx context.Context, a orchestrator.Attempt) (bool, error) {
	if b.ask != nil {
		return b.ask(ctx, a)
	}
	return b.paper.Recover(ctx, a)
}

// unasked is a transport without Recover, such as a webhook.
type unasked struct{ orchestrator.Transport }

// fault is an error of a transport, with the subtests that must detect it. No other subtest may fail.
type fault struct {
	name   string
	breaks func(p *paper, b *broken)
	found  string // names of subtests; "but NAMES": all others
	asked  bool   // whether the transport has Recover
}

// TestFaults runs the suite against one fault. TestSuiteFindsFaults starts it in another process.
const faultEnv = "MAILROOM_TEST_FAULT"

func TestFaults(t *testing.T) {
	name := os.Getenv(faultEnv)
	i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
	if i < 0 {
		return // an ordinary test run
	}
	orchestratortest.ExerciseTransport(t, func(t *testing.T) orchestratortest.Fixture {
		f := onPaper(t, faults[i].transport)
		if strings.Contains(name, "hangs") && strings.HasSuffix(t.Name(), "/Blocked") {
			f.Patience = time.Second // this subtest fails in any case; others need their time
		}
		return f
	})
}

func (f *fault) transport(p *paper) orchestrator.Transport {
	b := &broken{paper: p}
	f.breaks(p, b)
	if !f.asked {
		return unasked{b}
	}
	return b
}

// Transports without faults pass, with and without Recover.
func TestSuitePasses(t *testing.T) {
	t.Parallel()
	t.Run("Asked", func(t *testing.T) {
		t.Parallel()
		orchestratortest.ExerciseTransport(t, func(t *testing.T) orchestratortest.Fixture {
			return onPaper(t, func(p *paper) orchestrator.Transport { return p })
		})
	})
	t.Run("Unasked", func(t *testing.T) {
		t.Parallel()
		orchestratortest.ExerciseTransport(t, func(t *testing.T) orchestratortest.Fixture {
			return onPaper(t, func(p *paper) orchestrator.Transport { return unasked{p} })
		})
	})
}

// TestSuiteFindsFaults tests the suite: a transport with one fault fails the subtests for that fault, and passes the
// others.
func TestSuiteFindsFaults(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			failed, passed := runAgainst(t, f.name)
			expected := strings.Fields(f.found)
			if rest, all := strings.CutPrefix(f.found, "but "); all {
				expected = nil
				for _, name := range append(slices.Clone(failed), passed...) {
					if !slices.Contains(strings.Fields(rest), name) {
						expected = append(expected, name)
					}
				}
			}
			slices.Sort(expected)
			if !slices.Equal(failed, expected) {
				t.Errorf("failed:   %s\nexpected: %s\n(passed: %s)", strings.Join(failed, " "),
					strings.Join(expected, " "), strings.Join(passed, " "))
			}
		})
	}
}

// runAgainst runs the suite against a fault and returns the names of the subtests that failed and passed, sorted.
func runAgainst(t *testing.T, name string) (failed, passed []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestFaults$", "-test.v")
	cmd.Env = append(os.Environ(), faultEnv+"="+name)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || regexp.MustCompile(`panic:|DATA RACE`).Match(out.Bytes()) {
		t.Fatalf("it ended with %v; a test that fails ends with 1\n%s", err, out.Bytes()[max(0, out.Len()-4000):])
	}
	for _, line := range regexp.MustCompile(`--- (FAIL|PASS): TestFaults/(\S+) `).FindAllStringSubmatch(out.String(),
		-1) {
		if line[1] == "FAIL" {
			failed = append(failed, line[2])
		} else {
			passed = append(passed, line[2])
		}
	}
	slices.Sort(failed)
	slices.Sort(passed)
	return failed, passed
}
