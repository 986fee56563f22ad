package sqlite

import (
	"context"

	"mailroom/orchestrator/store"
)

// Ready reports whether the database can be read and written now: it takes the write lock, and looks at the settings and
// at the last message. Once this process has met a damaged page, it is not ready before the whole file is in order again.
// Errors: busy, unavailable.
func (s *Store) Ready(ctx context.Context) error {
	if err := s.stillDamaged(ctx); err != nil {
		return err
	}
	return s.write(ctx, func(t *store.Transaction) error {
		if _, err := t.Number(`SELECT count(*) FROM settings`); err != nil {
			return err
		}
		_, err := t.Number(`SELECT coalesce(max(seq), 0) FROM agent_message`)
		return err
	})
}

// noteDamage remembers an error that says that the file is damaged, and returns it. All reading and writing passes here:
// Read, look, and the outcomes of the writer, through Note.
func (s *Store) noteDamage(err error) error {
	if isDamaged(err) {
		s.damage.Store(&err)
	}
	return err
}

// stillDamaged returns the damage that was met, unless the file has been mended since. It reads the whole file, but only
// after damage was met, while ctx lasts, and once at a time: who asks meanwhile hears of the damage at once.
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
