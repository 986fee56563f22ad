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

// backend is the connection of a process that writes. There is one per process.
type backend struct {
	s    *Store
	turn *turnstile

	// The following fields belong to the current leader; there is one leader at a time.
	renumber bool // the transaction was rolled back because no number was left, see Again
	c        *conn
	wal      *walFile // makes the commits of c durable

	openMu sync.Mutex // held while c is opened or closed

	strayed atomic.Bool // the files of c were gone after a commit
}

// Write runs the batch when it is this process's turn.
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

// Explain adds the code to an error of the database.
func (w *backend) Explain(err error) error { return databaseError(w.s.path, err) }

// Note records damage.
func (w *backend) Note(err error) { w.s.noteDamage(err) }

// giveUpStrayed closes the connection if its files were gone after its last commit.
func (w *backend) giveUpStrayed(until time.Time) {
	if w.strayed.Swap(false) {
		defer w.turn.enter(time.Until(until))() // see takeTurn
		w.Abandon()
	}
}

// takeTurn runs the batch when it is this process's turn, and ends the turn before anything waits for the disk. A
// connection whose files are gone is closed within the turn, so that no process begins a new -wal before the old one
// is saved.
func (w *backend) takeTurn(b *store.Batch, until time.Time) error {
	defer w.turn.enter(time.Until(until))()
	defer func() { w.renumber = false }()
	err := b.Run(w.c.Conn, w, until)
	if err != nil && w.c.moved() {
		w.Abandon()
	}
	return err
}

// CanAgain reports whether a statement failed because SQLite had no row number left, an error that SQLite reports as a
// full disk. The transaction must then be rolled back. The next run of the batch begins by renumbering rows, but
// only once.
func (w *backend) CanAgain(failure error) bool {
	return !w.renumber && sqliteCode(failure) == sqlite3.ErrFull && w.c.IsExhausted()
}

// Again reports whether CanAgain does, and makes the next run renumber rows.
func (w *backend) Again(failure error) bool {
	again := w.CanAgain(failure)
	w.renumber = w.renumber || again
	return again
}

// Alone returns true, because the holder of the write lock is the only writer.
func (w *backend) Alone() bool { return true }

// Hold returns true, because nobody else writes.
func (w *backend) Hold(string) (bool, error) { return true, nil }

// Begin takes the write lock, which keeps everybody else from writing, whatever the scope is.
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

// Commit commits, unless the files of the database are gone.
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

// Rollback rolls the transaction back, unless SQLite has already done so.
func (w *backend) Rollback() error {
	if w.c.Broken() {
		return nil
	}
	_, err := w.c.Exec("ROLLBACK")
	return err
}

// Abandon closes the connection after a panic, or because its files are gone. The next batch opens the files that
// exist then.
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

// shut closes the connection and releases the -wal. The caller must hold openMu.
func (w *backend) shut() error {
	err := w.c.close()
	w.wal.release()
	w.c, w.wal = nil, nil
	return err
}

// open opens the connection if it is not open, and waits for locks of others until the given time. It is safe to
// call while a leader is writing.
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

// close closes the connection. The connection must not be in use.
func (w *backend) close() error {
	w.openMu.Lock()
	defer w.openMu.Unlock()
	if w.c == nil {
		return nil
	}
	return w.shut()
}
