package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
)

// Slot is the right to run one command at a time among all processes of the machine: a lock on a file, which the command
// inherits. When our process is killed, the slot stays taken until the command has ended, and so has whatever it left
// running in the background. Its methods may be called concurrently, and for nil.
type Slot struct {
	file *os.File

	mu       sync.Mutex
	users    int
	released bool
}

// TakeSlot takes the slot of this name, a file of the folder, which is made with mode 0700 when it is not there. It does
// not wait: orchestrator.ErrNoSlot says that somebody has it.
func TakeSlot(folder, name string) (*Slot, error) {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\x00") {
		return nil, fmt.Errorf("a slot cannot be named %q", name)
	}
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("the folder for the locks of running commands: %w", err)
	}
	path := filepath.Join(folder, name)
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, fmt.Errorf("the lock of a running command: %w", err)
		}
		if err := lock(file); err != nil {
			file.Close()
			return nil, err
		}
		if standsAt(file, path) {
			return &Slot{file: file}, nil
		}
		file.Close() // somebody removed it meanwhile: a lock on it excludes nobody
	}
}

func lock(file *os.File) error {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return orchestrator.ErrNoSlot
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("locking %s: %w", file.Name(), err)
		}
	}
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

// hold lets a command that is about to start inherit the slot.
func (s *Slot) hold(cmd *exec.Cmd) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return errors.New("the slot of the command was given up before it started")
	}
	s.users++
	cmd.ExtraFiles = []*os.File{s.file}
	return nil
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
