package orchestrator

import (
	"context"
	"slices"

	"mailroom/tracing"
)

// Release hands back a message that its recipient took and has not acknowledged: it is unread again, in its order, and
// whoever waits for it gets it. by is the agent that asks; "" is the administrator. One that is unread already is left so,
// and released is false. Errors: not_found, also when it is somebody else's; conflict when it was acknowledged, not
// delivered, or stands in no inbox.
func (r *Router) Release(ctx context.Context, id, by string) (m Message, released bool, err error) {
	err = r.write(ctx, func(t *tx) error {
		released = false
		conf, err := t.config()
		if err != nil {
			return err
		}
		ms, err := t.mustFind(id)
		if err != nil {
			return err
		}
		if by != "" {
			ms = slices.DeleteFunc(ms, func(m Message) bool { return !conf.got(&m, by) })
		}
		switch {
		case len(ms) == 0:
			return noMessage(id)
		case len(ms) > 1:
			return Errorf(InvalidParams, "%s names %d messages; release one of them", id, len(ms)).
				WithHint("`mailroom trace %s` lists them", id)
		}
		m = ms[0]
		if released, err = t.handBack(&m, by); err != nil {
			return err
		}
		return t.heartbeat(by)
	})
	return m, released, err
}

// handBack hands back one message, if it is out.
func (t *tx) handBack(m *Message, by string) (released bool, err error) {
	switch {
	case m.Status != Delivered:
		return false, Errorf(Conflict, "%s is %s; only a message that was read can be handed back", m.ID, m.Status)
	case m.AcknowledgedAt != "":
		return false, Errorf(Conflict, "%s was acknowledged at %s; only a message that was not can be handed back", m.ID, m.AcknowledgedAt)
	}
	why := "handed back by its reader; unread again"
	if by == "" {
		why = "handed back by an administrator; unread again"
	}
	lease, err := t.leaseOf(m)
	if err != nil {
		return false, err
	}
	if lease != nil {
		return true, t.endReadingLease(lease, why)
	}
	place, stands, err := t.text(`SELECT CASE read_at WHEN '' THEN 'unread' ELSE 'read' END FROM agent_inbox WHERE message_id = ? AND recipient = ?`, m.ID, m.Recipient)
	switch {
	case err != nil:
		return false, err
	case m.ReadAt == "" && place != "read": // one whose lease, or whose reading, somebody changed by hand comes back
		return false, nil
	case !stands:
		return false, Errorf(Conflict, "%s does not stand in the inbox of %s (any more), so that it cannot be handed back", m.ID, m.Recipient).
			WithHint("Read messages leave the inbox when they are archived; `mailroom trace %s` still shows it", m.ID)
	}
	t.ring.add([]string{m.Recipient})
	m.ReadAt = ""
	return true, t.markRead(m, "", tracing.Released, why)
}

// releaseBatch is how many messages one transaction of ReleaseAll hands back.
const releaseBatch = 100

// ReleaseAll hands back everything that an agent took and has not acknowledged, as Release does, and returns the ids. by
// is who asks: the agent, or "" for the administrator. What is read while it runs stays read. Error: unknown_recipient.
func (r *Router) ReleaseAll(ctx context.Context, agent, by string) (released []string, err error) {
	var ids []string
	err = r.read(ctx, func(c *Conn) error {
		conf, err := r.config.load(c)
		if err != nil {
			return err
		}
		if conf.agents[agent] == nil {
			return c.unknownAgent(UnknownRecipient, "", agent, conf)
		}
		ids, err = c.texts(`
			SELECT m.message_id FROM agent_message m JOIN agent_inbox i ON i.message_id = m.message_id AND i.recipient = m.recipient
			WHERE m.recipient = ?1 AND m.status = 'delivered' AND m.acknowledged_at = '' AND i.read_at <> ''
			UNION SELECT message_id FROM reading_lease WHERE recipient = ?1`, agent)
		return err
	})
	for len(ids) > 0 && err == nil {
		n := min(len(ids), releaseBatch)
		var some []string
		err = r.write(ctx, func(t *tx) (err error) {
			some, err = t.releaseSome(ids[:n], agent, by)
			return err
		})
		released, ids = append(released, some...), ids[n:]
		if err == nil && len(ids) > 0 {
			pause(ctx, clearPause)
			err = ctx.Err()
		}
	}
	return released, err
}

// releaseSome hands back those of an agent's messages that can be handed back, and returns their ids.
func (t *tx) releaseSome(ids []string, agent, by string) (released []string, err error) {
	for _, id := range ids {
		ms, err := t.findMessages(id)
		if err != nil {
			return nil, err
		}
		for i := range ms {
			if ms[i].ID != id || ms[i].Recipient != agent {
				continue
			}
			gone, err := t.handBack(&ms[i], by)
			switch {
			case CodeOf(err) == Conflict: // acknowledged, or cleared away, meanwhile
			case err != nil:
				return nil, err
			case gone:
				released = append(released, id)
			}
		}
	}
	return released, t.heartbeat(by)
}
