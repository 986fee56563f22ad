package sqlite

import (
	"context"
	"path/filepath"

	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/sqlite/check"
)

// CheckPlace looks at the file, its folder and the file system.
func (s *Store) CheckPlace(_ context.Context, report store.Report) {
	if s.gone() {
		err := s.noDatabase()
		report("file", store.Problem, err.Message, err.Hint)
	} else {
		check.File(s.path, report)
	}
	check.FileSystem(filepath.Dir(s.path), report)
}

// CheckLock reports whether nobody can write the database since a program holds its lock, and which one that is.
func (s *Store) CheckLock(ctx context.Context, report store.Report) (locked bool) {
	if locked = store.IsLocked(ctx, s.Write, report); locked {
		check.Lockers(s.path, report)
	}
	return locked
}

// CheckTables looks at the write-ahead log, and has SQLite look at the whole file if all is set.
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

// Recovery returns how to get past an error of a damaged file; "" for any other.
func (d *dbFile) Recovery(err error) string {
	if !isDamaged(err) {
		return ""
	}
	return check.Recovery(d.path)
}

// Ready reports whether the database can be read and its write lock be had now: it looks at the settings and at the
// last message. It writes nothing, so a full disk does not show. Once this process has met a damaged page, it is not
// ready before the whole file is in order again. Errors: busy, unavailable.
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
	if sqliteCode(err) == sqlite3.ErrFull { // what others wrote in the same transaction had no room
		err = s.write(ctx, look)
	}
	return err
}

// noteDamage remembers an error that says that the file is damaged, and returns it. All reading and writing passes
// here: Read, look, and the outcomes of the writer, through Note.
func (s *Store) noteDamage(err error) error {
	if isDamaged(err) {
		s.damage.Store(&err)
	}
	return err
}

// stillDamaged returns the damage that was met, unless the file has been mended since. It reads the whole file, but
// only after damage was met, while ctx lasts, and once at a time: who asks meanwhile hears of the damage at once.
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
