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

// maxBatch is the maximum number of requests that share one transaction.
const maxBatch = 512

// overlapFrom is the number of waiting requests at which a leader passes leadership on before the last batch is on
// the disk. With fewer requests it pays to let them gather, since a batch costs as much as five messages in it.
const overlapFrom = 16

// Writer runs the write requests of one process. Requests that arrive during a commit share the next transaction and
// its sync (group commit). The first request that finds no leader becomes the leader: it writes for all that wait,
// waits for the disk, answers them and passes leadership on. It passes leadership on before it waits for the disk if
// overlapFrom requests are already waiting. No timer is set; a leader only yields for microseconds to goroutines
// that can run at once, see gather. Writer is safe for concurrent use.
type Writer struct {
	Backend Backend
	Bell    orchestrator.Bell
	Log     *slog.Logger
	Busy    time.Duration // how long a batch waits for the database

	// Begin is called at the beginning of each transaction, and End before its commit. An error ends the
	// transaction.
	Begin, End func(t *Transaction) error

	mu      sync.Mutex
	queue   []*Request
	leading bool
	closed  bool // no more requests are accepted

	last int // size of the last batch; only the leader uses it, and there is one leader
}

// Backend is the database of a writer. Only leaders call it, so one call runs at a time, except for Note and
// Explain.
type Backend interface {
	Control
	// Write runs b with Batch.Run, and waits for the database until the given time. The returned commit makes the
	// outcome durable. It is nil if nothing must be made durable.
	Write(b *Batch, until time.Time) (Commit, error)
	// Explain adds to an error of the database its code and a hint what to do. Other errors are returned unchanged.
	Explain(err error) error
	// Note is called with every outcome.
	Note(err error)
	// Abandon closes the connection after a panic.
	Abandon()
}

// Commit is a commit that may not be on the disk yet.
type Commit interface {
	// Sync returns when the commit is on the disk. Other leaders may write at the same time.
	Sync() error
}

// NothingToSync is a commit that needs no sync: the batch is lazy, or the commit is already on the disk.
var NothingToSync Commit = nothingToSync{}

type nothingToSync struct{}

func (nothingToSync) Sync() error { return nil }

type requestState int

const (
	queued requestState = iota
	taken               // in a batch: the outcome must be awaited
	leads               // became the leader, and is still in the queue
)

// Request is work for a write transaction, which it may share with other requests. A request is used once.
type Request struct {
	Ctx    context.Context
	Scope  Scope
	Work   Work
	closes bool // does nothing, but is the last request
	state  requestState
	done   chan error
}

// Work is the work of a request. Its methods are called by one goroutine at a time.
type Work interface {
	// Prepare runs before Run. If it fails, the whole transaction fails.
	Prepare(t *Transaction) error
	// Run may run more than once, so it must overwrite its results rather than append to them.
	Run(t *Transaction) error
	// Quiet reports whether the caller gets no data if nothing changed. A batch of such requests skips the sync.
	Quiet() bool
	// Lazy reports whether a power cut may undo the work although the caller was answered. A batch that contains
	// only such requests is committed without waiting for the disk. Lazy returns the same value before and after
	// Run.
	Lazy() bool
	// Rings returns the recipients to wake after the commit.
	Rings() *Ring
	// Durable is called when the work is on the disk, or committed if the work is lazy.
	Durable()
}

// errLead makes a waiting request the leader.
var errLead = errors.New("lead")

// ErrClosed is the error of a request that comes after the last one.
var ErrClosed = &orchestrator.Error{Code: orchestrator.Unavailable, Message: "the database is closed"}

// Finish waits for the last batch. The writer accepts no more work.
func (w *Writer) Finish() error {
	return w.Submit(&Request{Ctx: context.Background(), closes: true})
}

// Submit runs a request in a write transaction and returns when the transaction is on the disk. The request may
// share the transaction with others: an error of its work undoes its own changes and nothing else, and Submit
// returns that error unchanged. If ctx ends before a leader takes the request, the request is withdrawn with the
// code busy; after that, Submit waits for the outcome.
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

// withdraw removes q from the queue, and reports whether it did. It fails if a leader has taken q or q is the
// leader.
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

// lead writes one batch that contains q, makes the batch durable and answers the other requests. It passes
// leadership on at the end. If many requests wait, it does so right after the commit, so that the next leader writes
// while this one waits for the disk. The batch contains q because a leader is first in the queue and cannot be
// withdrawn.
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

// gatherFor is the maximum time for which a leader yields. It is a few times as long as requests that have just been
// answered need to come back.
const gatherFor = 20 * time.Microsecond

// gatherYields is more than the number of yields that fit into gatherFor. The limit is needed in a bubble of
// testing/synctest, where time does not advance while a goroutine can run.
const gatherYields = 1000

// gather lets runnable goroutines join until the batch is as large as the last one, because most of the requests
// that were just answered come back at once. It does nothing if the last batch had only one request.
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

// passOn ends this leadership, and makes the first waiting request the leader.
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
