package orchestrator

import (
	"context"
	"encoding/json"
	"time"

	"mailroom/tracing"
)

// placedUnacknowledged is the condition for what a transport outside the database has delivered and nobody has
// acknowledged. It must stand to the letter: see rows.go.
const placedUnacknowledged = "status = 'delivered' AND acknowledged_at = '' AND delivery_marks <> ''"

// ReadPlaced returns what was delivered to an agent through a target (SCHEME:ADDRESS) that leaves marks, and is not
// acknowledged, in the order of reading: at most limit messages, and 4 MiB of payload; more says that there are others. It
// returns them again until they are acknowledged. With mark, those that were not read before are marked as read, and fresh
// lists them for Unread. Errors: those of the database.
func (r *Router) ReadPlaced(ctx context.Context, agent, target string, limit int, mark bool) (ms, fresh []Message, more bool, err error) {
	err = r.look(ctx, func(c *conn) error {
		conf, err := r.config.load(c)
		if err == nil {
			ms, more, err = c.placedFor(conf, agent, target, limit)
		}
		return err
	})
	if err != nil || len(ms) == 0 || !mark {
		return ms, nil, more, err // who finds nothing never takes the write lock
	}
	err = r.write(ctx, func(t *tx) (err error) {
		t.quiet, fresh = true, nil
		conf, err := t.config()
		if err != nil {
			return err
		}
		if ms, more, err = t.placedFor(conf, agent, target, limit); err != nil {
			return err
		}
		for i := range ms {
			if ms[i].ReadAt != "" {
				continue
			}
			ms[i].ReadAt = t.now
			if err := t.markRead(&ms[i], t.now, tracing.Read, ""); err != nil {
				return err
			}
			fresh = append(fresh, ms[i])
		}
		if len(ms) == 0 {
			return nil
		}
		return t.heartbeat(agent)
	})
	return ms, fresh, more, err
}

// placedAgain is how often somebody who waits for what is placed looks: the end of a delivery that another process makes rings
// no bell.
const placedAgain = time.Second

// WaitPlaced is ReadPlaced for an agent that may wait. It delivers what is due to the agent on the way; when nothing is
// placed it waits until something is, or the timeout ends: no messages and no error is a wait that timed out. Asking with
// mark is a sign of the agent, whatever is found. Errors: busy; context.Cause(ctx) when ctx ended.
func (r *Router) WaitPlaced(ctx context.Context, agent, target string, limit int, mark bool, timeout time.Duration) (
	ms, fresh []Message, more bool, err error) {
	deadline := r.now().Add(timeout)
	var rings <-chan bool
	var heard time.Time
	var silent time.Duration
	for {
		due, _, err := r.anythingDue(ctx)
		if err == nil && due {
			_, err = r.DeliverAll(ctx, DeliverOptions{Recipient: agent})
		}
		if err == nil {
			ms, fresh, more, err = r.ReadPlaced(ctx, agent, target, limit, mark)
		}
		if err != nil || len(ms) > 0 {
			return ms, fresh, more, err
		}
		if now := r.now(); now.Sub(heard) >= silent/2 {
			heard, silent = now, r.heartbeat(ctx, agent, mark)
		}
		left := deadline.Sub(r.now())
		if left <= 0 {
			return nil, nil, false, nil
		}
		if rings == nil {
			var stop func()
			if rings, stop, err = r.bell.Listen(ctx, agent); err != nil {
				return nil, nil, false, err
			}
			defer stop()
			continue // something may have come before it listened
		}
		timer := time.NewTimer(min(left, placedAgain))
		select {
		case <-rings:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, nil, false, context.Cause(ctx)
		}
		timer.Stop()
	}
}

func (c *conn) placedFor(conf *config, agent, target string, limit int) ([]Message, bool, error) {
	key, err := json.Marshal(target) // as addMark writes it; within a note, its quotes are escaped
	if err != nil {
		return nil, false, err
	}
	return c.fetch(placedInOrder, limit, maxRead, agent, limit+1, string(key)+":", conf.former(agent), conf.since(agent))
}

const (
	placedThere = ` WHERE ` + placedUnacknowledged + ` AND recipient = ?1 AND instr(delivery_marks, ?3) > 0
		AND (+seq > ?4 OR ended_at > ?5)` // see got
	placedInOrder = `
		SELECT archived, seq FROM (
		    SELECT 0 AS archived, seq, priority, action FROM agent_message` + placedThere + `
		    UNION ALL
		    SELECT 1, seq, priority, action FROM agent_message_archive` + placedThere + `) AS m` + readingOrder + ` LIMIT +?2`
)
