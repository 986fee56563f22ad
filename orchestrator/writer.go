package orchestrator

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
)

// maxBatch bounds the requests that share one transaction.
const maxBatch = 512

// overlapFrom is how many requests must wait for leadership to pass on before the disk has the last batch. With fewer it
// pays to let them gather: a batch costs as much as five messages in it.
const overlapFrom = 16

// writer is the one connection of a process that writes. Requests that queue up while a commit is under way share the
// next transaction and its sync (group commit): the first that finds no leader leads, writes for all that wait, waits for
// the disk, answers them and passes leadership on. It passes it on before it waits for the disk if overlapFrom requests
// wait already. No timer is set; a leader only yields, for microseconds, to those that can run at once, see gather.
type writer struct {
	r    *Router
	turn *turnstile

	mu      sync.Mutex
	queue   []*request
	leading bool
	closed  bool // no request is taken any more

	// Owned by the leader, of whom there is one: leading is set, and passed on, under mu or by a channel, which is why the
	// next leader sees what the last one left here.
	last     int  // size of the last batch
	renumber bool // the transaction was undone since there was no number left; see numbers.go
	c        *conn
	wal      *walFile // makes what c committed durable
	entropy  *ulid.MonotonicEntropy

	openMu sync.Mutex // held while c is opened or closed

	strayed atomic.Bool // the files of c had gone after a commit
}

type requestState int

const (
	queued requestState = iota
	taken               // in a batch: the outcome must be awaited
	leads               // was made leader, and is still in the queue
)

type request struct {
	ctx    context.Context
	fn     func(*tx) error
	sends  bool // does nothing but send, see tx.sends
	closes bool // does nothing at all, but is the last
	state  requestState
	done   chan error
	tx     *tx
}

// errLead tells a waiting request that it is the leader now.
var errLead = errors.New("lead")

// write runs fn in a write transaction and returns when that is on disk. It may share the transaction with other
// requests: an error of fn undoes what fn did and nothing else. fn may run more than once, so it must set, not add to,
// what it hands out. A context that ends before the request is taken withdraws it, with code busy; afterwards the
// outcome is awaited. An error of fn is returned as it is.
func (r *Router) write(ctx context.Context, fn func(*tx) error) error {
	return r.writer.submit(&request{ctx: ctx, fn: fn})
}

// writeSends is write for a request that does nothing but send messages.
func (r *Router) writeSends(ctx context.Context, fn func(*tx) error) error {
	return r.writer.submit(&request{ctx: ctx, fn: fn, sends: true})
}

// errClosed refuses a request that comes after the last.
var errClosed = &Error{Code: Unavailable, Message: "the database is closed"}

// submit queues a request and sees to its outcome.
func (w *writer) submit(q *request) error {
	ctx := q.ctx
	if ctx.Err() != nil {
		return gaveUp(ctx)
	}
	q.done = make(chan error, 1)
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return errClosed
	}
	w.closed = q.closes
	w.queue = append(w.queue, q)
	if !w.leading {
		w.leading = true
		q.state = leads
		w.mu.Unlock()
		return w.lead(q)
	}
	w.mu.Unlock()
	select {
	case err := <-q.done:
		return w.answered(q, err)
	case <-ctx.Done():
	}
	if w.withdraw(q) {
		return gaveUp(ctx)
	}
	return w.answered(q, <-q.done)
}

func (w *writer) answered(q *request, err error) error {
	if err == errLead {
		return w.lead(q)
	}
	return err
}

// withdraw takes q out of the queue, unless a leader has it or it became the leader itself.
func (w *writer) withdraw(q *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q.state != queued {
		return false
	}
	for i, other := range w.queue {
		if other == q {
			w.queue = append(w.queue[:i], w.queue[i+1:]...)
			return true
		}
	}
	return false
}

// lead writes one batch, q among it, makes it durable and answers the others. It passes leadership on when all that is
// done, or right after the commit if many wait: then the next leader writes while this one waits for the disk. q is in
// the batch because a leader stands first in the queue and cannot be withdrawn.
func (w *writer) lead(q *request) error {
	w.gather()
	w.mu.Lock()
	n := min(len(w.queue), maxBatch)
	b := &batch{requests: append([]*request(nil), w.queue[:n]...), outcomes: make([]error, n)}
	w.queue = append(w.queue[:0], w.queue[n:]...)
	for _, taking := range b.requests {
		taking.state = taken
	}
	w.last = n
	w.mu.Unlock()

	committed := w.commit(b)
	early := w.waiting() >= overlapFrom
	if early {
		w.passOn()
	}
	if committed != nil {
		w.makeDurable(b, committed)
	}
	if !early {
		defer w.passOn()
	}
	var own error
	for i, answered := range b.requests {
		w.r.noteDamage(b.outcomes[i])
		if answered == q {
			own = b.outcomes[i]
		} else {
			answered.done <- b.outcomes[i]
		}
	}
	return own
}

// gatherFor bounds how long a leader yields, a few times what those need that it has just answered.
const gatherFor = 20 * time.Microsecond

// gatherYields is more than fit into that time. In a bubble of testing/synctest, time stands still while anybody can run.
const gatherYields = 1000

// gather lets whoever is runnable join, until the batch is as big as the last one: of those that were just answered most
// come back at once. Worth it only when the last batch had company.
func (w *writer) gather() {
	if w.last <= 1 {
		return
	}
	began := time.Now()
	for range gatherYields {
		runtime.Gosched()
		if w.waiting() >= w.last || time.Since(began) > gatherFor {
			return
		}
	}
}

func (w *writer) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

// passOn ends the leadership.
func (w *writer) passOn() {
	w.mu.Lock()
	if len(w.queue) == 0 {
		w.leading = false
		w.mu.Unlock()
		return
	}
	next := w.queue[0]
	next.state = leads
	w.mu.Unlock()
	next.done <- errLead
}

// abandon closes the connection after a panic, or since its files have gone; the next batch opens what is there then.
func (w *writer) abandon() {
	w.openMu.Lock()
	defer w.openMu.Unlock()
	if w.c == nil || !w.c.saveWAL() {
		return
	}
	if err := w.shut(); err != nil {
		w.r.log.Warn("a connection that was given up could not be closed", "error", err)
	}
}

// shut closes what open has opened. openMu is held.
func (w *writer) shut() error {
	err := w.c.close()
	w.wal.release()
	w.c, w.wal = nil, nil
	return err
}

// open opens the connection if it is not open, and waits until a certain time for what others hold. It is safe to call
// while a leader is writing.
func (w *writer) open(until time.Time) error {
	w.openMu.Lock()
	defer w.openMu.Unlock()
	if w.c != nil {
		return nil
	}
	c, err := w.r.openWriter(until)
	if err != nil {
		return err
	}
	wal, err := openWAL(c)
	if errors.Is(err, fs.ErrNotExist) { // somebody has turned the write-ahead log off
		if err = c.script("PRAGMA journal_mode = WAL; SELECT 1 FROM settings"); err == nil {
			wal, err = openWAL(c)
		}
	}
	if err != nil {
		c.close()
		return databaseError(w.r.path, err)
	}
	w.c, w.wal, w.entropy = c, wal, newEntropy()
	w.r.keepWAL(wal)
	return nil
}

func (w *writer) isOpen() bool {
	w.openMu.Lock()
	defer w.openMu.Unlock()
	return w.c != nil
}

// close waits for the leader, and closes, whatever has become of the last batch; its error tells that, too.
func (w *writer) close() error {
	defer w.turn.close()
	defer w.r.keepWAL(nil)
	if !w.isOpen() {
		return nil
	}
	// Behind the last request nobody uses the connection any more.
	err := w.submit(&request{ctx: context.Background(), closes: true, fn: func(t *tx) error {
		t.quiet = true
		return nil
	}})
	if err == errClosed {
		return err // somebody else is closing it
	}
	w.openMu.Lock()
	defer w.openMu.Unlock()
	if w.c == nil {
		return err
	}
	return errors.Join(err, w.shut())
}

func newEntropy() *ulid.MonotonicEntropy { return ulid.Monotonic(rand.Reader, 0) }
