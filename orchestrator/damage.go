package orchestrator

import (
	"context"
	"fmt"

	"mailroom/orchestrator/store"
)

// Ready reports whether the database can be read and written now: it takes the write lock, and looks at the settings and
// at the last message. Once this process has met a damaged page, it is not ready before the whole file is in order again.
// Errors: busy, unavailable.
func (r *Router) Ready(ctx context.Context) error {
	if err := r.stillDamaged(ctx); err != nil {
		return err
	}
	return r.write(ctx, func(t *tx) error {
		if _, err := t.number(`SELECT count(*) FROM settings`); err != nil {
			return err
		}
		_, err := t.number(`SELECT coalesce(max(seq), 0) FROM agent_message`)
		return err
	})
}

// noteDamage remembers an error that says that the file is damaged, and returns it. All reading and writing passes here:
// read, look, and the writer's lead.
func (r *Router) noteDamage(err error) error {
	if isDamaged(err) {
		r.damage.Store(&err)
	}
	return err
}

// stillDamaged returns the damage that was met, unless the file has been mended since. It reads the whole file, but only
// after damage was met, while ctx lasts, and once at a time: who asks meanwhile hears of the damage at once.
func (r *Router) stillDamaged(ctx context.Context) error {
	met := r.damage.Load()
	if met == nil {
		return nil
	}
	if !r.checking.CompareAndSwap(false, true) {
		return *met
	}
	defer r.checking.Store(false)
	verdict := make(store.Row, 1)
	err := r.look(ctx, func(c *conn) error {
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
	r.damage.CompareAndSwap(met, nil)
	return nil
}

// recovery says how to get from a damaged file back to a backup, as commands for a shell. The file is kept with its -wal
// under a name of its own, for what came after the backup.
func recovery(path string) string {
	return fmt.Sprintf("Stop what uses it, then: `mv %[1]s %[1]s.damaged; mv %[1]s-wal %[1]s.damaged-wal; "+
		"mailroom --db %[1]s restore BACKUP`, with the last good backup. Of what came after it, `sqlite3 %[1]s.damaged .recover` saves what can be read", shellWord(path))
}
