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

// Slot is the right to run one command at a time among all processes of the machine. It is a lock on a file that
// the command inherits. The file records which processes hold the slot. If our process is killed, the slot stays
// taken until the command has ended. Background processes of the command also keep the lock, but the file shows
// that the command itself has ended. The methods of a Slot may be called concurrently and on nil.
type Slot struct {
	file *os.File

	mu       sync.Mutex
	users    int
	released bool
}

// TakeSlot takes the slot with this name, a file in folder. It creates the folder with mode 0700 if it does not
// exist. It does not wait: it returns orchestrator.ErrNoSlot if the slot is taken.
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
			err = os.Remove(path) // the lock on the removed file no longer excludes anyone
		} else if err == nil && standsAt(file, path) {
			if err = begin(file); err == nil {
				return &Slot{file: file}, nil
			}
		}
		file.Close() // if err is nil, another process removed the file
		if err != nil {
			return nil, err
		}
	}
}

// begin records this process as the owner of a slot that it has locked.
func begin(file *os.File) error {
	if runningCommand(file) != 0 {
		// The process that started the command has died. The command runs without the lock because it closed the
		// inherited file, as sudo(8) does.
		return orchestrator.ErrNoSlot
	}
	h := holders{Owner: process.Of(os.Getpid())}
	return h.write(file)
}

// A guard is held only briefly. It is tried every guardPoll, guardTries times, so that a stopped holder blocks
// nobody for long.
const (
	guardPoll  = time.Millisecond
	guardTries = 1000
)

// guard prevents other processes from taking slots in a folder, or from recording a slot's command, until unlock is
// called. Child processes do not inherit it. guard returns orchestrator.ErrNoSlot if it cannot get the lock in
// time.
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
		_ = unix.Flock(int(file.Fd()), unix.LOCK_UN) // closing would also unlock, unless a child is being forked
		file.Close()
	}, nil
}

// leftOver reports whether only background processes of a command hold the lock on a slot's file: the command
// itself and the process that started it have ended. A file that names no holders counts as taken.
func leftOver(file *os.File) bool {
	h := holdersIn(file)
	return h != nil && !h.Owner.Alive() && !h.Command.Alive()
}

// runningCommand returns the process ID of the last command named in a slot's file if that command still runs, and
// 0 otherwise.
func runningCommand(file *os.File) (pid int) {
	if h := holdersIn(file); h != nil && h.Command.Born != "" && h.Command.Here() {
		return h.Command.PID
	}
	return 0
}

// Holder returns the process ID of the command that runs with a slot, which is also its group ID, or 0 if none is
// known. It does not take the slot.
func Holder(folder, name string) int {
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	defer file.Close()
	return runningCommand(file)
}

// lock locks a file without waiting. It returns orchestrator.ErrNoSlot if another process has the lock.
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

// standsAt reports whether path still refers to an open file.
func standsAt(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, named)
}

// Path returns the path of the slot's file.
func (s *Slot) Path() string { return s.file.Name() }

// Release releases the slot at once, or as soon as the command that runs with it has ended. Background processes of
// an ended command do not keep the slot.
func (s *Slot) Release() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	s.unlock()
}

// hold makes a command that is about to start inherit the slot. It returns the gate behind which the command waits.
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

// drop records that a command which held the slot has ended.
func (s *Slot) drop() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	s.unlock()
}

// unlock releases the lock if nobody needs it. Closing the file is not enough, because copies of the descriptor may
// be open elsewhere.
func (s *Slot) unlock() {
	if !s.released || s.users > 0 || s.file == nil {
		return
	}
	_ = unix.Flock(int(s.file.Fd()), unix.LOCK_UN) // closing would also unlock, unless there are copies
	s.file.Close()
	s.file = nil
}

// holders are the processes that hold a slot, as recorded in its file.
type holders struct {
	Owner   process.ID `json:"owner"`   // took the slot
	Command process.ID `json:"command"` // the last command that the owner started
}

// holdersSize is the size of a slot's file. The file is written in place in one write, so readers never see a part
// of it.
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

// holdersIn returns the holders recorded in a slot's file, or nil if the file names none.
func holdersIn(file *os.File) (h *holders) {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, holdersSize))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return nil
	}
	return h
}

// EndGroup sends SIGTERM, or SIGKILL if kill is set, to the group of a command that another process started. The
// caller must know that pid still belongs to the command, see Holder.
func EndGroup(pid int, kill bool) {
	signal := unix.SIGTERM
	if kill {
		signal = unix.SIGKILL
	}
	_ = unix.Kill(-pid, signal) // an error means that the group has ended
	_ = unix.Kill(-pid, unix.SIGCONT)
}

// gate makes a command with a slot wait until its process is recorded in the slot. If our process is killed before,
// the command ends. So no command runs that is not recorded in its slot.
type gate struct {
	slot         *os.File
	ours, theirs *os.File // ends of a pipe; the command waits for a line from it
}

// gated is the shell script that runs a command behind a gate.
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

// open records the process of the command and lets the command run. If open fails or is not called, the command
// ends when the gate is closed.
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
		_, _ = g.ours.WriteString("\n") // fails if the command has been ended
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
