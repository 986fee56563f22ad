package transport_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest"
	"mailroom/orchestrator/transport"
)

// On a disk with room for some of the messages, these are delivered whole. The others fail with a reason and leave
// nothing behind, and are delivered once there is room.
func TestDirDiskFull(t *testing.T) {
	t.Parallel()
	disk, err := filepath.EvalSymlinks(orchestratortest.SmallDisk(t, 1))
	must(t, err)
	l := &dirLedger{root: disk}
	must(t, l.try(t, note("first", `1`)))
	var ms []orchestrator.Message
	for i := range 20 {
		ms = append(ms, note(fmt.Sprintf("m%02d", i), `"`+strings.Repeat("x", 100_000)+`"`))
	}
	arrived := map[string]bool{"first": true}
	failed := 0
	for i, err := range (transport.Dir{}).Deliver(t.Context(), l.attempt(ms...)) {
		if err == nil {
			arrived[ms[i].ID] = true
		} else if failed++; !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", ms[i].ID, err)
		}
	}
	if failed == 0 || len(arrived) == 1 {
		t.Fatalf("%d messages fitted, %d did not", len(arrived)-1, failed)
	}
	l.mustBeStaged(t)
	check := func() {
		t.Helper()
		got := inFolder(t, l.root, "builder")
		for _, a := range got {
			if !arrived[a.ID] {
				t.Errorf("%s is there although its attempt failed", a.ID)
			}
		}
		if len(got) != len(arrived) {
			t.Errorf("%d files, not %d", len(got), len(arrived))
		}
	}
	check()
	for _, m := range ms {
		if arrived[m.ID] {
			must(t, os.Remove(filepath.Join(l.root, "builder", m.ID+".json")))
			delete(arrived, m.ID)
			continue
		}
		if found, err := l.recover(t, m); found || err != nil {
			t.Errorf("Recover of %s: %v, %v", m.ID, found, err)
		}
		must(t, l.try(t, m))
		arrived[m.ID] = true
		check()
		if len(arrived) > 5 {
			break
		}
	}
}

// A read-only disk fails the attempt before its note is stored, and Check detects it.
func TestDirReadOnly(t *testing.T) {
	t.Parallel()
	disk, err := filepath.EvalSymlinks(orchestratortest.SmallDisk(t, 1))
	must(t, err)
	l := &dirLedger{root: disk}
	must(t, l.try(t, note("first", `1`)))
	l.dieAfterMark(t, note("second", `1`))
	must(t, unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	if _, err := (transport.Dir{}).Check(disk); !errors.Is(err, syscall.EROFS) {
		t.Errorf("Check: %v", err)
	}
	if err := l.try(t, note("third", `1`)); !errors.Is(err, syscall.EROFS) {
		t.Errorf("Deliver: %v", err)
	}
	if found, err := l.recover(t, note("second", `1`)); found || !errors.Is(err, syscall.EROFS) {
		t.Errorf("Recover: %v, %v; want an error after which it can be asked again", found, err)
	}
	must(t, unix.Mount("", disk, "", unix.MS_REMOUNT, ""))
	if found, err := l.recover(t, note("second", `1`)); !found || err != nil {
		t.Errorf("Recover: %v, %v", found, err)
	}
	must(t, l.try(t, note("third", `1`)))
	if got := inFolder(t, disk, "builder"); len(got) != 3 {
		t.Errorf("arrived: %v", got)
	}
}

// If an agent's folder is on another disk, a rename into it fails. The attempt leaves nothing behind.
func TestDirFolderOnAnotherDisk(t *testing.T) {
	t.Parallel()
	disk := orchestratortest.SmallDisk(t, 1)
	l := newDir(t)
	inbox := filepath.Join(l.root, "builder")
	must(t, os.Mkdir(inbox, 0o700))
	must(t, unix.Mount(disk, inbox, "", unix.MS_BIND, ""))
	t.Cleanup(func() { unix.Unmount(inbox, unix.MNT_DETACH) })
	l.mustFail(t, note("m", `1`), inbox+" and "+l.root+" must be on the same file system",
		func() { must(t, unix.Unmount(inbox, unix.MNT_DETACH)) })
}
