package delivery

import (
	"context"
	"sync"
	"time"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// longestCalm limits how long a run relies on an earlier run that found nothing to do. Some changes are announced
// neither by a commit nor by a due time: the end of a process that holds no message, and a clock that was set back.
// They are noticed after at most this time.
const longestCalm = 10 * time.Second

// calm records that a delivery run to all recipients found nothing to do, and until when that holds unless somebody
// commits. With it an idle daemon does next to nothing each second. It is safe for concurrent use.
type calm struct {
	mu           sync.Mutex
	version      int64 // version of the database
	since, until time.Time
	untrusted    string
}

// holds reports whether there is nothing to do at a version of the database, and returns why the database is not
// trusted.
func (c *calm) holds(version int64, now time.Time) (untrusted string, holds bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.untrusted, version == c.version && !now.Before(c.since) && now.Before(c.until)
}

// begin records that a run that started at now, with the given version of the database, found nothing to do.
func (c *calm) begin(ctx context.Context, l *ledger.Ledger, version int64, now time.Time, untrusted string) error {
	held, err := ledger.ReadValue(ctx, l, func(c *store.Conn) (int64, error) { // its process may end without a commit
		return c.Number(`SELECT EXISTS (SELECT 1 FROM agent_message WHERE ` + ledger.Leased + `)
			OR EXISTS (SELECT 1 FROM reading_lease WHERE until > '')`)
	})
	if err != nil || held != 0 {
		return err
	}
	next, err := NextDue(ctx, l)
	if err != nil {
		return err
	}
	until := now.Add(longestCalm)
	if !next.IsZero() && next.Before(until) {
		until = next
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version, c.since, c.until, c.untrusted = version, now, until, untrusted
	return nil
}
