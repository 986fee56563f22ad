package store

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"mailroom/orchestrator"
)

// Batch is the requests that share a transaction, with one outcome each.
type Batch struct {
	w        *Writer
	Requests []*Request
	outcomes []error
	t        Transaction // of the present run
}

// Control begins and ends the transaction of a batch.
type Control interface {
	// Begin begins it and takes the locks that a scope asks for. It tries at least once, until a certain time or until
	// ctx ends.
	Begin(ctx context.Context, until time.Time, scope Scope) error
	// Alone reports whether nobody else writes until it ends.
	Alone() bool
	// Hold takes the lock of a recipient, see Of, and reports whether it has it: it does not wait for another request.
	Hold(recipient string) (bool, error)
	// Commit runs what is still to be run and commits, or returns why it did not. Later is the failure of one of these
	// statements.
	Commit() error
	// Rollback undoes it, unless the database has by itself.
	Rollback() error
	// Again reports whether the transaction can succeed when it is run again after a failure.
	Again(failure error) bool
}

// commit writes a batch. It returns nil when there is nothing that must be made durable before it is answered. It never
// panics: a leader that did would leave all later requests waiting.
func (w *Writer) commit(b *Batch) (c Commit) {
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("panic in the writer: %v\n%s", p, debug.Stack())
			w.Backend.Abandon()
			b.fail(err)
			c = nil
		}
	}()
	if b.writesNothing() {
		return nil
	}
	c, err := w.Backend.Write(b, b.patientUntil(w.Busy))
	if err != nil {
		b.fail(err)
		return nil
	}
	return c
}

// makeDurable waits until a batch is on the disk. Whoever is rung looks while the disk is still at it: what a listener
// does with what it finds waits for a later sync of the same file, and so for this one.
func (w *Writer) makeDurable(b *Batch, c Commit) {
	w.guard(b.ring)
	if err := c.Sync(); err != nil {
		b.fail(err)
		return
	}
	w.guard(b.durable)
}

// patientUntil is when the batch gives up waiting for the database: after the busy timeout, or with the last context of
// its requests if all of them end before. It is one time for all that is waited for, so that nobody waits for it twice.
func (b *Batch) patientUntil(busy time.Duration) time.Time {
	now := time.Now()
	limit, until := now.Add(busy), now
	for _, q := range b.Requests {
		end, ends := q.Ctx.Deadline()
		if !ends || end.After(limit) {
			return limit
		}
		if end.After(until) {
			until = end
		}
	}
	return until
}

// context returns what ends the wait for the write lock before its time: the context of a request that is alone.
func (b *Batch) context() context.Context {
	if len(b.Requests) == 1 {
		return b.Requests[0].Ctx
	}
	return context.Background()
}

// fail gives every request that has not failed by itself the failure of all.
func (b *Batch) fail(err error) {
	for i := range b.outcomes {
		if b.outcomes[i] == nil {
			b.outcomes[i] = err
		}
	}
}

// writesNothing reports whether there is nothing to run, since the request that closes the writer is alone.
func (b *Batch) writesNothing() bool { return len(b.Requests) == 1 && b.Requests[0].closes }

// allFailed reports whether there is nothing to commit.
func (b *Batch) allFailed() bool {
	for _, err := range b.outcomes {
		if err == nil {
			return false
		}
	}
	return true
}

// Answers reports whether a caller will be told something that its request read. That may rest on another process's
// commit which is not on the disk yet, so the batch is synced even if it changed nothing.
func (b *Batch) Answers() bool {
	for i, q := range b.Requests {
		if b.outcomes[i] == nil && !q.closes && !q.Work.Quiet() && !q.Work.Lazy() {
			return true
		}
	}
	return false
}

// Lazy reports whether all requests are lazy: the batch is not synced. One that has failed counts as well, since it may
// run again.
func (b *Batch) Lazy() bool {
	return !slices.ContainsFunc(b.Requests, func(q *Request) bool { return q.closes || !q.Work.Lazy() })
}

// ring rings once for all requests that made work due.
func (b *Batch) ring() {
	var sum Ring
	for i, q := range b.Requests {
		if b.outcomes[i] == nil && !q.closes {
			rings := q.Work.Rings()
			sum.All = sum.All || rings.All
			sum.Add(rings.names)
		}
	}
	if sum.All {
		b.w.Bell.Ring()
	} else if len(sum.names) > 0 {
		b.w.Bell.Ring(sum.names...)
	}
}

// durable tells the requests that succeeded that what they did is on the disk.
func (b *Batch) durable() {
	for i, q := range b.Requests {
		if b.outcomes[i] == nil && !q.closes {
			q.Work.Durable()
		}
	}
}

// Run runs the batch in a transaction, first without savepoints: they cost more than anything else in a send. When a
// request has failed and left something to undo, everything is rolled back and run again with them; when a statement's
// failure ended the whole transaction (a full disk does), the requests that are left run again from its beginning. Its
// error fails all requests without an outcome.
func (b *Batch) Run(c *Conn, control Control, until time.Time) error {
	final := make([]bool, len(b.Requests)) // has failed together with a transaction, and does not run again
	for careful := false; ; {
		if err := control.Begin(b.context(), until, b.scope()); err != nil {
			return err
		}
		b.t = Transaction{Conn: c, control: control, careful: careful}
		err := b.w.Begin(&b.t)
		if err == nil {
			err = b.runAll(control, final)
		}
		switch {
		case err != nil:
		case b.t.lost || b.t.spoiled:
			if err := control.Rollback(); err != nil {
				return err
			}
			careful = careful || b.t.spoiled
			continue
		case b.allFailed():
			return control.Rollback()
		default:
			if err = control.Commit(); !isLater(err) {
				return err
			}
		}
		again := control.Again(err)
		if !again && !careful && (isLater(err) || IsRefused(b.w.Backend.Explain(err))) {
			// it is the failure of one of the requests
			careful, again = true, true
		}
		control.Rollback()
		if !again {
			return err
		}
	}
}

// runAll runs every request that is not final, and stops when the transaction is spoiled or lost.
func (b *Batch) runAll(control Control, final []bool) error {
	t := &b.t
	for i, q := range b.Requests {
		if final[i] || q.closes {
			continue
		}
		if err := q.Work.Prepare(t); err != nil {
			return err
		}
		failure, err := error(nil), error(nil)
		if len(b.Requests) > 1 {
			failure, err = t.Savepoint(func() error { return call(q.Work, t) })
		} else {
			failure = call(q.Work, t)
		}
		if failure != nil && !t.careful && !t.spoiled { // perhaps only since it did not learn of an earlier failure
			t.spoiled = isLater(failure) || t.Flush() != nil
		}
		if t.spoiled {
			return nil
		}
		b.outcomes[i] = b.w.Backend.Explain(failure)
		if failure != nil && control.Again(failure) {
			t.lost, b.outcomes[i] = true, nil // it runs again
			return nil
		}
		if failure != nil && t.Broken() {
			t.lost, final[i] = true, true
			return nil
		}
		if err != nil {
			return err
		}
	}
	if b.allFailed() {
		return nil // all of it is about to be undone
	}
	return b.w.End(t)
}

// call runs one request's work and turns its panic into an error, so that it fails alone.
func call(work Work, t *Transaction) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &orchestrator.Error{Code: orchestrator.Internal, Message: fmt.Sprintf("panic: %v", p),
				Err: fmt.Errorf("%s", debug.Stack())}
		}
	}()
	return work.Run(t)
}

// guard runs f after a commit: its panic must not pass for a failed commit.
func (w *Writer) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			w.Log.Error("panic after a commit", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f()
}

// GaveUp is the error of a request whose context ended while it waited for the database.
func GaveUp(ctx context.Context) error {
	return &orchestrator.Error{Code: orchestrator.Busy,
		Message: "stopped waiting for the database; nothing was written", Err: context.Cause(ctx)}
}

// refusal is the cause of an error about a row that the database does not take.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// IsRefused reports whether an error, as Explain returns it, is about a row that the database does not take.
func IsRefused(err error) bool {
	_, is := errors.AsType[refusal](err)
	return is
}

// Refused is the error of a request with a row that the database does not take, and cause says why not.
func Refused(cause error) error {
	return &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "the database rejected the row",
		Err:  refusal{cause},
		Hint: "A trigger rejected the row, or a value is too long or has a character that the database does not support. Change the value, or change the database so that it accepts the row"}
}

// Ring is whom to wake after a commit. The zero value wakes nobody.
type Ring struct {
	All   bool
	names []string // recipients, each once
}

// Names returns the recipients to be woken; none where everybody is.
func (r *Ring) Names() []string {
	if r.All {
		return nil
	}
	return r.names
}

// maxNames bounds the recipients that a ring names; with more of them it wakes everybody.
const maxNames = 16

// Add adds recipients to be woken.
func (r *Ring) Add(recipients []string) {
	for _, recipient := range recipients {
		if r.All || slices.Contains(r.names, recipient) {
			continue
		}
		if len(r.names) >= maxNames {
			r.All = true
			return
		}
		r.names = append(r.names, recipient)
	}
}

// Transaction is a write transaction, which several requests may share.
type Transaction struct {
	*Conn

	// Shared is what the requests of this transaction share: the writer's begin sets it.
	Shared any

	control Control
	careful bool // failures are undone with savepoints
	spoiled bool // a failure has left something behind: all of it must be rolled back
	lost    bool // the database has rolled it back, or there was no number left for a row
}

// Careful reports whether failures are undone one by one, with savepoints, since something has failed without them. The
// rows of each request are then to be written at once.
func (t *Transaction) Careful() bool { return t.careful }

// IsAlone reports whether nobody else writes until the transaction ends, whatever scope its requests have.
func (t *Transaction) IsAlone() bool { return t.control.Alone() }

// Hold keeps others from changing messages of a recipient, see Of, until the transaction ends. It reports whether it
// does: false if another request does so now. It does not wait for that, since that might wait for this one.
func (t *Transaction) Hold(recipient string) (bool, error) { return t.control.Hold(recipient) }

// errSpoiled ends a request whose transaction is about to be run again.
var errSpoiled = errors.New("the request must run again with savepoints")

// Savepoint runs fn so that its failure undoes what fn has done and nothing else. err ends the request. A transaction's
// first run has no savepoints and hopes for the best, see Batch.Run.
func (t *Transaction) Savepoint(fn func() error) (failure, err error) {
	if !t.careful {
		before := t.Writes
		if failure = fn(); failure != nil && (t.Writes != before || t.Broken()) {
			t.spoiled = true
			return failure, errSpoiled
		}
		return failure, nil
	}
	if _, err := t.Exec("SAVEPOINT apart"); err != nil {
		return nil, err
	}
	if failure = fn(); failure == nil {
		failure = t.Flush()
	}
	if failure != nil {
		if _, err := t.Exec("ROLLBACK TO apart"); err != nil {
			return failure, failure // the database has undone all of it
		}
	}
	_, err = t.Exec("RELEASE apart")
	return failure, err
}
