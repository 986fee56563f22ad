package schedules

import (
	"context"
	"slices"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Run is a run of a schedule's command, from the trace.
type Run struct {
	StartedAt string `json:"started_at"`
	EndedAt   string `json:"ended_at,omitempty"` // "" while the command runs, and if it was killed
	Failed    bool   `json:"failed,omitempty"`
	Error     string `json:"error,omitempty"`
}

// recentRuns bounds the rows of command_trace that LastRuns reads: the newest ones, and for a schedule without a run
// among those, the rows since its last recorded run. noted allows for the difference between the recorded time and
// the start of the run.
const (
	recentRuns = 5000
	noted      = 2 * time.Second
)

// LastRuns returns the last run of each schedule's command in the trace, by the schedule's name. A run that changed
// nothing is not in the trace. A run that somebody requested cannot be told from a scheduled one.
func LastRuns(ctx context.Context, l *ledger.Ledger, list []orchestrator.Schedule) (last map[string]Run, err error) {
	err = l.Read(ctx, func(c *store.Conn) error {
		last = map[string]Run{}
		runs, err := lastOfEach(c,
			`SELECT name, started_at, ended_at, status, status_message FROM command_trace
				WHERE id > (SELECT coalesce(max(id), 0) FROM command_trace) - ?`, recentRuns)
		if err != nil {
			return err
		}
		for _, s := range list {
			run, found := runs[s.Command]
			at, err := time.Parse(time.RFC3339, s.LastRunAt)
			if !found && err == nil {
				older, err := lastOfEach(c,
					`SELECT name, started_at, ended_at, status, status_message FROM command_trace WHERE started_at >= ?
						ORDER BY started_at LIMIT +?`,
					orchestrator.Stamp(at.Add(-noted)), recentRuns)
				if err != nil {
					return err
				}
				run, found = older[s.Command]
			}
			if found {
				last[s.Name] = run
			}
		}
		return nil
	})
	return last, err
}

// lastOfEach returns, for each command, the latest of the runs that a statement selects.
func lastOfEach(c *store.Conn, query string, args ...any) (map[string]Run, error) {
	last := map[string]Run{}
	err := c.Query(query, func(row store.Row) error {
		name, at := row.Text(0), row.Text(1)
		if at > last[name].StartedAt {
			last[name] = Run{StartedAt: at, EndedAt: row.Text(2), Failed: row.Text(3) == "ERROR", Error: row.Text(4)}
		}
		return nil
	}, args...)
	return last, err
}

// Get returns a schedule that may be run. Errors: not_found; conflict if the database is not trusted and the schedule
// is not one of those of every new database.
func Get(ctx context.Context, l *ledger.Ledger, name string) (s orchestrator.Schedule, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		list, err := schedules(c)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(s orchestrator.Schedule) bool { return s.Name == name })
		if i < 0 {
			return unknown(c, name)
		}
		if s = list[i]; conf.Untrusted != "" && !isPreset(&s) {
			return orchestrator.Errorf(orchestrator.Conflict, "%s: %s", ledger.NotTrusted, conf.Untrusted).
				WithHint("%s", ledger.NotTrustedHint)
		}
		return nil
	})
	return s, err
}
