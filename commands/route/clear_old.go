package route

import (
	"cmp"
	"context"
	"math"
	"time"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/retention"
)

// ClearOldParams holds the age from which retention removes messages. Source: document 004, "Operation 4: Clear Old
// Messages".
type ClearOldParams struct {
	OlderThanDays *int `json:"older_than_days,omitempty" desc:"age in days of finished messages; default: the setting retention.ended" check:"min=0,max=3650"`
}

// ClearOldResult is the answer defined by document 004. Deleted and Statuses count rows removed from agent_message;
// delivered ones were moved to the archive.
type ClearOldResult struct {
	Deleted        int64            `json:"messages_deleted"`
	FreedMB        float64          `json:"disk_space_freed_mb"`
	Statuses       map[string]int64 `json:"deleted_statuses"`
	ArchiveDeleted int64            `json:"archive_deleted"`
	Timestamp      string           `json:"timestamp"`
}

var clearOldCommand = commands.Define(vocabulary, "clear_old", clearOld).
	With(commands.Traits{Confirm: "This archives and deletes old messages.", Document: true})

// clearOld applies the retention rules.
func clearOld(ctx context.Context, env commands.Env, p ClearOldParams) (ClearOldResult, error) {
	var o retention.ClearOptions
	if env.Call.Progress != nil {
		o.Progress = func(done, total int64) { env.Call.Progress(done, total, "messages") }
	}
	if p.OlderThanDays != nil {
		// 0 days means everything that has ended, but 0 in ClearOptions means the setting.
		o.OlderThan = cmp.Or(time.Duration(*p.OlderThanDays)*24*time.Hour, time.Millisecond)
	}
	cleared, err := retention.ClearOld(ctx, env.Ledger, o)
	if err != nil {
		return ClearOldResult{}, err
	}
	r := ClearOldResult{
		Deleted: cleared.Deleted, FreedMB: math.Round(float64(cleared.FreedBytes)/(1<<20)*1000) / 1000,
		Statuses: map[string]int64{}, ArchiveDeleted: cleared.ArchiveDeleted, Timestamp: timestamp(env),
	}
	for status, n := range cleared.Statuses {
		r.Statuses[string(status)] = n
	}
	return r, nil
}

// Text writes the result for people.
func (r ClearOldResult) Text(w *terminal.Text) {
	archived := r.Statuses["delivered"]
	w.Printf("Archived %d delivered messages, which can still be read. Deleted %d other messages, and %d messages from the archive.\n",
		archived, r.Deleted-archived, r.ArchiveDeleted)
	w.Printf("The database files are %.1f MB smaller.\n", r.FreedMB)
}
