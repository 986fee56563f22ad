package store

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"mailroom/orchestrator"
)

// maxBatch bounds the requests that share one transaction.
const maxBatch = 512

// overlapFrom is how many requests must wait for leadership to pass on before the disk has the last batch. With fewer
// it pays to let them gather: a batch costs as much as five messages in it.
const overlapFrom = 16

// Writer runs what one process writes. Requests that queue up while a commit is under way share the next transaction
// and its sync (group commit): the first that finds no leader leads, writes for all that wait, waits for the disk,
// answers them and passes leadership on. It passes it on before it waits for the disk if overlapFrom requests wait
// already. No timer is set; a leader only yields, for microseconds, to those that can run at once, see gather. Safe for
// concurrent use.
type Writer struct {
	Backend Backend
	Bell    orchestrator.Bell
	Log     *slog.Logger
	Busy    time.Duration // how long a batch waits for the database

	// Begin is called at the beginning of each transaction, and End before it is committed. An error ends it.
	Begin, End func(t *Transaction) error

	mu      sync.Mutex
	queue   []*Request
	leading bool
	closed  bool // no request is taken any more

	last int // size of the last batch; the leader's, of whom there is one
}

// Backend is what a database does for its writer. Leaders call it, and so one at a time, but for Note and Explain.
type Backend interface {
	Control
	// Write runs b, with Batch.Run, and waits for the database until a certain time. The commit is what makes the
	// outcome durable, nil when nothing must be.
	Write(b *Batch, until time.Time) (Commit, error)
	// Explain gives an error of the database its code and the advice what to do. Others pass through.
	Explain(err error) error
	// Note hears of every outcome.
	Note(err error)
	// Abandon gives the connection up after a panic.
	Abandon()
}

// Commit is a commit that may not be on the disk yet.
type Commit interface {
	// Sync returns when it is. Other leaders may write meanwhile.
	Sync() error
}

// NothingToSync is a commit for which nothing is left to be synced: that of a batch that is Lazy, or one that is on the
// disk already.
var NothingToSync Commit = nothingToSync{}

type nothingToSync struct{}

func (nothingToSync) Sync() error { return nil }

type requestState int

const (
	queued requestState = iota
	taken               // in a batch: the outcome must be awaited
	leads               // was made leader, and is still in the queue
)

// Request is work to be done in a write transaction, which it may share with others. It is used once.
type Request struct {
	Ctx    context.Context
	Scope  Scope
	Work   Work
	closes bool // does nothing at all, but is the last
	state  requestState
	done   chan error
}

// Work is what a request does. Its methods are called by one goroutine at a time.
type Work interface {
	// Prepare runs before Run; its failure is that of the whole transaction.
	Prepare(t *Transaction) error
	// Run may run more than once, so it sets, and does not add to, what it hands out.
	Run(t *Transaction) error
	// Quiet reports whether the caller learns nothing if nothing changed: a batch of such requests skips the sync.
	Quiet() bool
	// Lazy reports whether a power cut may undo what it did though the caller was answered: a batch of such requests
	// alone is committed without waiting for the disk. It is the same before Run and after.
	Lazy() bool
	// Rings returns whom to wake once it is committed.
	Rings() *Ring
	// Durable is called when what it did is on the disk, or committed if it is Lazy.
	Durable()
}

// errLead tells a waiting request that it is the leader now.
var errLead = errors.New("lead")

// ErrClosed refuses a request that comes after the last.
var ErrClosed = &orchestrator.Error{Code: orchestrator.Unavailable, Message: "the database is closed"}

// Finish waits for the last batch. No work is taken any more.
func (w *Writer) Finish() error {
	return w.Submit(&Request{Ctx: context.Background(), closes: true})
}

// Submit runs a request in a write transaction and returns when that is on the disk. It may share the transaction with
// others: an error of its work undoes what that did and nothing else. A context that ends before the request is taken
// withdraws it, with code busy; afterwards the outcome is awaited. An error of the work is returned as it is.
func (w *Writer) Submit(q *Request) error {
	ctx := q.Ctx
	if ctx.Err() != nil {
		return GaveUp(ctx)
	}
	q.done = make(chan error, 1)
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
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
		return GaveUp(ctx)
	}
	return w.answered(q, <-q.done)
}

func (w *Writer) answered(q *Request, err error) error {
	if err == errLead {
		return w.lead(q)
	}
	return err
}

// withdraw takes q out of the queue, unless a leader has it or it became the leader itself.
func (w *Writer) withdraw(q *Request) bool {
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
func (w *Writer) lead(q *Request) error {
	w.gather()
	w.mu.Lock()
	n := min(len(w.queue), maxBatch)
	b := &Batch{w: w, Requests: append([]*Request(nil), w.queue[:n]...), outcomes: make([]error, n)}
	w.queue = append(w.queue[:0], w.queue[n:]...)
	for _, taking := range b.Requests {
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
	for i, answered := range b.Requests {
		w.Backend.Note(b.outcomes[i])
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

// gatherYields is more than fit into that time. In a bubble of testing/synctest, time stands still while anybody can
// run.
const gatherYields = 1000

// gather lets whoever is runnable join, until the batch is as big as the last one: of those that were just answered
// most come back at once. Worth it only when the last batch had company.
func (w *Writer) gather() {
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

func (w *Writer) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

// passOn ends the leadership.
func (w *Writer) passOn() {
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
