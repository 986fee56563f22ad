package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"time"
	"unicode/utf8"

	"mailroom/orchestrator/store"
)

// Schedules lists the schedules by name.
func (r *Router) Schedules(ctx context.Context) (list []Schedule, err error) {
	err = r.read(ctx, func(c *Conn) error {
		list, err = c.schedules()
		return err
	})
	return list, err
}

func (c *Conn) schedules() ([]Schedule, error) {
	list := []Schedule{}
	err := c.query(`SELECT name, spec, command, params, enabled, last_run_at, created_at FROM schedules ORDER BY name`,
		func(row store.Row) error {
			s := Schedule{
				Name: row.Text(0), Spec: row.Text(1), Command: row.Text(2), Params: json.RawMessage(row.Text(3)),
				Enabled: row.Int(4) != 0, LastRunAt: row.Text(5), CreatedAt: row.Text(6),
			}
			if !json.Valid(s.Params) || !utf8.Valid(s.Params) { // shown as a text: they would make a list of schedules no JSON
				s.Params, s.Problem = JSONString(string(s.Params)), "it does not run: its params are not JSON"
			}
			list = append(list, s)
			return nil
		})
	return list, err
}

// AddSchedule adds a schedule, or replaces the one of that name. Spec, command and params must have been checked.
func (r *Router) AddSchedule(ctx context.Context, s Schedule) (Schedule, error) {
	name, err := CheckName("schedule", s.Name)
	if err != nil {
		return Schedule{}, err
	}
	s.Name, s.Enabled, s.LastRunAt = name, true, ""
	err = r.write(ctx, func(t *tx) error {
		s.CreatedAt = t.now
		_, err := t.Exec(`
			INSERT INTO schedules (name, spec, command, params, created_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, command = excluded.command, params = excluded.params,
			    enabled = 1, last_run_at = '', created_at = excluded.created_at`,
			s.Name, s.Spec, s.Command, string(s.Params), s.CreatedAt)
		if err != nil {
			return err
		}
		return t.configChanged()
	})
	return s, err
}

// RemoveSchedule deletes a schedule. Error: not_found.
func (r *Router) RemoveSchedule(ctx context.Context, name string) error {
	return r.write(ctx, func(t *tx) error {
		n, err := t.Exec(`DELETE FROM schedules WHERE name = ?`, name)
		if err != nil {
			return err
		}
		if n == 0 {
			names, err := t.texts(`SELECT name FROM schedules ORDER BY name`)
			if err != nil {
				return err
			}
			return Errorf(NotFound, "there is no schedule %q", name).WithHint("%s", cmp.Or(didYouMean(name, names), "`mailroom schedule list` lists them"))
		}
		return t.configChanged()
	})
}

// ClaimRun records that a schedule runs for the time slot at. It returns false when another daemon has recorded that
// slot, or a later one: only one of several daemons on one file runs a daily command.
func (r *Router) ClaimRun(ctx context.Context, name string, at time.Time) (mine bool, err error) {
	slot := stamp(at)
	err = r.write(ctx, func(t *tx) error {
		n, err := t.Exec(`UPDATE schedules SET last_run_at = ?1 WHERE name = ?2 AND last_run_at < ?1 AND enabled = 1`, slot, name)
		mine = n > 0
		return err
	})
	return mine, err
}

// ConfigVersion changes whenever agents, groups, settings or schedules do.
func (r *Router) ConfigVersion(ctx context.Context) (version string, err error) {
	err = r.read(ctx, func(c *Conn) error {
		version, _, err = c.text(`SELECT value FROM settings WHERE key = '` + configVersion + `'`)
		return err
	})
	return version, err
}
