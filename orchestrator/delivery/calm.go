package delivery

import (
	"context"
	"sync"
	"time"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// longestCalm bounds how long a run relies on the one before, which found nothing to do. What neither a commit nor a due
// time announces is found that much later: the end of a process that holds no message, or a clock that was set back.
const longestCalm = 10 * time.Second

// calm is what a delivery run to everybody found out when there was nothing to do: until when that stays so, unless
// somebody commits. With it a daemon that is left alone does next to nothing each second. It is safe for concurrent use.
type calm struct {
	mu           sync.Mutex
	version      int64 // of the database
	since, until time.Time
	untrusted    string
}

// holds reports whether there is nothing to do at a version of the database, and why the database is not trusted.
func (c *calm) holds(version int64, now time.Time) (untrusted string, holds bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.untrusted, version == c.version && !now.Before(c.since) && now.Before(c.until)
}

// begin notes that a run that began at a time, with a version of the database, has found nothing to do.
func (c *calm) begin(ctx context.Context, l *ledger.Ledger, version int64, now time.Time, untrusted string) error {
	held, err := ledger.ReadValue(ctx, l, func(c *store.Conn) (int64, error) { // its process may end, without a commit
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
