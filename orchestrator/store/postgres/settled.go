package postgres

import (
	"context"
	"fmt"
	"sync"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/check"
)

// settled holds the ids up to which the traces were complete at the last query. Traces that were complete stay
// complete.
type settled struct {
	mu   sync.Mutex
	last int64 // the last id that message_trace had given out
	store.Settled
}

// Settled returns the ids up to which the traces are complete, see functions.sql. Transactions of other programs and
// other databases delay nothing. A transaction of Mailroom delays larger ids while it is open; if its process is
// stopped, the server ends the transaction.
func (s *Store) Settled(ctx context.Context) (store.Settled, error) {
	known, now := &s.settled, settled{}
	known.mu.Lock()
	before := known.last
	known.mu.Unlock()
	err := s.Look(ctx, func(c *store.Conn) error {
		return c.Query(`SELECT events, commands, last, holder, pg_is_in_recovery() FROM settled()`,
			func(row store.Row) error {
				if row.Int(4) != 0 {
					return noFollowing(s)
				}
				now.Events, now.Commands, now.last = row.Int(0), row.Int(1), row.Int(2)
				if row[3] != nil {
					now.Holder = fmt.Sprintf("pid %d", row.Int(3))
				}
				return nil
			})
	})
	if err != nil {
		return store.Settled{}, err
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	if now.last >= before { // otherwise another database has replaced this one
		now.last, now.Events, now.Commands = max(now.last, known.last), max(now.Events, known.Events),
			max(now.Commands, known.Commands)
	}
	known.last, known.Settled = now.last, now.Settled
	return now.Settled, nil
}

// noFollowing returns the error for a standby, which cannot see the transactions in progress.
func noFollowing(s *Store) error {
	return &orchestrator.Error{Code: orchestrator.Unavailable,
		Message: "the server of " + s.path + " is a standby, so it cannot be used to follow events",
		Hint:    check.NameAll}
}
