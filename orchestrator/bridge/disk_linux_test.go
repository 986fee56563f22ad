package bridge_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/bridge"
	"mailroom/orchestrator/orchestratortest"
	"mailroom/orchestrator/orchestratortest/want"
)

// TestReadOnlyRoot checks that a read-only root is refused.
func TestReadOnlyRoot(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.root = orchestratortest.SmallDisk(t, 1)
	must(t, unix.Mount("", o.root, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err := bridge.Once(t.Context(), o.Engine, o.options())
	want.Equal(t, "code", orchestrator.CodeOf(err), orchestrator.InvalidParams)
}

// TestRootTurnsReadOnly checks that while the root is read-only, messages are still imported, each once, and that a
// file that cannot be removed is a problem until it can.
func TestRootTurnsReadOnly(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	disk := orchestratortest.SmallDisk(t, 1)
	must(t, os.Mkdir(o.root, 0o700))
	must(t, unix.Mount(disk, o.root, "", unix.MS_BIND, "")) // the same folder, which can be made read-only by itself
	t.Cleanup(func() { unix.Unmount(o.root, unix.MNT_DETACH) })
	for _, agent := range []string{"pm", "developer:", "qa"} {
		o.add(agent)
	}
	w := o.watch(50 * time.Millisecond)
	for _, folder := range []string{"developer", "qa"} {
		must(t, os.MkdirAll(filepath.Join(disk, folder), 0o700))
	}
	must(t, unix.Mount("", o.root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	drop(t, filepath.Join(disk, "developer"), "m1", note("m1", "pm", "developer"), "rename")
	drop(t, filepath.Join(disk, "qa"), "m2", note("m2", "pm", "qa"), "rename")
	w.until(func() bool {
		return o.count(`SELECT count(*) FROM agent_message WHERE status = 'delivered'`) == 2 &&
			o.log.told("m2.json") == 1
	})
	o.wantRows(`SELECT problem FROM bridge_problems`, "the message was imported, but its file cannot be removed: read-only file system")
	must(t, unix.Mount("", o.root, "", unix.MS_BIND|unix.MS_REMOUNT, ""))
	w.until(func() bool { return !o.exists("qa", "m2.json") && o.count(`SELECT count(*) FROM bridge_problems`) == 0 })
	want.Equal(t, "taken in", w.stop().TakenIn, 2)
	want.Equal(t, "the delivery is there", o.exists("developer", "m1.json"), true)
	o.checkOnce()
}

// TestFullDatabase checks that while the database has no room, files wait, nothing is lost, and nothing is reported
// twice.
func TestFullDatabase(t *testing.T) {
	t.Parallel()
	disk := orchestratortest.SmallDisk(t, 4)
	o := newOffice(t)
	must(t, o.Close())
	o.Path = filepath.Join(disk, "mailroom.db")
	o.Engine = open(t, o.Path, o.log)
	for _, agent := range []string{"pm", "developer:", "qa"} {
		o.add(agent)
	}
	o.once()
	filler, err := os.Create(filepath.Join(disk, "filler"))
	must(t, err)
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	must(t, filler.Close())
	o.write(note("m1", "pm", "developer"), "developer", "m1.json")
	o.write(note("m2", "pm", "qa"), "qa", "m2.json")
	if counts, err := bridge.Once(t.Context(), o.Engine, o.options()); err == nil {
		t.Errorf("on a full disk: %+v", counts)
	}
	want.Equal(t, "files that wait", o.exists("developer", "m1.json") && o.exists("qa", "m2.json"), true)
	must(t, os.Remove(filler.Name()))
	want.Equal(t, "counts", o.once(), bridge.Counts{TakenIn: 2, Delivered: 1})
}
