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

// backend is the connection of a process that writes. It belongs to the current leader; there is one leader at a
// time.
type backend struct {
	s *Store
	*store.Conn

	until time.Time // the time at which the current batch gives up
	tries int       // number of repeated runs, other than after waiting for a lock
	alone bool      // the current transaction is alone
	held  int       // number of calls of Hold in the current transaction
	xid   string    // id of the current transaction
	taken bool      // the number of a row was taken: the next transaction first gets new numbers
	met   bool      // the batch has conflicted with another transaction: it runs again alone

	batch  *store.Batch // the current batch
	before int          // value of Writes when the batch began
	mark   mark         // of the last commit

	unwatch func() // ends the watch of the servers

	mu sync.Mutex // held while c is set
	c  *conn      // nil until it is needed, and after it was lost
}

func newBackend(s *Store) *backend {
	return &backend{s: s, Conn: &store.Conn{}, mark: newMark(), unwatch: func() {}}
}

// Write runs the batch. When it returns, the server has the commit on its disk, unless the batch is lazy.
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

// Explain adds the code to an error of the database.
func (w *backend) Explain(err error) error { return w.s.Explain(err) }

// Note does nothing.
func (w *backend) Note(error) {}

// Abandon closes the connection. The next batch opens another one.
func (w *backend) Abandon() { w.shut() }

func (w *backend) shut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.c != nil {
		w.c.Close()
		w.c = nil
	}
}

// open connects if there is no open connection.
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

// Begin begins a transaction and takes the locks of a scope.
func (w *backend) Begin(ctx context.Context, until time.Time, scope store.Scope) error {
	if w.met {
		scope = store.Alone
	}
	ctx, cancel := context.WithDeadline(ctx, latest(until))
	defer cancel()
	err := w.begin(ctx, until, scope)
	for tries := 0; (isLost(err) || isDemoted(err)) && ctx.Err() == nil && tries < maxTries; tries++ {
		// The connection may have been lost since its last use.
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
		w.shut() // a late cancel request would hit the next statement
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

// latest returns until, but at least one second from now, since the lock is tried at least once.
func latest(until time.Time) time.Time {
	if soon := time.Now().Add(time.Second); until.Before(soon) {
		return soon
	}
	return until
}

// Commit commits. If the connection is lost during the commit, Commit finds out whether the transaction was
// committed. It is never cancelled, since a cancelled commit may succeed all the same. A commit that makes an
// outcome durable always writes a row: the batch may have read data of another commit that no standby has confirmed
// yet, and that commit is then confirmed first.
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
	case !isLost(err) && !w.c.Raw.IsClosed(): // the server has refused the commit
		w.Rollback()
		return err
	}
	w.shut()
	if !marked {
		return &store.Later{Err: errUndone}
	}
	return w.fate(err)
}

// Rollback rolls the transaction back, unless it has ended with its connection.
func (w *backend) Rollback() error {
	if w.c == nil || w.c.Raw.IsClosed() || w.c.Raw.TxStatus() == 'I' {
		return nil
	}
	if w.c.Rollback() != nil {
		w.shut()
	}
	return nil // closing the connection rolls the transaction back
}

// maxTries is how often a batch runs again, not counting the runs after it waited for a lock.
const maxTries = 5

// CanAgain reports whether the transaction can succeed if it runs again. It can if the connection was lost before the
// commit, if the server no longer takes writes, if it conflicted with another transaction, or if the number of a row
// was taken. A violated unique index counts as a conflict, unless nobody else writes. So does a lock timeout on a
// table, see HoldStill.
func (w *backend) CanAgain(failure error) bool {
	again := isTaken(failure) || w.meets(failure) || errors.Is(failure, errUndone) || isGone(failure) ||
		w.c != nil && w.c.Raw.IsClosed()
	return again && w.tries < maxTries && time.Now().Before(w.until)
}

// Again reports whether CanAgain does, and prepares the next run.
func (w *backend) Again(failure error) bool {
	if !w.CanAgain(failure) {
		return false
	}
	w.taken = isTaken(failure)
	w.met = w.met || w.meets(failure) || w.taken // large gaps in the numbers would confuse those who hold floors below
	if !hasWaited(failure) {
		w.tries++
	}
	if isGone(failure) {
		w.shut()
	}
	return true
}

// meets reports whether the transaction conflicted with another one.
func (w *backend) meets(failure error) bool {
	code := codeOf(failure)
	return hasWaited(failure) || code == serializationFailure || code == uniqueViolation && !w.alone
}

// hasWaited reports whether the transaction waited for a lock in vain.
func hasWaited(failure error) bool {
	code := codeOf(failure)
	return code == deadlockDetected || code == lockNotAvailable
}

// isGone reports whether the connection was lost, or the server no longer takes writes.
func isGone(failure error) bool { return isLost(failure) || isDemoted(failure) }
