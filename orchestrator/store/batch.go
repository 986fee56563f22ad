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

// Batch holds the requests that share one transaction, and one outcome for each request.
type Batch struct {
	w        *Writer
	Requests []*Request
	outcomes []error
	t        Transaction // of the current run
}

// Control begins and ends the transaction of a batch.
type Control interface {
	// Begin begins the transaction and takes the locks of the scope. It tries at least once, and gives up at the
	// time until or when ctx ends.
	Begin(ctx context.Context, until time.Time, scope Scope) error
	// Alone reports whether nobody else can write until the transaction ends.
	Alone() bool
	// Hold takes the lock of a recipient, see Of, and reports whether it got the lock. It does not wait for other
	// requests.
	Hold(recipient string) (bool, error)
	// Commit runs the statements that were put off and commits. A Later error means that one of these statements
	// failed.
	Commit() error
	// Rollback undoes the transaction, unless the database has already done so.
	Rollback() error
	// CanAgain reports whether the transaction can succeed if it runs again after the failure.
	CanAgain(failure error) bool
	// Again reports the same for a failure that ends the run, and prepares the next run.
	Again(failure error) bool
}

// commit writes a batch. It returns nil if nothing must be made durable before the requests are answered. It never
// panics, because a leader that panicked would leave all later requests waiting.
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

// makeDurable waits until a batch is on the disk. It wakes the listeners before the sync, so that they look for
// their messages meanwhile. Whatever a listener writes waits for a later sync of the same file, and so also for this
// sync.
func (w *Writer) makeDurable(b *Batch, c Commit) {
	w.guard(b.ring)
	if err := c.Sync(); err != nil {
		b.fail(err)
		return
	}
	w.guard(b.durable)
}

// patientUntil returns the time at which the batch gives up waiting for the database: after the busy timeout, or at
// the last deadline of its requests if all of them have one before that. All waits of the batch share this one
// limit, so that no request waits twice as long.
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

// context returns the context that can end the wait for the write lock early: that of the request, if it is alone in
// the batch.
func (b *Batch) context() context.Context {
	if len(b.Requests) == 1 {
		return b.Requests[0].Ctx
	}
	return context.Background()
}

// fail sets err as the outcome of every request that has not failed by itself.
func (b *Batch) fail(err error) {
	for i := range b.outcomes {
		if b.outcomes[i] == nil {
			b.outcomes[i] = err
		}
	}
}

// writesNothing reports whether the batch has nothing to run because its only request is the one that closes the
// writer.
func (b *Batch) writesNothing() bool { return len(b.Requests) == 1 && b.Requests[0].closes }

// allFailed reports whether every request failed, so that there is nothing to commit.
func (b *Batch) allFailed() bool {
	for _, err := range b.outcomes {
		if err == nil {
			return false
		}
	}
	return true
}

// Answers reports whether a caller gets data that its request read. That data may come from a commit of another
// process that is not on the disk yet, so the batch is synced even if it changed nothing.
func (b *Batch) Answers() bool {
	for i, q := range b.Requests {
		if b.outcomes[i] == nil && !q.closes && !q.Work.Quiet() && !q.Work.Lazy() {
			return true
		}
	}
	return false
}

// Lazy reports whether all requests are lazy, so that the batch is not synced. Failed requests count as well, since
// they may run again.
func (b *Batch) Lazy() bool {
	return !slices.ContainsFunc(b.Requests, func(q *Request) bool { return q.closes || !q.Work.Lazy() })
}

// ring rings the bell once for all requests that made work due.
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

// durable notifies the requests that succeeded that their work is on the disk.
func (b *Batch) durable() {
	for i, q := range b.Requests {
		if b.outcomes[i] == nil && !q.closes {
			q.Work.Durable()
		}
	}
}

// Run runs the batch in a transaction. The first run has no savepoints, because they cost more than anything else in
// a send. If a request fails and leaves something to undo, everything is rolled back and run again with savepoints.
// If the failure of a statement ends the whole transaction (a full disk does), the remaining requests run again from
// the beginning. An error of Run fails all requests that have no outcome yet.
func (b *Batch) Run(c *Conn, control Control, until time.Time) error {
	final := make([]bool, len(b.Requests)) // failed together with a transaction, and must not run again
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
			// One of the requests caused the failure.
			careful, again = true, true
		}
		control.Rollback()
		if !again {
			return err
		}
	}
}

// runAll runs every request that is not final. It stops when the transaction is spoiled or lost.
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
		if failure != nil && !t.careful && !t.spoiled { // an earlier put-off statement may have failed
			t.spoiled = isLater(failure) || t.Flush() != nil
		}
		if t.spoiled {
			return nil
		}
		b.outcomes[i] = b.w.Backend.Explain(failure)
		if failure != nil && control.Again(failure) {
			t.lost, b.outcomes[i] = true, nil // the request runs again
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
		return nil // everything is about to be rolled back
	}
	return b.w.End(t)
}

// call runs the work of one request and turns a panic into an error, so that only this request fails.
func call(work Work, t *Transaction) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &orchestrator.Error{Code: orchestrator.Internal, Message: fmt.Sprintf("panic: %v", p),
				Err: fmt.Errorf("%s", debug.Stack())}
		}
	}()
	return work.Run(t)
}

// guard runs f after a commit and recovers from a panic, which must not be taken for a failed commit.
func (w *Writer) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			w.Log.Error("panic after a commit", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f()
}

// GaveUp returns the error of a request whose context ended while the request waited for the database.
func GaveUp(ctx context.Context) error {
	return &orchestrator.Error{Code: orchestrator.Busy,
		Message: "stopped waiting for the database; nothing was written", Err: context.Cause(ctx)}
}

// refusal is the cause of an error about a row that the database rejected.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// IsRefused reports whether an error, as returned by Explain, is about a row that the database rejected.
func IsRefused(err error) bool {
	_, is := errors.AsType[refusal](err)
	return is
}

// Refused returns the error of a request with a row that the database rejected for the given cause.
func Refused(cause error) error {
	return &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "the database rejected the row",
		Err:  refusal{cause},
		Hint: "A trigger or a constraint rejected the row, or a value is too long or has a character that the database does not support. Change the value, or change the database so that it accepts the row"}
}

// Ring lists the recipients to wake after a commit. The zero value wakes nobody.
type Ring struct {
	All   bool
	names []string // recipients, without duplicates
}

// Names returns the recipients to wake. It returns nil if all recipients are to be woken.
func (r *Ring) Names() []string {
	if r.All {
		return nil
	}
	return r.names
}

// maxNames is the maximum number of recipients that a ring names. A ring with more recipients wakes everybody.
const maxNames = 16

// Add adds recipients to wake.
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

	// Shared holds data that the requests of this transaction share. Writer.Begin sets it.
	Shared any

	control Control
	careful bool // failures are undone with savepoints
	spoiled bool // a failure left changes behind: the whole transaction must be rolled back
	lost    bool // the database rolled back the transaction, or had no number left for a row
}

// Careful reports whether each failure is undone separately, with savepoints, because a run without them has failed.
// The rows of each request must then be written at once.
func (t *Transaction) Careful() bool { return t.careful }

// IsAlone reports whether nobody else can write until the transaction ends, whatever the scope of its requests is.
func (t *Transaction) IsAlone() bool { return t.control.Alone() }

// Hold keeps others from changing messages of a recipient, see Of, until the transaction ends. It reports whether it
// got the lock; it returns false if another request holds the lock. It does not wait for that request, which might
// wait for this one.
func (t *Transaction) Hold(recipient string) (bool, error) { return t.control.Hold(recipient) }

// CanAgain reports whether the transaction can succeed if it runs again after the failure, because another writer
// caused the failure. It runs again if the failure ends the request.
func (t *Transaction) CanAgain(failure error) bool { return t.control.CanAgain(failure) }

// errSpoiled ends a request whose transaction is about to run again.
var errSpoiled = errors.New("the request must run again with savepoints")

// Savepoint runs fn and, if fn fails, undoes the changes of fn and nothing else. The failure of fn is returned in
// failure; an error in err must end the request. The first run of a transaction has no savepoints, see Batch.Run.
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
			return failure, failure // the database has rolled back the whole transaction
		}
	}
	_, err = t.Exec("RELEASE apart")
	return failure, err
}
