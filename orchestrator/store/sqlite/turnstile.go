package sqlite

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
)

// turnstile lets the processes that write one database take turns. SQLite's own lock is correct but unfair: a process
// may find it taken again and again. The turnstile is fairness and nothing more, so whatever goes wrong with it (a
// read-only folder, a file system without flock, a process that was stopped inside) means going on without it.
//
// It is a flock on a file of its own, DBPATH-turnstile, which stays when all are gone: to remove it would split those
// who wait from those who come. It never touches the database, its -wal or its -shm, since closing any descriptor of
// those would drop the locks that SQLite holds on them.
//
// One goroutine at a time enters. A flock belongs to the open file, not to the goroutine: a second flock on the same
// open file succeeds at once. That is why at most one call is ever waiting in the kernel, and why nobody tries the
// lock while it does.
type turnstile struct {
	path string

	mu      sync.Mutex
	open    bool
	fd      int
	held    bool          // this process is inside
	waiting chan struct{} // not nil: a helper waits in the kernel; it is closed when the helper is done
	wanted  bool          // somebody still waits for that helper
	closed  bool
}

// newTurnstile returns the turnstile of the database at path. It touches nothing before the first enter.
func newTurnstile(path string) *turnstile { return &turnstile{path: path + "-turnstile"} }

// enter waits for this process's turn, for at most bound, and returns the function that ends it. It never fails: when
// the turn does not come in time it returns too, and leave then does nothing. From then on, until the process that
// holds the turnstile up lets go, enter does not wait at all, so that one stopped process does not slow down each
// single write of the others. Entering again while inside has no effect; the first leave ends the turn.
func (t *turnstile) enter(bound time.Duration) (leave func()) {
	t.mu.Lock()
	if t.held {
		t.mu.Unlock()
		return t.leave
	}
	if t.waiting != nil || !t.opened() {
		t.mu.Unlock()
		return leaveNothing
	}
	err := flock(t.fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		t.held = true
		t.mu.Unlock()
		return t.leave
	}
	if !errors.Is(err, unix.EWOULDBLOCK) || bound <= 0 {
		t.mu.Unlock()
		return leaveNothing
	}
	done := make(chan struct{})
	t.waiting, t.wanted = done, true
	t.mu.Unlock()
	orchestrator.GoSafe("turnstile", nil, func() { t.wait(done) })
	return t.await(done, bound)
}

// leaveNothing ends a turn that never came.
func leaveNothing() {}

// wait gets the lock for whoever wants it. If nobody does any more, it gives it back at once.
func (t *turnstile) wait(done chan struct{}) {
	defer close(done)
	err := flock(t.fd, unix.LOCK_EX)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = nil
	switch {
	case t.closed:
		t.shut()
	case err == nil && t.wanted:
		t.held = true
	case err == nil:
		flock(t.fd, unix.LOCK_UN)
	}
}

// await waits for the helper, and abandons it when the bound is reached.
func (t *turnstile) await(done <-chan struct{}, bound time.Duration) (leave func()) {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted = false
	if t.held {
		return t.leave
	}
	return leaveNothing
}

// leave lets the next process in.
func (t *turnstile) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held {
		t.held = false
		flock(t.fd, unix.LOCK_UN)
	}
}

// close gives everything back. If a helper still waits in the kernel, the file is its to close: the number of a closed
// descriptor may belong to another file by the time the helper returns.
func (t *turnstile) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.waiting == nil {
		t.shut()
	}
}

func (t *turnstile) shut() {
	if t.open {
		flock(t.fd, unix.LOCK_UN) // a child that is being started may have the file open for another moment
		unix.Close(t.fd)
		t.open, t.held = false, false
	}
}

// opened opens the file if need be. A failure is not remembered: the folder may be made later. The file is opened for
// reading, which is enough for flock; O_NONBLOCK keeps a fifo of that name from blocking.
func (t *turnstile) opened() bool {
	if t.open || t.closed {
		return t.open
	}
	fd, err := openLockFile(t.path)
	t.fd, t.open = fd, err == nil
	return t.open
}

// openLockFile opens a file for locks and nothing else.
func openLockFile(path string) (fd int, err error) {
	for {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// flock is flock(2), repeated when a signal interrupts it.
func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
