package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/wire"
)

// backend is the one connection of a process that writes. Leaders, of whom there is one at a time, own it.
type backend struct {
	s *Store
	*store.Conn

	until time.Time // of the present batch: when it gives up
	tries int       // how often it was run again since something was lost
	alone bool      // the present transaction is alone
	held  int       // how often it has tried to hold a recipient
	xid   string    // of it
	taken bool      // the number of a row was: the next transaction begins with having others
	met   bool      // the batch has met another transaction: it is run again alone

	batch  *store.Batch // the present one
	before int          // what Writes was when it began
	mark   mark         // of the last commit

	unwatch func() // ends the watch over the connection

	mu sync.Mutex // held while c is set
	c  *conn      // nil until it is needed, and after it was lost
}

func newBackend(s *Store) *backend {
	return &backend{s: s, Conn: &store.Conn{}, mark: newMark(), unwatch: func() {}}
}

// Write runs the batch. Nothing is left to be done when it returns: the server has the commit on its disk, unless the
// batch is lazy.
func (w *backend) Write(b *store.Batch, until time.Time) (store.Commit, error) {
	w.until, w.tries, w.met, w.taken = until, 0, false, false
	w.batch, w.before = b, w.Writes
	defer func() { w.unwatch() }()
	if err := b.Run(w.Conn, w, until); err != nil {
		return nil, w.s.Explain(err)
	}
	if w.Writes == w.before && !b.Answers() {
		return nil, nil
	}
	return store.NothingToSync, nil
}

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
		w.c.Close()
		w.c = nil
	}
}

// open connects if need be.
func (w *backend) open(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.c != nil && !w.c.Raw.IsClosed() {
		return nil
	}
	w.c = nil
	c, err := w.s.open(ctx)
	if err != nil {
		return err
	}
	c.Wrote = func() { w.Writes++ }
	w.c, w.Driver = c, c
	return nil
}

// Begin begins a transaction with the locks of a scope.
func (w *backend) Begin(ctx context.Context, until time.Time, scope store.Scope) error {
	if w.met {
		scope = store.Alone
	}
	ctx, cancel := context.WithDeadline(ctx, latest(until))
	defer cancel()
	err := w.begin(ctx, until, scope)
	for tries := 0; (isLost(err) || isDemoted(err)) && ctx.Err() == nil && tries < maxTries; tries++ {
		// the connection may have been lost since it was used last
		w.shut()
		orchestrator.Pause(ctx, rand.N(shortestPause))
		err = w.begin(ctx, until, scope)
	}
	return err
}

func (w *backend) begin(ctx context.Context, until time.Time, scope store.Scope) error {
	if err := w.open(ctx); err != nil {
		if ctx.Err() != nil && !isLost(err) {
			return store.GaveUp(ctx)
		}
		return err
	}
	w.unwatch()
	w.unwatch = w.s.watch(hangsAfter, asksAgain)
	patience := strconv.AppendInt(nil, max(time.Until(until).Milliseconds(), 1), 10)
	settings := "SELECT set_config('lock_timeout', $1, true)"
	if w.batch.Lazy() {
		settings += ", set_config('synchronous_commit', 'off', true)"
	}
	calls := []wire.Call{{Text: settings, Values: [][]byte{patience}}}
	locks, alone := w.s.locks(scope)
	w.alone, w.held = alone, 0
	calls = append(append(calls, locks...), wire.Call{Text: "SELECT hold_floors(), pg_current_xact_id(), " + readClock})
	results, err := w.c.Begin(ctx, calls...)
	if err != nil && ctx.Err() != nil {
		w.shut() // the request to cancel it may arrive late, and would hit what comes next
		return store.GaveUp(ctx)
	}
	if err != nil {
		w.Rollback()
		return err
	}
	began := results[len(results)-1].Rows[0]
	w.xid = string(began[1])
	w.s.clock.set(began[2])
	if w.taken {
		w.taken = false
		if err := renumber(w.c, ctx); err != nil {
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

// Commit commits, and finds out what has become of it when the connection is lost meanwhile. It is never cancelled:
// what was cancelled may be committed all the same. A commit that makes an outcome durable always writes, since what
// was read may be another's that no standby has confirmed yet: then it is confirmed before.
func (w *backend) Commit() error {
	if err := w.c.Failure(); err != nil {
		w.Rollback()
		return err
	}
	marked := (w.Writes != w.before || w.batch.Answers()) && !w.batch.Lazy()
	var calls []wire.Call
	if marked {
		calls = w.mark.next()
	}
	err := w.c.Commit(calls...)
	switch {
	case err == nil:
		return nil
	case !isLost(err) && !w.c.Raw.IsClosed(): // the server has refused it
		w.Rollback()
		return err
	}
	w.shut()
	if !marked {
		return &store.Later{Err: errUndone}
	}
	return w.fate(err)
}

// Rollback undoes the transaction, unless that has gone with its connection.
func (w *backend) Rollback() error {
	if w.c == nil || w.c.Raw.IsClosed() || w.c.Raw.TxStatus() == 'I' {
		return nil
	}
	if w.c.Rollback() != nil {
		w.shut()
	}
	return nil // it is undone with the connection
}

// maxTries bounds how often a batch is run again, unless it has waited for a lock each time.
const maxTries = 5

// Again reports whether the transaction can succeed when it is run again: its connection was lost before the commit, or
// its server takes no writes any more, or it met another that writes at the same time, or somebody has taken the number
// of a row. A row that has become unique twice is such a meeting, unless nobody else writes; so is a table for which it
// has not waited as long as it may, see HoldStill.
func (w *backend) Again(failure error) bool {
	code := codeOf(failure)
	taken := isTaken(failure)
	waited := code == deadlockDetected || code == lockNotAvailable
	meets := waited || code == serializationFailure || code == uniqueViolation && !w.alone
	lost := isLost(failure) || isDemoted(failure)
	again := taken || meets || errors.Is(failure, errUndone) || lost || w.c != nil && w.c.Raw.IsClosed()
	if !again || w.tries >= maxTries || !time.Now().Before(w.until) {
		return false
	}
	w.met = w.met || meets || taken // numbers that leap over many would confuse who holds floors below
	if !waited {
		w.tries++
	}
	w.taken = taken
	if lost {
		w.shut()
	}
	return true
}
