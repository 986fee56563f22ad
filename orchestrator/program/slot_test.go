package program_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/program"
)

func TestSlot(t *testing.T) {
	t.Parallel()
	folder := orchestrator.SlotFolder(filepath.Join(t.TempDir(), "mailroom.db"))
	first, err := program.TakeSlot(folder, "builder.0")
	must(t, err)
	if _, err := program.TakeSlot(folder, "builder.0"); !errors.Is(err, orchestrator.ErrNoSlot) {
		t.Errorf("taken twice: %v", err)
	}
	other, err := program.TakeSlot(folder, "builder.1")
	must(t, err)
	other.Release()
	first.Release()
	first.Release()
	again, err := program.TakeSlot(folder, "builder.0")
	must(t, err)
	again.Release()
	var none *program.Slot
	none.Release()
	for path, want := range map[string]os.FileMode{folder: os.ModeDir | 0o700, filepath.Join(folder, "builder.0"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// Names and folders that would lead elsewhere.
func TestSlotRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	must(t, os.Symlink(filepath.Join(folder, "elsewhere"), filepath.Join(folder, "link")))
	must(t, os.WriteFile(filepath.Join(folder, "file"), nil, 0o600))
	for _, name := range []string{"", ".", "..", ".hidden", "../x", "a/b", "a\x00b", "link"} {
		if _, err := program.TakeSlot(folder, name); err == nil || errors.Is(err, orchestrator.ErrNoSlot) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, bad := range []string{filepath.Join(folder, "file"), filepath.Join(folder, "no", "such")} {
		if _, err := program.TakeSlot(bad, "x"); err == nil || errors.Is(err, orchestrator.ErrNoSlot) {
			t.Errorf("in %s: %v", bad, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(folder, "elsewhere")); err == nil {
		t.Error("a link was followed")
	}
}

// However many want it, one has it; also when its file is removed in between, which those who have opened it do not see.
func TestSlotIsOnePerName(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var held, taken atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				slot, err := program.TakeSlot(folder, "builder.0")
				if errors.Is(err, orchestrator.ErrNoSlot) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if held.Add(1) != 1 {
					t.Error("two hold it")
				}
				for range 10 {
					runtime.Gosched()
				}
				held.Add(-1)
				if taken.Add(1)%2 == 0 {
					if err := os.Remove(slot.Path()); err != nil {
						t.Error(err)
					}
				}
				slot.Release()
			}
		})
	}
	wg.Wait()
	if taken.Load() == 0 {
		t.Error("nobody ever had it")
	}
}

// A slot that is given up while its command runs, as a router does that leaves a stuck attempt behind, stays taken until
// the command has ended.
func TestSlotOutlastsItsRelease(t *testing.T) {
	t.Parallel()
	folder, l := t.TempDir(), newLine(t)
	slot, err := program.TakeSlot(folder, "builder.0")
	must(t, err)
	r, err := program.Start(t.Context(), program.Command{
		Text: `exec 9> "$LINE"; echo ready >&9; read word < word`, Folder: mkfifo(t, folder, "word"), Env: []string{l.env()}, Slot: slot,
	})
	must(t, err)
	l.hear()
	slot.Release()
	if _, err := program.TakeSlot(folder, "builder.0"); !errors.Is(err, orchestrator.ErrNoSlot) {
		t.Errorf("while the command runs: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(folder, "word"), []byte("end\n"), 0))
	r.Wait()
	again, err := program.TakeSlot(folder, "builder.0")
	must(t, err)
	again.Release()
}

// starter is a process that starts a command with a slot and waits to be killed.
func starter() {
	folder := os.Getenv("FOLDER")
	slot, err := program.TakeSlot(folder, "builder.0")
	if err == nil {
		_, err = program.Start(context.Background(), program.Command{
			Text: `exec 9> "$LINE"; echo ready >&9; read word < word; echo "$word, says the orphan"`, Folder: folder,
			Env: []string{"LINE=" + os.Getenv("LINE")}, Slot: slot, Log: slot.Path() + ".log",
		})
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// The parent is killed while its command lives: nobody can start a second one before the command has ended. What it
// prints into a log meanwhile is kept.
func TestSlotOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	for range 20 {
		folder, l := t.TempDir(), newLine(t)
		mkfifo(t, folder, "word")
		parent := exec.Command(os.Args[0], "starter")
		parent.Env = append(os.Environ(), "FOLDER="+folder, l.env())
		parent.Stderr = os.Stderr
		must(t, parent.Start())
		if word := l.hear(); word != "ready" {
			t.Fatalf("the command says %q", word)
		}
		must(t, parent.Process.Kill())
		_ = parent.Wait() // it was killed
		if _, err := program.TakeSlot(folder, "builder.0"); !errors.Is(err, orchestrator.ErrNoSlot) {
			t.Errorf("while the command of a killed process runs: %v", err)
		}
		must(t, os.WriteFile(filepath.Join(folder, "word"), []byte("end\n"), 0))
		l.silent()
		file, err := os.Open(filepath.Join(folder, "builder.0"))
		must(t, err)
		must(t, unix.Flock(int(file.Fd()), unix.LOCK_EX)) // waits for the end
		file.Close()
		slot, err := program.TakeSlot(folder, "builder.0")
		must(t, err)
		if said, err := program.ReadLog(slot.Path() + ".log"); said != "end, says the orphan\n" || err != nil {
			t.Errorf("the log has %q, %v", said, err)
		}
		slot.Release()
	}
}

// A command inherits its slot, and nothing else that we have open.
func TestNothingElseIsInherited(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("this system does not tell what a descriptor is of")
	}
	folder := t.TempDir()
	open, err := os.Create(filepath.Join(folder, "secret"))
	must(t, err)
	defer open.Close()
	slot, err := program.TakeSlot(folder, "builder.0")
	must(t, err)
	defer slot.Release()
	tests := filepath.Join(os.TempDir(), "Test") // files of any test, which run beside each other
	for _, c := range []program.Command{{}, {Slot: slot}} {
		c.Text, c.Input = "ls -l /proc/self/fd/", []byte("x")
		out := run(t, c).Output
		want := 0
		if c.Slot != nil {
			want = strings.Count(out, " 3 -> "+slot.Path()+"\n")
			if want != 1 {
				t.Errorf("descriptor 3 is not the slot:\n%s", out)
			}
		}
		if strings.Count(out, tests) != want || !strings.Contains(out, " 0 -> ") {
			t.Errorf("descriptors:\n%s", out)
		}
	}
}
