package powerloss_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"mailroom/orchestrator/orchestratortest/powerloss"
)

// driverKey makes this test binary the driver of a load, in a process of its own.
const driverKey = "MAILROOM_POWERLOSS_DRIVER"

func TestMain(m *testing.M) {
	if os.Getenv(driverKey) == "" {
		os.Exit(m.Run())
	}
	load, err := powerloss.ReadLoad(os.Stdin)
	if err == nil {
		err = powerloss.Drive(context.Background(), load)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func record(t *testing.T, seed uint64, messages int) *powerloss.Recording {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("strace is missing: `make tools` installs it")
		}
		t.Skip("strace is missing")
	}
	folder := scratch(t)
	program := filepath.Join(folder, "mailroom")
	if out, err := exec.Command("go", "build", "-o", program, "mailroom/cmd/mailroom").CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	root := filepath.Join(folder, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	load := powerloss.Load{Program: program, Root: root, Seed: seed, Messages: messages}
	rec, err := powerloss.Record(t.Context(), load, filepath.Join(folder, "log"), "env", driverKey+"=1", self)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// scratch is a folder in memory if there is one: the syncs are in the log, whatever they cost.
func scratch(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "mailroom-powerloss-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

func number(t *testing.T, key string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(key)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPowerLoss(t *testing.T) {
	seed := number(t, "SEED", rand.Uint64())
	t.Logf("seed %d", seed)
	rec := record(t, seed, int(number(t, "MESSAGES", 400)))
	if err := rec.Faithful(); err != nil {
		t.Fatal(err)
	}
	report, err := rec.Examine(t.Context(), powerloss.Plan{Points: int(number(t, "POINTS", 200)), Seed: seed, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d points of %d steps, %v, sent %d, read %d, written %d", report.Points, report.Steps, report.Counted, report.Sent, report.Read, report.Written)
	for i, v := range report.Violations {
		if i < 10 {
			t.Error(v)
		}
	}
	if len(report.Violations) > 10 {
		t.Errorf("%d power cuts with violations", len(report.Violations))
	}
}

// TestMissingSyncsAreFound drops syncs from the log, as a program would that forgot them.
func TestMissingSyncsAreFound(t *testing.T) {
	rec := record(t, 1, 150)
	for _, kind := range []string{"wal", "db", "jsonl", "other"} {
		report, err := rec.Examine(t.Context(), powerloss.Plan{
			Points: 300, Seed: 1, Strict: true, Enough: 1, Ignore: func(k string) bool { return k == kind },
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Violations) == 0 {
			t.Errorf("nobody noticed that the syncs of %s are missing", kind)
		} else {
			t.Log(kind, report.Points, report.Violations[0])
		}
	}
}
