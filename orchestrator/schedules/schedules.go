// Package schedules stores the schedules of a database: the commands that a daemon runs at set times. It also lists
// what a database does outside of itself, and decides whether the database is trusted to do so.
package schedules

import (
	"cmp"
	"context"
	"encoding/json"
	"time"
	"unicode/utf8"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// List returns the schedules, sorted by name.
func List(ctx context.Context, l *ledger.Ledger) ([]orchestrator.Schedule, error) {
	return ledger.ReadValue(ctx, l, schedules)
}

func schedules(c *store.Conn) ([]orchestrator.Schedule, error) {
	return store.List(c, func(row store.Row) orchestrator.Schedule {
		s := orchestrator.Schedule{
			Name: row.Text(0), Spec: row.Text(1), Command: row.Text(2), Params: json.RawMessage(row.Text(3)),
			Enabled: row.Int(4) != 0, LastRunAt: row.Text(5), CreatedAt: row.Text(6),
		}
		if !json.Valid(s.Params) || !utf8.Valid(s.Params) {
			// Invalid params become a JSON string, because otherwise the list of schedules would not be valid JSON.
			s.Params, s.Problem = orchestrator.JSONString(string(s.Params)), "the schedule does not run: its params are not valid JSON"
		}
		return s
	}, `SELECT name, spec, command, params, enabled, last_run_at, created_at FROM schedules ORDER BY name`)
}

// Own counts the enabled schedules that a new database does not have.
func Own(c *store.Conn) (n int64, err error) {
	list, err := schedules(c)
	for i := range list {
		if list[i].Enabled && !isPreset(&list[i]) {
			n++
		}
	}
	return n, err
}

// Add stores a schedule. It replaces a schedule with the same name. If the stored schedule is identical, Add enables
// it and keeps its times. The caller must have checked the spec, the command and the params.
func Add(ctx context.Context, l *ledger.Ledger, s orchestrator.Schedule) (orchestrator.Schedule, error) {
	name, err := orchestrator.CheckName("schedule", s.Name)
	if err != nil {
		return orchestrator.Schedule{}, err
	}
	s.Name, s.Enabled, s.LastRunAt = name, true, ""
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		s.CreatedAt = t.Now
		err := t.Query(`SELECT created_at, last_run_at FROM schedules WHERE name = ? AND spec = ? AND command = ?
			AND params = ?`, func(row store.Row) error {
			s.CreatedAt, s.LastRunAt = row.Text(0), row.Text(1)
			return nil
		}, s.Name, s.Spec, s.Command, string(s.Params))
		if err == nil {
			err = t.Run(`
				INSERT INTO schedules (name, spec, command, params, created_at, last_run_at) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, command = excluded.command,
					params = excluded.params,
				    enabled = 1, last_run_at = excluded.last_run_at, created_at = excluded.created_at`,
				s.Name, s.Spec, s.Command, string(s.Params), s.CreatedAt, s.LastRunAt)
		}
		if err != nil {
			return err
		}
		return t.ConfigChanged()
	})
	return s, err
}

// Remove deletes a schedule. Error: not_found.
func Remove(ctx context.Context, l *ledger.Ledger, name string) error {
	return l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		n, err := t.Exec(`DELETE FROM schedules WHERE name = ?`, name)
		if err != nil {
			return err
		}
		if n == 0 {
			return unknown(t.Conn, name)
		}
		return t.ConfigChanged()
	})
}

// unknown returns the error for a schedule that does not exist.
func unknown(c *store.Conn, name string) error {
	names, err := c.Texts(`SELECT name FROM schedules ORDER BY name`)
	if err != nil {
		return err
	}
	return orchestrator.Errorf(orchestrator.NotFound, "there is no schedule %q", name).
		WithHint("%s", cmp.Or(orchestrator.DidYouMean(name, names), "To list the schedules, run `mailroom schedule list`"))
}

// ClaimRun records that this daemon runs a schedule for the time at. mine is false if another daemon has recorded
// that time or a later one, so only one of several daemons runs the schedule.
func ClaimRun(ctx context.Context, l *ledger.Ledger, name string, at time.Time) (mine bool, err error) {
	slot := orchestrator.Stamp(at)
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		n, err := t.Exec(`UPDATE schedules SET last_run_at = ?1 WHERE name = ?2 AND last_run_at < ?1 AND enabled = 1`,
			slot, name)
		mine = n > 0
		return err
	})
	return mine, err
}

// ConfigVersion returns a text that changes whenever agents, groups, settings or schedules change. If it differs from
// the previous one, read them again.
func ConfigVersion(ctx context.Context, l *ledger.Ledger) (string, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (string, error) {
		version, _, err := c.Text(`SELECT value FROM settings WHERE key = '` + store.ConfigVersion + `'`)
		return version, err
	})
}
