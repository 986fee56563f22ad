package sqlite

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
)

// turnstile lets the processes that write one database take turns. SQLite's own lock is correct but unfair: a
// process may find it taken again and again. The turnstile only adds fairness. If it fails for any reason (a
// read-only folder, a file system without flock, a process that was stopped while it had its turn), the store goes
// on without it.
//
// The turnstile is a flock on a separate file, DBPATH-turnstile. The file is never removed, because processes that
// wait on the removed file and processes that open a new one would not see each other's locks. The turnstile never
// opens the database, its -wal or its -shm, since closing any descriptor of these files would drop SQLite's locks on
// them.
//
// One goroutine enters at a time. A flock belongs to the open file and not to the goroutine: a second flock on the
// same open file succeeds at once. Therefore at most one call waits in the kernel, and nobody tries the lock
// meanwhile.
type turnstile struct {
	path string

	mu      sync.Mutex
	open    bool
	fd      int
	held    bool          // it is this process's turn
	waiting chan struct{} // not nil: a helper goroutine waits in the kernel, and closes the channel when it is done
	wanted  bool          // a caller still waits for that helper
	closed  bool
}

// newTurnstile returns the turnstile of the database at path. It opens nothing before the first enter.
func newTurnstile(path string) *turnstile { return &turnstile{path: path + "-turnstile"} }

// enter waits at most bound for this process's turn, and returns the function that ends the turn. It never fails: if
// the turn does not come in time, enter returns a function that does nothing. After that, enter does not wait at all
// until the other process releases the lock, so that one stopped process does not delay every write of the others.
// Entering again during a turn has no effect; the first leave ends the turn.
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

// leaveNothing is returned if there is no turn to end.
func leaveNothing() {}

// wait takes the lock for a waiting caller. If no caller waits any more, it releases the lock at once.
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

// await waits for the helper, at most for the bound.
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

// leave ends the turn and lets the next process in.
func (t *turnstile) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held {
		t.held = false
		flock(t.fd, unix.LOCK_UN)
	}
}

// close releases the lock and closes the file. If a helper still waits in the kernel, the helper closes the file,
// because the number of a closed descriptor may belong to another file when the helper returns.
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
		flock(t.fd, unix.LOCK_UN) // a child process that is just starting may have the file open a moment longer
		unix.Close(t.fd)
		t.open, t.held = false, false
	}
}

// opened opens the file if necessary, and reports whether it is open. A failure is not stored, since the folder may
// be created later. The file is opened for reading, which is enough for flock. O_NONBLOCK keeps a FIFO of that name
// from blocking.
func (t *turnstile) opened() bool {
	if t.open || t.closed {
		return t.open
	}
	fd, err := openLockFile(t.path)
	t.fd, t.open = fd, err == nil
	return t.open
}

// openLockFile opens a file that is used only for locks.
func openLockFile(path string) (fd int, err error) {
	for {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// flock calls flock(2), and repeats the call if a signal interrupts it.
func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
