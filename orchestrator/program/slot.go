//go:build unix

package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/process"
)

// Slot is the right to run one command at a time among all processes of the machine: a lock on a file, which the
// command inherits. The file says which processes have it. When our process is killed, the slot stays taken until the
// command has ended. What the command left running in the background keeps the lock, too; the file shows that the
// command itself has ended. Its methods may be called concurrently, and for nil.
type Slot struct {
	file *os.File

	mu       sync.Mutex
	users    int
	released bool
}

// TakeSlot takes the slot of this name, a file of the folder, which is made with mode 0700 when it is not there. It
// does not wait: orchestrator.ErrNoSlot says that somebody has it.
func TakeSlot(folder, name string) (*Slot, error) {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\x00") {
		return nil, fmt.Errorf("%q is not a valid slot name", name)
	}
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("cannot open the folder for the locks of running commands: %w", err)
	}
	unlock, err := guard(folder)
	if err != nil {
		return nil, err
	}
	defer unlock()
	path := filepath.Join(folder, name)
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, fmt.Errorf("cannot open the lock of a running command: %w", err)
		}
		err = lock(file)
		if errors.Is(err, orchestrator.ErrNoSlot) && leftOver(file) {
			err = os.Remove(path) // its lock excludes nobody any more
		} else if err == nil && standsAt(file, path) {
			if err = begin(file); err == nil {
				return &Slot{file: file}, nil
			}
		}
		file.Close() // without an error, somebody removed it
		if err != nil {
			return nil, err
		}
	}
}

// begin notes that a slot whose lock we have is ours now.
func begin(file *os.File) error {
	if runningCommand(file) != 0 {
		// The process that started it has died, and it runs without the lock: it has closed what it inherited, as
		// sudo(8) does.
		return orchestrator.ErrNoSlot
	}
	h := holders{Owner: process.Of(os.Getpid())}
	return h.write(file)
}

// A guard is held for a moment. It is tried every guardPoll, guardTries times: a holder that was stopped must halt
// nobody.
const (
	guardPoll  = time.Millisecond
	guardTries = 1000
)

// guard excludes all others that take slots in a folder, or note in one which command runs with it, until it is
// unlocked. Nobody inherits it. orchestrator.ErrNoSlot says that it was not to be had.
func guard(folder string) (unlock func(), err error) {
	file, err := os.Open(folder)
	if err != nil {
		return nil, fmt.Errorf("cannot open the folder for the locks of running commands: %w", err)
	}
	err = lock(file)
	for i := 1; i < guardTries && errors.Is(err, orchestrator.ErrNoSlot); i++ {
		time.Sleep(guardPoll)
		err = lock(file)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return func() {
		_ = unix.Flock(int(file.Fd()), unix.LOCK_UN) // closing it unlocks it too, unless a child was forked at this moment
		file.Close()
	}, nil
}

// leftOver reports whether the lock on a slot's file is kept only by what a command left running in the background: the
// command itself has ended, and the process that started it has died. A file that names no holders counts as taken.
func leftOver(file *os.File) bool {
	h := holdersIn(file)
	return h != nil && !h.Owner.Alive() && !h.Command.Alive()
}

// runningCommand returns the number of the process that a slot's file names as the last command, if that still runs;
// else 0.
func runningCommand(file *os.File) (pid int) {
	if h := holdersIn(file); h != nil && h.Command.Born != "" && h.Command.Here() {
		return h.Command.PID
	}
	return 0
}

// Holder returns the number of the process of the command that runs with a slot, which leads its group; 0 if none is
// known. It takes no slot.
func Holder(folder, name string) int {
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	defer file.Close()
	return runningCommand(file)
}

// lock locks a file without waiting. orchestrator.ErrNoSlot says that somebody else has it.
func lock(file *os.File) error {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return orchestrator.ErrNoSlot
	}
	if err != nil {
		return fmt.Errorf("cannot lock %s: %w", file.Name(), err)
	}
	return nil
}

// standsAt reports whether path is still the name of an open file.
func standsAt(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, named)
}

// Path is the file of the slot.
func (s *Slot) Path() string { return s.file.Name() }

// Release gives the slot up: at once, or as soon as the command that runs with it has ended. What a command that has
// ended left running in the background does not keep it.
func (s *Slot) Release() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	s.unlock()
}

// hold lets a command that is about to start inherit the slot. It returns the gate behind which the command waits.
func (s *Slot) hold(cmd *exec.Cmd) (*gate, error) {
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return nil, errors.New("the slot was released before the command started")
	}
	g, err := newGate(s.file, cmd)
	if err != nil {
		return nil, err
	}
	s.users++
	return g, nil
}

// drop notes that a command which held the slot has ended.
func (s *Slot) drop() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	s.unlock()
}

// unlock frees the slot when nobody needs it. Closing the file would not do: copies of it may be open elsewhere.
func (s *Slot) unlock() {
	if !s.released || s.users > 0 || s.file == nil {
		return
	}
	_ = unix.Flock(int(s.file.Fd()), unix.LOCK_UN) // closing it unlocks it too, but for the copies
	s.file.Close()
	s.file = nil
}

// holders are the processes that have taken a slot, as its file names them.
type holders struct {
	Owner   process.ID `json:"owner"`   // that took it
	Command process.ID `json:"command"` // that it started last
}

// holdersSize is the size of a slot's file. It is written in one piece and in place, so that nobody sees a part of it.
const holdersSize = 512

func (h *holders) write(file *os.File) error {
	text, err := json.Marshal(h)
	if err == nil {
		_, err = file.WriteAt(fmt.Appendf(nil, "%-*s\n", holdersSize-1, text), 0)
	}
	if err != nil {
		return fmt.Errorf("cannot record the owner of the lock of a running command: %w", err)
	}
	return nil
}

// holdersIn returns the holders that the file of a slot names; nil when it names none.
func holdersIn(file *os.File) (h *holders) {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, holdersSize))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return nil
	}
	return h
}

// EndGroup asks the group of a command that another process started to end, with SIGTERM, or ends it with SIGKILL. The
// caller knows that pid is still the command's, see Holder.
func EndGroup(pid int, kill bool) {
	signal := unix.SIGTERM
	if kill {
		signal = unix.SIGKILL
	}
	_ = unix.Kill(-pid, signal) // an error means that it has ended
	_ = unix.Kill(-pid, unix.SIGCONT)
}

// gate makes a command with a slot wait until its process is noted in the slot. If we are killed before, the command
// ends: so no command runs that is not noted in its slot.
type gate struct {
	slot         *os.File
	ours, theirs *os.File // of a pipe; the command waits for a line from it
}

// gated is what the shell runs for a command behind a gate.
const gated = `read -r MAILROOM_GO <&4 && exec 4<&- && exec /bin/sh -c "$1"`

// newGate puts a command `sh -c TEXT` behind a gate.
func newGate(slot *os.File, cmd *exec.Cmd) (*gate, error) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot prepare the command: %w", err)
	}
	cmd.Args = []string{cmd.Args[0], "-c", gated, "sh", cmd.Args[2]}
	cmd.ExtraFiles = []*os.File{slot, theirs} // 3 and 4
	return &gate{slot: slot, ours: ours, theirs: theirs}, nil
}

// open notes the process of the command and lets it go. After an error, and without this, it ends when the gate is
// closed.
func (g *gate) open(pid int) error {
	if g == nil {
		return nil
	}
	unlock, err := guard(filepath.Dir(g.slot.Name()))
	if err != nil {
		return err
	}
	h := holders{Owner: process.Of(os.Getpid()), Command: process.Of(pid)}
	err = h.write(g.slot)
	unlock()
	if err == nil {
		_, _ = g.ours.WriteString("\n") // it fails when somebody has ended the command
	}
	return err
}

func (g *gate) close() {
	if g == nil {
		return
	}
	g.ours.Close()
	g.theirs.Close()
}
