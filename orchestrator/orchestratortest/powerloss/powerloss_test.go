package powerloss_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/powerloss"
)

// driverKey is the environment variable that makes this test binary the driver of a load, in a separate process.
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

// TestPowerLoss runs the real program under strace, in many processes. It simulates a power failure at POINTS moments
// of the recording. After each, acknowledged messages must exist, and delivered messages must not be delivered again.
// Then it drops syncs from the recording, and the check must detect that.
//
// POINTS, MESSAGES (of each sender) and SEED change the size and the choice. SEED repeats the choice of moments, but
// not the scheduling of the processes. With KEEP=FOLDER, the recording is kept there and used again.
func TestPowerLoss(t *testing.T) {
	seed := number(t, "SEED", rand.Uint64())
	t.Logf("seed %d", seed)
	points, sends := uint64(1000), uint64(200)
	if testing.Short() {
		points, sends = 100, 100
	}
	rec := recording(t, seed, int(number(t, "MESSAGES", sends)))
	progress := func(t *testing.T) func(int) { // a sign of life
		return func(cuts int) { t.Logf("%d power cuts", cuts) }
	}
	t.Run("Holds", func(t *testing.T) {
		report, err := rec.Examine(t.Context(),
			powerloss.Plan{Points: int(number(t, "POINTS", points)), Seed: seed, Strict: true, Progress: progress(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(report)
		if sent := rec.Load.Sends(); report.Sent != sent {
			t.Errorf("the recording has %d acknowledged sends of %d", report.Sent, sent)
		}
		if report.Read == 0 || report.Written == 0 || report.Counted["write db"] == 0 {
			t.Error("nothing was read, nothing was written to a file, or there was no checkpoint")
		}
		for i, v := range report.Violations {
			if i == 10 {
				t.Fatalf("and %d more", len(report.Violations)-i)
			}
			t.Error(v)
		}
	})
	for _, bug := range plantedBugs {
		t.Run(bug.name, func(t *testing.T) {
			report, err := rec.Examine(t.Context(), powerloss.Plan{
				Points: 1000, Seed: seed, Strict: true, Ignore: bug.forgets, Mute: bug.mutes, Until: bug.found,
				Progress: progress(t),
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range report.Violations {
				if strings.Contains(v.String(), bug.found) {
					t.Logf("found after %d power cuts: %.300s", report.Points, v)
					return
				}
			}
			t.Errorf("nobody noticed in %d power cuts", report.Points)
		})
	}
}

// plantedBugs lists simulated bugs: missing syncs, or marking messages as read before writing them.
var plantedBugs = []struct {
	name    string
	forgets func(s powerloss.Sync) bool
	mutes   func(by string) bool
	found   string // a text that the check must report
}{
	{name: "NoSyncOfTheLog", forgets: func(s powerloss.Sync) bool { return s.Of == "wal" }, found: ""},
	{name: "NoSyncBeforeAnAnswer", forgets: func(s powerloss.Sync) bool { return s.Of == "wal" && s.By == "send" },
		found: "acknowledged send"},
	{name: "NoSyncBeforeADelivery", forgets: func(s powerloss.Sync) bool { return s.Of == "wal" && s.By == "serve" },
		found: "in its file"},
	{name: "ReadBeforeWritten", mutes: func(by string) bool { return by == "wait" },
		found: "is read and was not printed"},
	{name: "NoSyncOfTheDatabase", forgets: func(s powerloss.Sync) bool { return s.Of == "db" }, found: ""},
	{name: "NoSyncOfTheFiles", forgets: func(s powerloss.Sync) bool { return s.Of == "jsonl" },
		found: "is delivered and stands 0 times"},
	{name: "NoSyncOfStagedFiles", forgets: func(s powerloss.Sync) bool { return s.Of == "staged" },
		found: "is no whole message"},
	{name: "NoSyncOfTheStagingFolder", forgets: func(s powerloss.Sync) bool { return s.Of == "staging" },
		found: orchestrator.ErrUndecidable.Error()},
	{name: "NoSyncOfFolders", forgets: func(s powerloss.Sync) bool { return s.Of == "other" }, found: "gone"},
}

// recording records a load, or reads a kept recording.
func recording(t *testing.T, seed uint64, messages int) *powerloss.Recording {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("strace is missing: `make tools` installs it")
		}
		t.Skip("strace is missing")
	}
	folder, err := filepath.EvalSymlinks(scratch(t)) // strace resolves links
	if err != nil {
		t.Fatal(err)
	}
	if rec, err := powerloss.Read(folder); err == nil {
		t.Log("the recording of an earlier run")
		return rec
	}
	program := filepath.Join(folder, "mailroom")
	if out, err := exec.Command("go", "build", "-o", program, "mailroom/cmd/mailroom").CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	t.Log("the program is built")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	load := powerloss.Load{Program: program, Root: filepath.Join(folder, "root"), Seed: seed, Messages: messages}
	rec, err := powerloss.Record(t.Context(), load, folder, "env", driverKey+"=1", self)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("the load is recorded")
	if err := rec.Faithful(); err != nil {
		t.Fatal(err)
	}
	return rec
}

// scratch returns the folder KEEP or, without KEEP, a temporary folder. The folder is in memory if there is enough
// space, because the recording contains the syncs in any case.
func scratch(t *testing.T) string {
	t.Helper()
	if keep := os.Getenv("KEEP"); keep != "" {
		if err := os.MkdirAll(keep, 0o700); err != nil {
			t.Fatal(err)
		}
		if keep, err := filepath.Abs(keep); err == nil {
			return keep
		}
	}
	const memory, room = "/dev/shm", 2 << 30
	var s unix.Statfs_t
	if err := unix.Statfs(memory, &s); err != nil || s.Bavail*uint64(s.Bsize) < room {
		return t.TempDir()
	}
	folder, err := os.MkdirTemp(memory, "mailroom-powerloss-")
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
