package orchestrator

import (
	"context"
	"time"

	"mailroom/orchestrator/store"
)

// Arrivals returns a channel that gets a value whenever messages have come that the recipient has not read, until ctx ends or
// stop is called. Several arrivals may become one value, and a value may come for what was there already, if that falls due within
// the moment of the call. It looks when the bell rings, or when a message is due that waited, and changes nothing.
// Errors: invalid_params for the name; unavailable.
func (r *Router) Arrivals(ctx context.Context, recipient string) (arrivals <-chan struct{}, stop func(), err error) {
	if recipient, err = CheckName("recipient", recipient); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	rings, stopRings, err := r.bell.Listen(ctx, recipient)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	seen, err := r.unreadOf(ctx, recipient)
	if err != nil {
		cancel()
		stopRings()
		return nil, nil, err
	}
	out, done := make(chan struct{}, 1), make(chan struct{})
	GoSafe("arrivals", r.log, func() {
		defer close(done)
		r.arrivals(ctx, recipient, seen, rings, out)
	})
	return out, func() {
		cancel()
		<-done
		stopRings()
	}, nil
}

func (r *Router) arrivals(ctx context.Context, recipient string, seen unread, rings <-chan bool, out chan struct{}) {
	for {
		left := slowPoll
		if next, err := r.nextDue(ctx, recipient); err == nil && !next.IsZero() {
			left = min(left, max(next.Sub(r.Now()), firstPause))
		}
		timer := time.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-rings:
		case <-timer.C:
		}
		timer.Stop()
		now, err := r.unreadOf(ctx, recipient)
		if err != nil {
			continue // the next ring asks again
		}
		if now.count > seen.count || now.newest > seen.newest {
			select {
			case out <- struct{}{}:
			default: // one is waiting already
			}
		}
		seen = now
	}
}

// unread is what an agent has not read, delivered or due. A message that is delivered meanwhile changes nothing of it.
type unread struct {
	count  int64
	newest int64 // seq: the order of commits, which ids do not have
}

func (r *Router) unreadOf(ctx context.Context, recipient string) (u unread, err error) {
	err = r.read(ctx, func(c *Conn) error {
		return c.query(`
			SELECT count(*), coalesce(max(seq), 0) FROM (
			    SELECT seq FROM agent_inbox i LEFT JOIN agent_message USING (message_id) WHERE i.recipient = ?2 AND i.read_at = ''
			    UNION ALL SELECT seq FROM agent_message m WHERE `+takeable+`) AS u`, func(row store.Row) error {
			u = unread{row.Int(0), row.Int(1)}
			return nil
		}, stamp(r.Now()), recipient)
	})
	return u, err
}
