package orchestrator

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// turnstile lets the processes that write one database pass one after the other. SQLite's own waiting starves: with eight
// processes one waited for 1.9 s of 2 s. It is fairness, not correctness: whoever cannot pass in time goes on without,
// since a stopped holder must not halt everybody, and BEGIN IMMEDIATE still keeps writers apart. The lock is a flock on a
// file of its own; the database, its -wal and its -shm must never be opened and closed here, which would drop SQLite's
// locks. Source: engine.md, "SQLite settings".
//
// enter is called by one goroutine at a time.
type turnstile struct {
	path string

	mu      sync.Mutex
	file    *os.File
	waiting chan struct{} // closed when a helper that was left behind has let go again; nil when there is none
	useless bool          // the lock file cannot be had
}

func newTurnstile(path string) *turnstile { return &turnstile{path: path + "-turnstile"} }

// enter waits for its turn, for at most bound, and returns what ends it. It never fails.
func (s *turnstile) enter(bound time.Duration) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready() {
		return func() {}
	}
	fd := int(s.file.Fd())
	switch err := flock(fd, unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return func() { flock(fd, unix.LOCK_UN) }
	case !errors.Is(err, unix.EWOULDBLOCK):
		return func() {}
	}
	return s.wait(fd, bound)
}

// ready opens the lock file. A helper left behind by an earlier wait still waits on the same open file, where a second
// flock would succeed without excluding anybody: until it has let go, there is no turnstile.
func (s *turnstile) ready() bool {
	if s.waiting != nil {
		select {
		case <-s.waiting:
			s.waiting = nil
		default:
			return false
		}
	}
	if s.file == nil && !s.useless {
		file, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
		s.file, s.useless = file, err != nil
	}
	return !s.useless
}

// wait queues in a helper goroutine, since a flock cannot be given up. Past the bound the helper is left behind, and
// lets go as soon as it gets the lock.
func (s *turnstile) wait(fd int, bound time.Duration) (leave func()) {
	turn, abandoned, gone := make(chan error), make(chan struct{}), make(chan struct{})
	goSafe("turnstile", slog.Default(), func() {
		defer close(gone)
		err := flock(fd, unix.LOCK_EX)
		select {
		case turn <- err:
		case <-abandoned:
			if err == nil {
				flock(fd, unix.LOCK_UN)
			}
		}
	})
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case err := <-turn:
		if err != nil {
			return func() {}
		}
		return func() { flock(fd, unix.LOCK_UN) }
	case <-timer.C:
		close(abandoned)
		s.waiting = gone
		return func() {}
	}
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// close gives the lock file back. While a helper still waits on it, the file is left to it and to the end of the
// process.
func (s *turnstile) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil && s.ready() {
		s.file.Close()
		s.file = nil
	}
}
