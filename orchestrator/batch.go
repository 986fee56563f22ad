package orchestrator

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// batch is the requests that share a transaction, with one outcome each.
type batch struct {
	requests []*request
	outcomes []error
}

// commit writes a batch. It returns nil when there is nothing that must be made durable before it is answered. It never
// panics: a leader that did would leave all later requests waiting.
func (w *writer) commit(b *batch) (c *commit) {
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("panic in the writer: %v\n%s", p, debug.Stack())
			w.abandon()
			b.fail(err)
			c = nil
		}
	}()
	if b.writesNothing() {
		return nil
	}
	until := b.patientUntil(w.r.busy)
	w.giveUpStrayed(until)
	if err := w.open(until); err != nil {
		b.fail(err)
		return nil
	}
	before := w.c.writes
	if err := w.takeTurn(b, until); err != nil {
		b.fail(databaseError(w.r.path, err))
		return nil
	}
	if w.c.writes == before && !b.anyAnswers() {
		return nil
	}
	return w.wal.committed()
}

// makeDurable waits until a batch is on the disk. Whoever is rung looks while the disk is still at it: what a listener does with what it
// finds waits for a later sync of the same file, and so for this one.
func (w *writer) makeDurable(b *batch, c *commit) {
	w.guard(func() { b.ring(w.r.bell) })
	if err := c.sync(); err != nil {
		b.fail(w.notDurable(err))
		return
	}
	if c.wal.at.moved() {
		w.strayed.Store(true) // another leader may be using the connection
		b.fail(movedMeanwhile(w.r.path))
		return
	}
	w.guard(b.runAfter)
}

// patientUntil is when the batch gives up waiting for the database: after the busy timeout, or with the last context of its
// requests if all of them end before. It is one time for all that is waited for, so that nobody waits for it twice.
func (b *batch) patientUntil(busy time.Duration) time.Time {
	now := time.Now()
	limit, until := now.Add(busy), now
	for _, q := range b.requests {
		end, ends := q.ctx.Deadline()
		if !ends || end.After(limit) {
			return limit
		}
		if end.After(until) {
			until = end
		}
	}
	return until
}

// giveUpStrayed gives the connection up if its files had gone after its last commit.
func (w *writer) giveUpStrayed(until time.Time) {
	if w.strayed.Swap(false) {
		defer w.turn.enter(time.Until(until))() // see takeTurn
		w.abandon()
	}
}

// takeTurn runs the batch in this process's turn, and ends the turn before anything waits for the disk. A connection
// whose files have gone is given up within the turn, so that nobody begins a new -wal before the old one is saved.
func (w *writer) takeTurn(b *batch, until time.Time) error {
	defer w.turn.enter(time.Until(until))()
	err := w.transaction(b, until)
	if err != nil && w.c.moved() {
		w.abandon()
	}
	return err
}

// fail gives every request that has not failed by itself the failure of all.
func (b *batch) fail(err error) {
	for i := range b.outcomes {
		if b.outcomes[i] == nil {
			b.outcomes[i] = err
		}
	}
}

// writesNothing reports whether there is nothing to run, since the request that closes the writer is alone.
func (b *batch) writesNothing() bool { return len(b.requests) == 1 && b.requests[0].closes }

// allFailed reports whether there is nothing to commit.
func (b *batch) allFailed() bool {
	for _, err := range b.outcomes {
		if err == nil {
			return false
		}
	}
	return true
}

// anyAnswers reports whether a caller will be told something that its request read. That may rest on another process's
// commit which is not on the disk yet, so the batch is synced even if it changed nothing.
func (b *batch) anyAnswers() bool {
	for i, q := range b.requests {
		if b.outcomes[i] == nil && !q.tx.quiet {
			return true
		}
	}
	return false
}

// ring rings once for all requests that made work due.
func (b *batch) ring(bell Bell) {
	var sum ring
	for i, q := range b.requests {
		if b.outcomes[i] == nil {
			sum.all = sum.all || q.tx.ring.all
			sum.add(q.tx.ring.names)
		}
	}
	if sum.all {
		bell.Ring()
	} else if len(sum.names) > 0 {
		bell.Ring(sum.names...)
	}
}

// runAfter runs what waited for the commit.
func (b *batch) runAfter() {
	for i, q := range b.requests {
		if b.outcomes[i] == nil {
			for _, f := range q.tx.after {
				f()
			}
		}
	}
}

// transaction runs the batch between BEGIN and COMMIT, first without savepoints: they cost more than anything else in a
// send. When a request has failed and left something to undo, everything is rolled back and run again with them; when a
// statement's failure ended the whole transaction (a full disk does), the requests that are left run again from BEGIN.
// Its error fails all requests without an outcome.
func (w *writer) transaction(b *batch, until time.Time) error {
	final := make([]bool, len(b.requests)) // has failed together with a transaction, and does not run again
	defer func() { w.renumber = false }()
	for careful := false; ; {
		if err := w.begin(b, until); err != nil {
			return err
		}
		t, err := w.newTransaction(careful)
		if err == nil {
			err = w.runAll(t, b, final)
		}
		switch {
		case err != nil:
			again := w.outOfNumbers(err)
			w.c.script("ROLLBACK")
			if again {
				continue
			}
			return err
		case t.lost || t.spoiled:
			if !w.c.raw.AutoCommit() { // SQLite has not done so by itself
				if _, err := w.c.Exec("ROLLBACK"); err != nil {
					return err
				}
			}
			careful = careful || t.spoiled
			continue
		case b.allFailed():
			_, err := w.c.Exec("ROLLBACK")
			return err
		}
		if w.c.moved() {
			w.c.script("ROLLBACK")
			return w.r.movedAway()
		}
		if _, err := w.c.Exec("COMMIT"); err != nil {
			w.c.script("ROLLBACK")
			return err
		}
		return nil
	}
}

// begin takes the write lock. It tries at least once. For a request that is alone the patience ends with its context, too.
func (w *writer) begin(b *batch, until time.Time) error {
	w.c.trim()
	_, err := w.c.Exec("BEGIN IMMEDIATE")
	if !isBusy(err) {
		return err
	}
	ctx := context.Background()
	if len(b.requests) == 1 {
		ctx = b.requests[0].ctx
	}
	err = backoff.Retry(func() error {
		_, err := w.c.Exec("BEGIN IMMEDIATE")
		return retryable(err)
	}, patience(ctx, until))
	if err != nil && ctx.Err() != nil {
		return gaveUp(ctx)
	}
	return err
}

func gaveUp(ctx context.Context) error {
	return &Error{Code: Busy, Message: "gave up waiting for the database; nothing was written", Err: context.Cause(ctx)}
}

// runAll runs every request that is not final, and stops when the transaction is spoiled or lost.
func (w *writer) runAll(base *transaction, b *batch, final []bool) error {
	several := len(b.requests) > 1
	for i, q := range b.requests {
		if final[i] {
			continue
		}
		t := base.forRequest(w, q)
		q.tx = t
		if !q.sends {
			if err := t.traceCreated(); err != nil {
				return err
			}
		}
		failure, err := error(nil), error(nil)
		if several {
			failure, err = t.apart(func() error { return call(q.fn, t) })
		} else {
			failure = call(q.fn, t)
		}
		if base.spoiled {
			return nil
		}
		b.outcomes[i] = databaseError(w.r.path, failure)
		if w.outOfNumbers(failure) {
			base.lost, b.outcomes[i] = true, nil // it runs again
			return nil
		}
		if failure != nil && w.c.raw.AutoCommit() {
			base.lost, final[i] = true, true
			return nil
		}
		if err != nil {
			return err
		}
	}
	if b.allFailed() {
		return nil // all of it is about to be undone
	}
	return base.traceCreated()
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

// guard runs f after a commit: its panic must not pass for a failed commit.
func (w *writer) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			w.r.log.Error("panic after a commit", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f()
}

// notDurable is the outcome of a commit that others can see but the disk may not have.
func (w *writer) notDurable(err error) error {
	return &Error{
		Code: Unavailable, Err: err,
		Message: "the disk that holds " + w.r.path + " reports an error; whether the change was kept is not known",
		Hint: "Check the disk, start this program anew, and look with `mailroom trace` before you repeat; " +
			"a repeat with the same idempotency key is safe",
	}
}
