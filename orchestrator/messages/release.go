package messages

import (
	"context"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Release makes a message unread that its recipient has taken and not acknowledged. The message keeps its place in
// the order, and waiting readers get it. by is the agent that asks, or "" for the administrator. released is false if
// the message was already unread. Errors: not_found, also if the message is not addressed to by; conflict if it was
// acknowledged, is not delivered, or is in no inbox.
func Release(ctx context.Context, l *ledger.Ledger, id, by string) (m orchestrator.Message, released bool, err error) {
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		released = false
		conf := t.Config()
		ms, err := FindOwn(t.Conn, conf, id, "")
		if err != nil {
			return err
		}
		if by != "" {
			ms = slices.DeleteFunc(ms, func(m orchestrator.Message) bool { return !conf.Got(&m, by) })
		}
		switch {
		case len(ms) == 0:
			return NoMessage(id)
		case len(ms) > 1:
			return orchestrator.Errorf(orchestrator.InvalidParams, "%s is the ID of %d messages, but must identify one", id,
				len(ms)).
				WithHint("To list the messages, run `mailroom trace %s`", id)
		}
		m = ms[0]
		if released, err = handBack(t, &m, by); err != nil {
			return err
		}
		t.Heartbeat(by)
		return nil
	})
	return m, released, err
}

// handedBack is the beginning of the trace text for a message that was handed back.
const handedBack = "handed back by "

// HandedBack reports whether a message was handed back and has not been read since. A transcript that contains such a
// message may reflect only an earlier showing.
func HandedBack(c *store.Conn, id string) (bool, error) {
	last, err := c.Texts(`SELECT event FROM message_trace WHERE message_id = ?
		AND (event = 'read' OR event = 'released' AND error LIKE '`+handedBack+`%')
		ORDER BY id DESC LIMIT 1`, id)
	return len(last) > 0 && last[0] == string(tracing.Released), err
}

// handBack makes one message unread, unless it is unread already.
func handBack(t *ledger.Tx, m *orchestrator.Message, by string) (released bool, err error) {
	switch {
	case m.Status != orchestrator.Delivered:
		return false, orchestrator.Errorf(orchestrator.Conflict,
			"%s is %s; you can release only a message that was read", m.ID, m.Status)
	case m.IsOwnCopy():
		return false, orchestrator.Errorf(orchestrator.Conflict, "%s is the copy that the sender %s keeps, so it cannot be released", m.ID,
			m.Sender)
	case m.AcknowledgedAt != "":
		return false, orchestrator.Errorf(orchestrator.Conflict,
			"%s was acknowledged at %s; you can release only a message that was not acknowledged", m.ID, m.AcknowledgedAt)
	}
	why := handedBack + "its reader; unread again"
	if by == "" {
		why = handedBack + "an administrator; unread again"
	}
	lease, err := LeaseOf(t.Conn, m)
	if err != nil {
		return false, err
	}
	if lease != nil {
		return true, giveBack(t, lease, why)
	}
	place, stands, err := t.Text(`SELECT CASE read_at WHEN '' THEN 'unread' ELSE 'read' END FROM agent_inbox
		WHERE message_id = ? AND recipient = ?`, m.ID, m.Recipient)
	switch {
	case err != nil:
		return false, err
	case m.ReadAt == "" && place != "read": // one whose lease or read time somebody changed by hand becomes unread, too
		return false, nil
	case !stands:
		return false, orchestrator.Errorf(orchestrator.Conflict,
			"%s is not in the inbox of %s, so it cannot be released", m.ID, m.Recipient).
			WithHint("Archiving removes read messages from the inbox. To see the message, run `mailroom trace %s`", m.ID)
	}
	t.Wake(m.Recipient)
	m.ReadAt = ""
	return true, MarkRead(t, m, "", tracing.Released, why)
}

// releaseBatch is the number of messages that one transaction of ReleaseAll releases.
const releaseBatch = 100

// ReleaseAll releases all messages that an agent has taken and not acknowledged, see Release, and returns their ids.
// by is the caller: the agent, or "" for the administrator. Messages that are read while ReleaseAll runs may stay
// read. Error: unknown_recipient.
func ReleaseAll(ctx context.Context, l *ledger.Ledger, agent, by string) (released []string, err error) {
	var ids []string
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		if conf.Agents[agent] == nil {
			return agents.Unknown(c, orchestrator.UnknownRecipient, "", agent, conf)
		}
		// A message under a lease may have been archived meanwhile.
		ids, err = c.Texts(`
			SELECT m.message_id FROM agent_message m JOIN agent_inbox i ON i.message_id = m.message_id
				AND i.recipient = m.recipient
			WHERE m.recipient = ?1 AND m.status = 'delivered' AND m.acknowledged_at = '' AND i.read_at <> ''
			UNION ALL SELECT message_id FROM reading_lease l WHERE recipient = ?1
			  AND NOT EXISTS (SELECT 1 FROM agent_message m WHERE m.message_id = l.message_id)`, agent)
		return err
	})
	for len(ids) > 0 && err == nil {
		n := min(len(ids), releaseBatch)
		var some []string
		err = l.Write(ctx, store.Of(agent), func(t *ledger.Tx) (err error) {
			some, err = releaseSome(t, ids[:n], agent, by)
			return err
		})
		released, ids = append(released, some...), ids[n:]
		if err == nil && len(ids) > 0 {
			orchestrator.Pause(ctx, orchestrator.ClearPause)
			err = ctx.Err()
		}
	}
	return released, err
}

// releaseSome releases those of an agent's messages that can be released, and returns their ids.
func releaseSome(t *ledger.Tx, ids []string, agent, by string) (released []string, err error) {
	for _, id := range ids {
		ms, err := FindIn(t.Conn, id)
		if err != nil {
			return nil, err
		}
		for i := range ms {
			if ms[i].ID != id || ms[i].Recipient != agent {
				continue
			}
			gone, err := handBack(t, &ms[i], by)
			switch {
			case orchestrator.CodeOf(err) == orchestrator.Conflict: // acknowledged, or cleared away, meanwhile
			case err != nil:
				return nil, err
			case gone:
				released = append(released, id)
			}
		}
	}
	t.Heartbeat(by)
	return released, nil
}
