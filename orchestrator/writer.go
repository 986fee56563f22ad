package orchestrator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/cenkalti/backoff/v4"
	"github.com/oklog/ulid/v2"
)

// maxBatch bounds the requests that share one transaction.
const maxBatch = 512

// writer is the one connection of a process that writes. Requests that queue up while a commit is under way share the
// next transaction, and so one fsync (group commit): the first that finds no leader leads, writes for all that wait, and
// passes leadership on before it wakes them. Nothing waits on purpose.
type writer struct {
	r    *Router
	turn *turnstile

	mu      sync.Mutex
	queue   []*request
	leading bool
	last    int  // size of the last batch
	closed  bool // no request is taken any more

	// Owned by the leader.
	c       *conn
	entropy *ulid.MonotonicEntropy

	openMu sync.Mutex // held while c is opened or closed
}

type requestState int

const (
	queued requestState = iota
	taken               // in a batch: the outcome must be awaited
	leads               // was made leader, and is still in the queue
)

type request struct {
	ctx   context.Context
	fn    func(*tx) error
	state requestState
	done  chan error
	tx    *tx
}

// errLead tells a waiting request that it is the leader now.
var errLead = errors.New("lead")

// write runs fn in a write transaction and returns when that is on disk. It may share the transaction with other
// requests: an error of fn undoes what fn did and nothing else. fn may run more than once, so it must set, not add to,
// what it hands out. A context that ends before the request is taken withdraws it, with code busy; afterwards the
// outcome is awaited. An error of fn is returned as it is.
func (r *Router) write(ctx context.Context, fn func(*tx) error) error {
	if ctx.Err() != nil {
		return gaveUp(ctx)
	}
	return r.writer.submit(ctx, fn, false)
}

// submit queues a request and sees to its outcome. The last request is the one that closes the writer.
func (w *writer) submit(ctx context.Context, fn func(*tx) error, last bool) error {
	q := &request{ctx: ctx, fn: fn, done: make(chan error, 1)}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return &Error{Code: Unavailable, Message: "the database is closed"}
	}
	w.closed = last
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

// lead writes one batch, q among it, passes leadership on and answers the others.
func (w *writer) lead(q *request) error {
	if w.last > 1 {
		runtime.Gosched() // whoever is runnable joins; worth it when the last batch had company
	}
	w.mu.Lock()
	n := min(len(w.queue), maxBatch)
	batch := append([]*request(nil), w.queue[:n]...)
	w.queue = append(w.queue[:0], w.queue[n:]...)
	for _, b := range batch {
		b.state = taken
	}
	w.last = n
	w.mu.Unlock()

	outcomes := w.commitBatch(batch)

	w.mu.Lock()
	if len(w.queue) > 0 {
		next := w.queue[0]
		next.state = leads
		w.mu.Unlock()
		next.done <- errLead
	} else {
		w.leading = false
		w.mu.Unlock()
	}
	var own error
	for i, b := range batch {
		if b == q {
			own = outcomes[i]
		} else {
			b.done <- outcomes[i]
		}
	}
	return own
}

// commitBatch writes a batch and returns one outcome per request. It never panics: a leader that did would leave all
// later requests waiting.
func (w *writer) commitBatch(batch []*request) (outcomes []error) {
	outcomes = make([]error, len(batch))
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("panic in the writer: %v\n%s", p, debug.Stack())
			w.abandon()
			fillErrors(outcomes, err)
		}
	}()
	if err := w.open(); err != nil {
		fillErrors(outcomes, err)
		return outcomes
	}
	err := func() error {
		defer w.turn.enter(w.r.busy)()
		return w.transaction(batch, outcomes)
	}()
	if err != nil {
		fillErrors(outcomes, databaseError(w.r.path, err))
		return outcomes
	}
	w.committed(batch, outcomes)
	return outcomes
}

func fillErrors(outcomes []error, err error) {
	for i := range outcomes {
		if outcomes[i] == nil {
			outcomes[i] = err
		}
	}
}

// transaction runs the batch between BEGIN and COMMIT. When a statement's failure ended the whole transaction (a full
// disk does), the requests that are left run again from BEGIN. Its error fails all requests without an outcome.
func (w *writer) transaction(batch []*request, outcomes []error) error {
	for {
		if err := w.begin(batch); err != nil {
			return err
		}
		lost, err := w.runAll(batch, outcomes)
		if err != nil {
			w.c.script("ROLLBACK")
			return err
		}
		if lost {
			continue
		}
		if allFailed(outcomes) {
			_, err := w.c.Exec("ROLLBACK")
			return err
		}
		if _, err := w.c.Exec("COMMIT"); err != nil {
			w.c.script("ROLLBACK")
			return err
		}
		return nil
	}
}

// begin takes the write lock. The patience ends with the busy timeout, for a request that is alone also with its context.
func (w *writer) begin(batch []*request) error {
	w.c.trim()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if len(batch) == 1 {
		ctx = batch[0].ctx
	}
	err := backoff.Retry(func() error {
		_, err := w.c.Exec("BEGIN IMMEDIATE")
		return retryable(err)
	}, w.r.patience(ctx))
	if err != nil && ctx.Err() != nil {
		return gaveUp(ctx)
	}
	return err
}

func gaveUp(ctx context.Context) error {
	return &Error{Code: Busy, Message: "gave up waiting for the database; nothing was written", Err: context.Cause(ctx)}
}

// runAll runs every request that has no outcome yet, each under a savepoint when there are several. lost is true when
// the transaction is gone: what was done in it is undone, and the requests that succeeded must run again.
func (w *writer) runAll(batch []*request, outcomes []error) (lost bool, err error) {
	base, err := w.newTx()
	if err != nil {
		return false, err
	}
	several := len(batch) > 1
	for i, q := range batch {
		if outcomes[i] != nil {
			continue
		}
		if several {
			if _, err := w.c.Exec("SAVEPOINT request"); err != nil {
				return false, err
			}
		}
		t := base.forRequest(q.ctx)
		q.tx = t
		failure := call(q.fn, t)
		if failure != nil {
			outcomes[i] = databaseError(w.r.path, failure)
			if w.c.raw.AutoCommit() {
				return true, nil
			}
		}
		if several && failure != nil {
			_, err = w.c.Exec("ROLLBACK TO request")
		}
		if several && err == nil {
			_, err = w.c.Exec("RELEASE request")
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

func allFailed(outcomes []error) bool {
	for _, err := range outcomes {
		if err == nil {
			return false
		}
	}
	return true
}

// call runs one request and turns its panic into an error, so that it fails alone.
func call(fn func(*tx) error, t *tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Error{Code: Internal, Message: fmt.Sprintf("panic: %v", p), Err: fmt.Errorf("%s", debug.Stack())}
		}
	}()
	if err := fn(t); err != nil {
		return err
	}
	return t.finish()
}

// committed runs what waited for the commit, and rings once for all. Its panic must not pass for a failed commit.
func (w *writer) committed(batch []*request, outcomes []error) {
	defer func() {
		if p := recover(); p != nil {
			w.r.log.Error("panic after a commit", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	ring := false
	for i, q := range batch {
		if outcomes[i] == nil && q.tx != nil {
			ring = ring || q.tx.ring
			for _, f := range q.tx.after {
				f()
			}
		}
	}
	if ring {
		w.r.bell.Ring()
	}
}

// abandon closes the connection after a panic; the next batch opens another.
func (w *writer) abandon() {
	w.openMu.Lock()
	defer w.openMu.Unlock()
	if w.c != nil {
		w.c.raw.Close()
		w.c = nil
	}
}

// open opens the connection if it is not open. It is safe to call while a leader is writing.
func (w *writer) open() error {
	w.openMu.Lock()
	defer w.openMu.Unlock()
	if w.c != nil {
		return nil
	}
	c, err := w.r.openWriter()
	if err != nil {
		return err
	}
	w.c, w.entropy = c, newEntropy()
	return nil
}

func (w *writer) isOpen() bool {
	w.openMu.Lock()
	defer w.openMu.Unlock()
	return w.c != nil
}

// close waits for the leader, and closes.
func (w *writer) close() error {
	defer w.turn.close()
	if !w.isOpen() {
		return nil
	}
	// Behind the last request nobody uses the connection any more.
	if err := w.submit(context.Background(), func(*tx) error { return errClosing }, true); err != errClosing {
		return err
	}
	w.openMu.Lock()
	defer w.openMu.Unlock()
	if w.c == nil {
		return nil
	}
	err := w.c.close()
	w.c = nil
	return err
}

// errClosing undoes a request that only wanted the connection to itself.
var errClosing = errors.New("closing")

func newEntropy() *ulid.MonotonicEntropy { return ulid.Monotonic(rand.Reader, 0) }
