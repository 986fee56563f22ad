package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// backend is the one connection of a process that writes. Leaders, of whom there is one at a time, own it.
type backend struct {
	s *Store
	*store.Conn

	until time.Time // of the present batch: when it gives up
	tries int       // how often it was run again since something was lost
	xid   string    // of the present transaction
	taken bool      // the number of a row was: the next transaction begins with having others

	mu sync.Mutex // held while c is set
	c  *conn      // nil until it is needed, and after it was lost
}

func newBackend(s *Store) *backend { return &backend{s: s, Conn: &store.Conn{}} }

// Write runs the batch. Nothing is left to be done when it returns: the server has the commit on its disk.
func (w *backend) Write(b *store.Batch, until time.Time) (store.Commit, error) {
	w.until, w.tries, w.taken = until, 0, false
	before := w.Writes
	if err := b.Run(w.Conn, w, until); err != nil {
		return nil, w.s.Explain(err)
	}
	if w.Writes == before && !b.Answers() {
		return nil, nil
	}
	return committed{}, nil
}

type committed struct{}

func (committed) Sync() error { return nil }

// Explain gives an error of the database its code.
func (w *backend) Explain(err error) error { return w.s.Explain(err) }

// Note does nothing.
func (w *backend) Note(error) {}

// Abandon closes the connection; the next batch opens another.
func (w *backend) Abandon() { w.shut() }

func (w *backend) shut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.c != nil {
		w.c.close()
		w.c = nil
	}
}

// open connects if need be.
func (w *backend) open(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.c != nil && !w.c.raw.IsClosed() {
		return nil
	}
	w.c = nil
	c, err := w.s.open(ctx)
	if err != nil {
		return err
	}
	c.wrote = func() { w.Writes++ }
	w.c, w.Driver = c, c
	return nil
}

// Begin begins a transaction, which nobody else does meanwhile: the lock is a statement of its own, so that those behind it see
// what was committed before.
func (w *backend) Begin(ctx context.Context, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, latest(until))
	defer cancel()
	err := w.begin(ctx, until)
	if isLost(err) && ctx.Err() == nil { // the connection may have been lost since it was used last
		w.shut()
		err = w.begin(ctx, until)
	}
	return err
}

func (w *backend) begin(ctx context.Context, until time.Time) error {
	if err := w.open(ctx); err != nil {
		if ctx.Err() != nil && !isLost(err) {
			return store.GaveUp(ctx)
		}
		return err
	}
	w.c.batch = w.c.batch[:0]
	results, err := w.c.raw.Exec(ctx, fmt.Sprintf(`BEGIN; SET LOCAL lock_timeout = %d; SELECT pg_advisory_xact_lock(%d, hashtext('%s') # %d); SELECT pg_current_xact_id()`,
		max(time.Until(until).Milliseconds(), 1), lockClass, w.s.schema, writingLock)).ReadAll()
	if err != nil {
		w.Rollback()
		if ctx.Err() != nil {
			return store.GaveUp(ctx)
		}
		return err
	}
	w.xid = string(results[len(results)-1].Rows[0][0])
	if w.taken {
		w.taken = false
		if err := w.c.renumber(ctx); err != nil {
			w.Rollback()
			return err
		}
	}
	return nil
}

// latest is until, but at least a moment from now, since the lock is tried at least once.
func latest(until time.Time) time.Time {
	if soon := time.Now().Add(time.Second); until.Before(soon) {
		return soon
	}
	return until
}

// Commit commits, and finds out what has become of it when the connection is lost meanwhile. It is never cancelled: what was
// cancelled may be committed all the same.
func (w *backend) Commit() error {
	failed := w.c.raw.TxStatus() == 'E'
	err := w.c.script(context.Background(), "COMMIT")
	if err == nil && failed {
		return orchestrator.Errorf(orchestrator.Internal, "the transaction had failed, and was undone")
	}
	if err == nil || !isLost(err) && !w.c.raw.IsClosed() {
		return err
	}
	w.shut()
	return w.fate(err)
}

// askFor is how long a server is asked what has become of a transaction, at least.
const askFor = 30 * time.Second

// fate asks the server what has become of the transaction whose COMMIT it did not answer.
func (w *backend) fate(lost error) error {
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	for ; ctx.Err() == nil; orchestrator.Pause(ctx, 100*time.Millisecond) {
		if w.open(ctx) != nil {
			continue
		}
		status, _, err := w.Text(`SELECT pg_xact_status(?1::xid8)`, w.xid)
		switch {
		case err != nil:
			w.shut()
		case status == "committed":
			return nil
		case status == "aborted":
			return &orchestrator.Error{Code: orchestrator.Unavailable, Message: "the server of " + w.s.path + " has ended the transaction; nothing was written", Hint: "Try again", Err: lost}
		}
	}
	return &orchestrator.Error{Code: orchestrator.Unavailable, Err: lost, Message: "the server of " + w.s.path + " did not answer, and it is not known whether it has written this",
		Hint: "See whether it is there before you try again"}
}

// Rollback undoes the transaction, unless that has gone with its connection.
func (w *backend) Rollback() error {
	if w.c == nil || w.c.raw.IsClosed() || w.c.raw.TxStatus() == 'I' {
		return nil
	}
	err := w.c.script(context.Background(), "ROLLBACK")
	if err != nil {
		w.shut()
	}
	return nil // it is undone with the connection
}

// maxTries bounds how often a batch is run again.
const maxTries = 5

// Again reports whether the transaction can succeed when it is run again: its connection was lost before the commit, others were
// in the way, or had taken the number of a row.
func (w *backend) Again(failure error) bool {
	code := codeOf(failure)
	taken := isTaken(failure)
	again := taken || code == serializationFailure || code == deadlockDetected || isLost(failure) || w.c != nil && w.c.raw.IsClosed()
	if !again || w.tries >= maxTries || !time.Now().Before(w.until) {
		return false
	}
	w.tries++
	w.taken = taken
	if isLost(failure) {
		w.shut()
	}
	return true
}
