package orchestrator

import (
	"context"
	"encoding/json"

	"mailroom/tracing"
)

// placedUnacknowledged is the condition for what a transport outside the database has delivered and nobody has
// acknowledged. It must stand to the letter: see rows.go.
const placedUnacknowledged = "status = 'delivered' AND acknowledged_at = '' AND delivery_marks <> ''"

// ReadPlaced returns what was delivered to an agent through a target (SCHEME:ADDRESS) that leaves marks, and is not
// acknowledged, in the order of reading: at most limit messages, and 4 MiB of payload; more says that there are others. It
// returns them again until they are acknowledged. With mark, those that were not read before are marked as read in the
// same transaction, and fresh lists them for Unread. Errors: those of the database.
func (r *Router) ReadPlaced(ctx context.Context, agent, target string, limit int, mark bool) (ms, fresh []Message, more bool, err error) {
	if !mark {
		err = r.read(func(c *conn) error {
			ms, more, err = c.placedFor(agent, target, limit)
			return err
		})
		return ms, nil, more, err
	}
	err = r.write(ctx, func(t *tx) (err error) {
		t.quiet, fresh = true, nil
		if ms, more, err = t.placedFor(agent, target, limit); err != nil {
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
		return t.heard(agent)
	})
	return ms, fresh, more, err
}

func (c *conn) placedFor(agent, target string, limit int) ([]Message, bool, error) {
	key, err := json.Marshal(target) // as addMark writes it; within a note, its quotes are escaped
	if err != nil {
		return nil, false, err
	}
	return c.fetch(placedInOrder, limit, maxRead, agent, limit+1, string(key)+":")
}

const (
	placedThere   = ` WHERE ` + placedUnacknowledged + ` AND recipient = ?1 AND instr(delivery_marks, ?3) > 0`
	placedInOrder = `
		SELECT archived, seq FROM (
		    SELECT 0 AS archived, seq, priority, action FROM agent_message` + placedThere + `
		    UNION ALL
		    SELECT 1, seq, priority, action FROM agent_message_archive` + placedThere + `)` + readingOrder + ` LIMIT +?2`
)
