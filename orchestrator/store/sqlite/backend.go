package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator/store"
)

// backend is the one connection of a process that writes.
type backend struct {
	s    *Store
	turn *turnstile

	// Leaders, of whom there is one at a time, own what follows.
	renumber bool // the transaction was undone since there was no number left; see Again
	c        *conn
	wal      *walFile // makes what c committed durable

	openMu sync.Mutex // held while c is opened or closed

	strayed atomic.Bool // the files of c had gone after a commit
}

// Write runs the batch in this process's turn.
func (w *backend) Write(b *store.Batch, until time.Time) (store.Commit, error) {
	w.giveUpStrayed(until)
	if err := w.open(until); err != nil {
		return nil, err
	}
	before := w.c.Writes
	if err := w.takeTurn(b, until); err != nil {
		return nil, w.Explain(err)
	}
	if w.c.Writes == before && !b.Answers() {
		return nil, nil
	}
	if b.Lazy() {
		return store.NothingToSync, nil
	}
	return w.wal.committed(w), nil
}

// Explain gives an error of the database its code.
func (w *backend) Explain(err error) error { return databaseError(w.s.path, err) }

// Note remembers damage.
func (w *backend) Note(err error) { w.s.noteDamage(err) }

// giveUpStrayed gives the connection up if its files had gone after its last commit.
func (w *backend) giveUpStrayed(until time.Time) {
	if w.strayed.Swap(false) {
		defer w.turn.enter(time.Until(until))() // see takeTurn
		w.Abandon()
	}
}

// takeTurn runs the batch in this process's turn, and ends the turn before anything waits for the disk. A connection
// whose files have gone is given up within the turn, so that nobody begins a new -wal before the old one is saved.
func (w *backend) takeTurn(b *store.Batch, until time.Time) error {
	defer w.turn.enter(time.Until(until))()
	defer func() { w.renumber = false }()
	err := b.Run(w.c.Conn, w, until)
	if err != nil && w.c.moved() {
		w.Abandon()
	}
	return err
}

// Again reports whether a statement failed because SQLite had no number left, which it calls a full disk. Then the
// transaction is to be undone, and the next run of the batch begins with giving it some, once.
func (w *backend) Again(failure error) bool {
	if w.renumber || sqliteCode(failure) != sqlite3.ErrFull {
		return false
	}
	w.renumber = w.c.IsExhausted()
	return w.renumber
}

// Alone reports true: whoever has the write lock is.
func (w *backend) Alone() bool { return true }

// Hold reports true: nobody else writes.
func (w *backend) Hold(string) (bool, error) { return true, nil }

// Begin takes the write lock, which lets nobody else write, whatever the scope.
func (w *backend) Begin(ctx context.Context, until time.Time, _ store.Scope) error {
	w.c.trim()
	err := w.begin(ctx, until)
	if err == nil && w.renumber {
		if err = w.c.Admit(); err == nil {
			err = w.c.Renumber()
		}
		if err != nil {
			w.Rollback()
		}
	}
	return err
}

func (w *backend) begin(ctx context.Context, until time.Time) error {
	_, err := w.c.Exec("BEGIN IMMEDIATE")
	if !isBusy(err) {
		return err
	}
	err = backoff.Retry(func() error {
		_, err := w.c.Exec("BEGIN IMMEDIATE")
		return retryable(err)
	}, patience(ctx, until))
	if err != nil && ctx.Err() != nil {
		return store.GaveUp(ctx)
	}
	return err
}

// Commit commits, unless the files of the database have gone.
func (w *backend) Commit() error {
	if w.c.moved() {
		w.Rollback()
		return w.s.movedAway()
	}
	_, err := w.c.Exec("COMMIT")
	if err != nil {
		w.Rollback()
	}
	return err
}

// Rollback undoes the transaction, unless SQLite has done so by itself.
func (w *backend) Rollback() error {
	if w.c.Broken() {
		return nil
	}
	_, err := w.c.Exec("ROLLBACK")
	return err
}

// Abandon closes the connection after a panic, or since its files have gone; the next batch opens what is there then.
func (w *backend) Abandon() {
	w.openMu.Lock()
	defer w.openMu.Unlock()
	if w.c == nil || !w.c.saveWAL() {
		return
	}
	if err := w.shut(); err != nil {
		w.s.log.Warn("cannot close an abandoned connection", "error", err)
	}
}

// shut closes what open has opened. openMu is held.
func (w *backend) shut() error {
	err := w.c.close()
	w.wal.release()
	w.c, w.wal = nil, nil
	return err
}

// open opens the connection if it is not open, and waits until a certain time for what others hold. It is safe to call
// while a leader is writing.
func (w *backend) open(until time.Time) error {
	w.openMu.Lock()
	defer w.openMu.Unlock()
	if w.c != nil {
		return nil
	}
	c, err := w.s.openWriter(until)
	if err != nil {
		return err
	}
	wal, err := openWAL(c)
	if errors.Is(err, fs.ErrNotExist) { // somebody has turned the write-ahead log off
		if err = c.Script("PRAGMA journal_mode = WAL; SELECT 1 FROM settings"); err == nil {
			wal, err = openWAL(c)
		}
	}
	if err != nil {
		c.close()
		return databaseError(w.s.path, err)
	}
	w.c, w.wal = c, wal
	w.s.keepWAL(wal)
	return nil
}

func (w *backend) isOpen() bool {
	w.openMu.Lock()
	defer w.openMu.Unlock()
	return w.c != nil
}

// close closes the connection. Nobody may be using it.
func (w *backend) close() error {
	w.openMu.Lock()
	defer w.openMu.Unlock()
	if w.c == nil {
		return nil
	}
	return w.shut()
}
