package postgres

import (
	"context"
	"fmt"
	"sync"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/check"
)

// settled is up to which ids the traces were complete when they were last asked. What was complete stays so.
type settled struct {
	mu   sync.Mutex
	last int64 // id that message_trace had given out
	store.Settled
}

// Settled says up to which ids the traces are complete, see functions.sql. A transaction of another program or another
// database holds nothing up, one of ours as long as it is open: a process that is stopped within one is ended by the
// server.
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
	if now.last >= before { // otherwise another database is in the place of this one
		now.last, now.Events, now.Commands = max(now.last, known.last), max(now.Events, known.Events),
			max(now.Commands, known.Commands)
	}
	known.last, known.Settled = now.last, now.Settled
	return now.Settled, nil
}

// noFollowing is the error for a standby, which does not know what transactions are under way.
func noFollowing(s *Store) error {
	return &orchestrator.Error{Code: orchestrator.Unavailable,
		Message: "the server of " + s.path + " is a standby, so it cannot be used to follow events",
		Hint:    check.NameAll}
}
