package orchestrator

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/cenkalti/backoff/v4"
)

// This file is what a leader does with one batch of requests: one transaction, made durable, one outcome per request.

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
	before := w.c.writes
	err := w.takeTurn(batch, outcomes)
	if err != nil {
		fillErrors(outcomes, databaseError(w.r.path, err))
		return outcomes
	}
	// Whoever is rung looks while the disk is still at it. What a listener does with what it finds waits for a later
	// sync of the same file, and so for this one.
	w.guard(func() { ring(w.r.bell, batch, outcomes) })
	if w.c.writes != before || anyAnswers(batch, outcomes) {
		if err := w.wal.sync(); err != nil {
			fillErrors(outcomes, w.notDurable(err))
			return outcomes
		}
	}
	w.guard(func() { runAfter(batch, outcomes) })
	return outcomes
}

func fillErrors(outcomes []error, err error) {
	for i := range outcomes {
		if outcomes[i] == nil {
			outcomes[i] = err
		}
	}
}

// takeTurn runs the batch in this process's turn, and ends the turn before anything waits for the disk.
func (w *writer) takeTurn(batch []*request, outcomes []error) error {
	defer w.turn.enter(w.r.busy)()
	return w.transaction(batch, outcomes)
}

// transaction runs the batch between BEGIN and COMMIT, first without savepoints: they cost more than anything else in a
// send. When a request has failed and left something to undo, everything is rolled back and run again with them; when a
// statement's failure ended the whole transaction (a full disk does), the requests that are left run again from BEGIN.
// Its error fails all requests without an outcome.
func (w *writer) transaction(batch []*request, outcomes []error) error {
	final := make([]bool, len(batch)) // has failed together with a transaction, and does not run again
	for careful := false; ; {
		if err := w.begin(batch); err != nil {
			return err
		}
		t, err := w.newTransaction(careful)
		if err == nil {
			err = w.runAll(t, batch, outcomes, final)
		}
		switch {
		case err != nil:
			w.c.script("ROLLBACK")
			return err
		case t.lost:
			continue
		case t.spoiled:
			if _, err := w.c.Exec("ROLLBACK"); err != nil {
				return err
			}
			careful = true
			continue
		case allFailed(outcomes):
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
	_, err := w.c.Exec("BEGIN IMMEDIATE")
	if !isBusy(err) {
		return err
	}
	ctx := context.Background()
	if len(batch) == 1 {
		ctx = batch[0].ctx
	}
	err = backoff.Retry(func() error {
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

// runAll runs every request that is not final, and stops when the transaction is lost.
func (w *writer) runAll(base *transaction, batch []*request, outcomes []error, final []bool) error {
	several := len(batch) > 1
	for i, q := range batch {
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
		if err != nil {
			return err
		}
		outcomes[i] = databaseError(w.r.path, failure)
		if failure != nil && w.c.raw.AutoCommit() {
			final[i], base.lost = true, true
			return nil
		}
		if base.spoiled {
			return nil
		}
	}
	if len(batch) == 1 && outcomes[0] != nil {
		return nil // all of it is about to be undone
	}
	return batch[0].tx.traceCreated()
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

// ring rings once for all requests that made work due.
func ring(bell Bell, batch []*request, outcomes []error) {
	for i, q := range batch {
		if outcomes[i] == nil && q.tx.ring {
			bell.Ring()
			return
		}
	}
}

// anyAnswers reports whether a request succeeded that says something even if it changed nothing: what it found, others
// may have committed just now.
func anyAnswers(batch []*request, outcomes []error) bool {
	for i, q := range batch {
		if outcomes[i] == nil && !q.tx.quiet {
			return true
		}
	}
	return false
}

// runAfter runs what waited for the commit.
func runAfter(batch []*request, outcomes []error) {
	for i, q := range batch {
		if outcomes[i] == nil {
			for _, f := range q.tx.after {
				f()
			}
		}
	}
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
		Hint: "Check the disk, start this program anew, and look (`mailroom query`, `mailroom trace`) before you repeat; " +
			"a repeat with the same idempotency key is safe",
	}
}
