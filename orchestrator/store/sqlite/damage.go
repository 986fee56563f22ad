package sqlite

import (
	"context"
	"path/filepath"

	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/sqlite/check"
)

// CheckPlace checks the file, its folder and the file system.
func (s *Store) CheckPlace(_ context.Context, report store.Report) {
	if s.gone() {
		err := s.noDatabase()
		report("file", store.Problem, err.Message, err.Hint)
	} else {
		check.File(s.path, report)
	}
	check.FileSystem(filepath.Dir(s.path), report)
}

// CheckLock reports whether a program holds a lock so that nobody can write the database, and which program that is.
func (s *Store) CheckLock(ctx context.Context, report store.Report) (locked bool) {
	if locked = store.IsLocked(ctx, s.Write, report); locked {
		check.Lockers(s.path, report)
	}
	return locked
}

// CheckTables checks the write-ahead log. If all is set, SQLite also checks the whole file.
func (s *Store) CheckTables(c *store.Conn, all bool, report store.Report) error {
	if all {
		if err := check.Integrity(c, s.path, report); err != nil {
			return err
		}
	}
	return check.Log(c, s.path, s.logSize(), report)
}

// CheckCopies reports what killed backups and restores left in the folders.
func (s *Store) CheckCopies(folders []string, report store.Report) { check.Copies(folders, report) }

// Recovery returns instructions to recover from damage if err was caused by a damaged file, and "" otherwise.
func (d *dbFile) Recovery(err error) string {
	if !isDamaged(err) {
		return ""
	}
	return check.Recovery(d.path)
}

// Ready checks that the database can be read and that its write lock is free. It reads the settings and the last
// message. It writes nothing, so it does not detect a full disk. After this process has found a damaged page, Ready
// fails until the whole file is in order again. Its errors are busy and unavailable.
func (s *Store) Ready(ctx context.Context) error {
	if err := s.stillDamaged(ctx); err != nil {
		return err
	}
	look := func(t *store.Transaction) error {
		if _, err := t.Number(`SELECT count(*) FROM settings`); err != nil {
			return err
		}
		_, err := t.Number(`SELECT coalesce(max(seq), 0) FROM agent_message`)
		return err
	}
	err := s.write(ctx, look)
	if sqliteCode(err) == sqlite3.ErrFull { // other requests in the same transaction found no space
		err = s.write(ctx, look)
	}
	return err
}

// noteDamage records an error that was caused by a damaged file, and returns it. All reads and writes call it: Read,
// look, and the outcomes of the writer through Note.
func (s *Store) noteDamage(err error) error {
	if isDamaged(err) {
		s.damage.Store(&err)
	}
	return err
}

// stillDamaged returns the recorded damage, unless the file has been repaired since. It reads the whole file, but
// only after damage was found, until ctx ends, and in one goroutine at a time; other callers get the recorded error
// at once.
func (s *Store) stillDamaged(ctx context.Context) error {
	met := s.damage.Load()
	if met == nil {
		return nil
	}
	if !s.checking.CompareAndSwap(false, true) {
		return *met
	}
	defer s.checking.Store(false)
	verdict := make(store.Row, 1)
	err := s.look(ctx, func(c *conn) error {
		rows, err := c.raw.QueryContext(ctx, `PRAGMA quick_check(1)`, nil)
		if err != nil {
			return err
		}
		defer rows.Close()
		return rows.Next(verdict)
	})
	if err != nil || verdict.Text(0) != "ok" {
		return *met
	}
	s.damage.CompareAndSwap(met, nil)
	return nil
}
