package program_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
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
	folder := program.SlotFolder(filepath.Join(t.TempDir(), "mailroom.db"))
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
	for path, want := range map[string]os.FileMode{folder: os.ModeDir | 0o700,
		filepath.Join(folder, "builder.0"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// Names and folders that would lead elsewhere are refused.
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

// Of any number of processes that want a slot, one gets it, even if its file is removed in between and others still
// have the old file open.
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

// If a slot is released while its command runs, as a router does that abandons a stuck attempt, it stays taken
// until the command has ended.
func TestSlotOutlastsItsRelease(t *testing.T) {
	t.Parallel()
	folder, l := t.TempDir(), newLine(t)
	slot, err := program.TakeSlot(folder, "builder.0")
	must(t, err)
	r, err := program.Start(t.Context(), program.Command{
		Text: `exec 9> "$LINE"; echo ready >&9; read word < word`, Folder: mkfifo(t, folder, "word"),
		Env: []string{l.env()}, Slot: slot,
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
			Text: os.Getenv("TEXT"), Folder: folder,
			Env: []string{"LINE=" + os.Getenv("LINE")}, Slot: slot, Log: slot.Path() + ".log",
		})
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// startStarter starts a starter, and returns when its command has printed that it is ready.
func startStarter(t *testing.T, l *line, folder, text string) (kill func()) {
	t.Helper()
	mkfifo(t, folder, "word")
	parent := exec.Command(os.Args[0], "starter")
	parent.Env = append(os.Environ(), "FOLDER="+folder, "TEXT="+text, l.env())
	parent.Stderr = os.Stderr
	must(t, parent.Start())
	if word := l.hear(); word != "ready" {
		t.Fatalf("the command says %q", word)
	}
	return func() {
		must(t, parent.Process.Kill())
		_ = parent.Wait() // killed
	}
}

// If the parent is killed while its command runs, nobody can start a second command before that one has ended. The
// log keeps its output meanwhile.
func TestSlotOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	for range 20 {
		folder, l := t.TempDir(), newLine(t)
		startStarter(t, l, folder, `exec 9> "$LINE"; echo ready >&9; read word < word; echo "$word, says the orphan"`)()
		if _, err := program.TakeSlot(folder, "builder.0"); !errors.Is(err, orchestrator.ErrNoSlot) {
			t.Errorf("while the command of a killed process runs: %v", err)
		}
		must(t, os.WriteFile(filepath.Join(folder, "word"), []byte("end\n"), 0))
		l.silent()
		file, err := os.Open(filepath.Join(folder, "builder.0"))
		must(t, err)
		must(t, unix.Flock(int(file.Fd()), unix.LOCK_EX)) // waits for the end
		file.Close()
		slot := takeSoon(t, folder)
		if said, err := program.ReadLog(slot.Path() + ".log"); said != "end, says the orphan\n" || err != nil {
			t.Errorf("the log has %q, %v", said, err)
		}
		slot.Release()
	}
}

// A background process of a killed process's command still has the lock. The slot becomes free, once, when the
// command itself has ended.
func TestSlotIsFreeOfWhatIsLeftRunning(t *testing.T) {
	t.Parallel()
	folder, l := t.TempDir(), newLine(t)
	kill := startStarter(t, l, folder,
		`sleep 1000 & echo $! > left; echo $$ > self; exec 9> "$LINE"; echo ready >&9; read word < word`)
	left, self := number(t, filepath.Join(folder, "left")), number(t, filepath.Join(folder, "self"))
	t.Cleanup(func() { must(t, unix.Kill(left, unix.SIGKILL)) })
	if holder := program.Holder(folder, "builder.0"); holder != self {
		t.Errorf("%d holds the slot, not %d", holder, self)
	}
	kill()
	if _, err := program.TakeSlot(folder, "builder.0"); !errors.Is(err, orchestrator.ErrNoSlot) {
		t.Errorf("while the command runs: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(folder, "word"), []byte("end\n"), 0))
	l.silent()
	var taken atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for taken.Load() == 0 { // the command is about to end
				slot, err := program.TakeSlot(folder, "builder.0")
				switch {
				case err == nil:
					taken.Add(1)
					defer runtime.KeepAlive(slot)
				case !errors.Is(err, orchestrator.ErrNoSlot):
					t.Error(err)
					return
				}
				runtime.Gosched()
			}
			if slot, err := program.TakeSlot(folder, "builder.0"); !errors.Is(err, orchestrator.ErrNoSlot) {
				t.Errorf("taken twice: %v, %v", slot, err)
			}
		})
	}
	wg.Wait()
	if holder := program.Holder(folder, "builder.0"); holder != 0 || taken.Load() != 1 {
		t.Errorf("taken %d times, held by %d", taken.Load(), holder)
	}
}

// takeSoon takes the slot of a command that is about to end.
func takeSoon(t *testing.T, folder string) *program.Slot {
	t.Helper()
	for {
		slot, err := program.TakeSlot(folder, "builder.0")
		if err == nil {
			return slot
		}
		if !errors.Is(err, orchestrator.ErrNoSlot) {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
}

// A command that closes its inherited files, as sudo does, keeps its slot even if its process is killed.
func TestSlotIsClosedByItsCommand(t *testing.T) {
	t.Parallel()
	if program.Reused(t) == "" {
		t.Skip("this system does not tell when a process began")
	}
	folder, l := t.TempDir(), newLine(t)
	kill := startStarter(t, l, folder, `exec 3>&-; exec 9> "$LINE"; echo ready >&9; read word < word`)
	kill()
	if _, err := program.TakeSlot(folder, "builder.0"); !errors.Is(err, orchestrator.ErrNoSlot) {
		t.Errorf("while the command runs: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(folder, "word"), []byte("end\n"), 0))
	l.silent()
	takeSoon(t, folder).Release()
}

// Holder distinguishes the command that runs with a slot from another process with the same process ID, and from an
// ended command.
func TestHolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	want := func(what string, pid int) {
		t.Helper()
		if holder := program.Holder(folder, "builder.0"); holder != pid {
			t.Errorf("%s: %d holds the slot, not %d", what, holder, pid)
		}
	}
	want("no slot", 0)
	slot, err := program.TakeSlot(folder, "builder.0")
	must(t, err)
	want("no command", 0)
	reused := program.Reused(t)
	if reused == "" {
		t.Skip("this system does not tell when a process began")
	}
	r, err := program.Start(t.Context(), program.Command{Text: "exec sleep 1000", Slot: slot, Grace: ages})
	must(t, err)
	want("it runs", r.PID())
	program.EndGroup(r.PID(), false)
	if ended := r.Wait(); ended.Signal != unix.SIGTERM {
		t.Errorf("%+v", ended)
	}
	want("it has ended", 0)
	r, err = program.Start(t.Context(), program.Command{Text: "exec sleep 1000", Slot: slot, Grace: ages})
	must(t, err)
	program.EndGroup(r.PID(), true)
	if ended := r.Wait(); ended.Signal != unix.SIGKILL {
		t.Errorf("%+v", ended)
	}
	slot.Release()
	must(t, os.WriteFile(filepath.Join(folder, "builder.0"), []byte(reused), 0))
	want("another has its number", 0)
}

// number reads a process ID from a file.
func number(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	return n
}

// A slot whose file names no holders, or whose holders are in another container, counts as taken while it is
// locked. A slot whose holders' process IDs were reused does not.
func TestSlotOfSomebodyUnknown(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "builder.0")
	file, err := os.Create(path)
	must(t, err)
	defer file.Close()
	must(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	const elsewhere = `{"pid":1,"space":"pid:[1]"}`
	for _, text := range []string{"", "no JSON", `null`, `{"owner":` + elsewhere + `}`,
		`{"command":` + elsewhere + `}`} {
		must(t, os.WriteFile(path, []byte(text), 0))
		if _, err := program.TakeSlot(folder, "builder.0"); !errors.Is(err, orchestrator.ErrNoSlot) {
			t.Errorf("%s: %v", text, err)
		}
	}
	reused := program.Reused(t)
	if reused == "" {
		return // this system does not show when a process began
	}
	must(t, os.WriteFile(path, []byte(reused), 0))
	slot, err := program.TakeSlot(folder, "builder.0")
	must(t, err)
	slot.Release()
}

// A process that was stopped while it took a slot blocks nobody for long.
func TestSlotWhileAnotherIsStopped(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file, err := os.Open(folder)
	must(t, err)
	defer file.Close()
	must(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	if _, err := program.TakeSlot(folder, "builder.0"); !errors.Is(err, orchestrator.ErrNoSlot) {
		t.Errorf("%v", err)
	}
	must(t, unix.Flock(int(file.Fd()), unix.LOCK_UN))
	slot, err := program.TakeSlot(folder, "builder.0")
	must(t, err)
	slot.Release()
}

// A command that was not recorded in its slot, because its parent was killed at that moment, does nothing.
func TestGate(t *testing.T) {
	t.Parallel()
	slot, err := program.TakeSlot(t.TempDir(), "builder.0")
	must(t, err)
	defer slot.Release()
	cmd := exec.Command("/bin/sh", "-c", "echo at work")
	out, err := program.Ungated(slot, cmd)
	if status := cmd.ProcessState.ExitCode(); out != "" || status != 1 {
		t.Errorf("it said %q and ended with %d, %v", out, status, err)
	}
}

// A command inherits its slot, and no other open file of ours.
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
	tests := filepath.Join(os.TempDir(), "Test") // files of other tests, which run in parallel
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
		if strings.Contains(out, " 4 -> pipe:") || strings.Count(out, tests) != want ||
			!strings.Contains(out, " 0 -> ") {
			t.Errorf("descriptors:\n%s", out)
		}
	}
}
