package reading

import (
	"context"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Arrivals returns a channel that gets a value when the recipient has new unread messages, until ctx ends or stop is
// called. One value may represent several messages, and a value may be sent for messages that were there before. So
// look once after Arrivals returns, and then after each value. Arrivals only listens and reads: it delivers nothing
// and marks nothing as read. Errors: invalid_params for the name; unavailable.
func Arrivals(ctx context.Context, l *ledger.Ledger, recipient string) (news <-chan struct{}, stop func(), err error) {
	if recipient, err = orchestrator.CheckName("recipient", recipient); err != nil {
		return nil, nil, err
	}
	seen, err := unreadOf(ctx, l, recipient)
	if err != nil {
		return nil, nil, err
	}
	return delivery.Listen(ctx, l, recipient, func(ctx context.Context, rings <-chan bool, out chan struct{}) {
		arrivals(ctx, l, recipient, seen, rings, out)
	})
}

func arrivals(ctx context.Context, l *ledger.Ledger, recipient string, seen unread, rings <-chan bool,
	out chan struct{}) {
	looked := l.Now()
	for {
		left := orchestrator.SlowPoll
		if next, err := delivery.NextDueOf(ctx, l, recipient, looked); err == nil && !next.IsZero() {
			left = min(left, max(next.Sub(l.Now()), delivery.FirstPause))
		}
		select {
		case <-ctx.Done():
			return
		case <-rings:
		case <-time.After(left):
		}
		looked = l.Now()
		now, err := unreadOf(ctx, l, recipient)
		if err != nil {
			continue // the next ring or timeout tries again
		}
		if now.count > seen.count || now.newest > seen.newest {
			select {
			case out <- struct{}{}:
			default: // a value is already waiting
			}
		}
		seen = now
	}
}

// unread counts the messages that an agent has not read, delivered or due. The delivery of a due message does not
// change it.
type unread struct {
	count  int64
	newest int64 // seq: the order of commits, unlike ids
}

func unreadOf(ctx context.Context, l *ledger.Ledger, recipient string) (unread, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (unread, error) {
		u, _, err := store.First(c, func(row store.Row) unread { return unread{row.Int(0), row.Int(1)} }, `
			SELECT count(*), coalesce(max(seq), 0) FROM (
			    SELECT seq FROM agent_inbox i LEFT JOIN agent_message USING (message_id) WHERE i.recipient = ?2
			    	AND i.read_at = ''
			    UNION ALL SELECT seq FROM agent_message m WHERE `+ledger.Takeable+`) AS u`, orchestrator.Stamp(l.Now()),
			recipient)
		return u, err
	})
}
