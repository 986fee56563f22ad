package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom/tracing"
)

// Acknowledge notes that the recipient has dealt with a message; it counts as read too. by is the agent that asks; "" is
// the administrator. Repeating it changes nothing. Errors: not_found, also for what by neither sent nor received;
// permission_denied when by sent it; conflict when it is not delivered.
func (r *Router) Acknowledge(ctx context.Context, id, by string) (m Message, err error) {
	err = r.write(ctx, func(t *tx) error {
		conf, err := t.config()
		if err != nil {
			return err
		}
		ms, err := t.mustFindOwn(conf, id, by)
		if err != nil {
			return err
		}
		if len(ms) > 1 {
			return Errorf(InvalidParams, "%s names %d messages; acknowledge your own", id, len(ms)).
				WithHint("`mailroom trace %s` lists them", id)
		}
		m = ms[0]
		switch {
		case by != "" && !conf.got(&m, by):
			return Errorf(PermissionDenied, "%s was sent to %s; only its recipient can acknowledge it", m.ID, m.Recipient)
		case m.Status != Delivered:
			return Errorf(Conflict, "%s is %s; only a delivered message can be acknowledged", m.ID, m.Status)
		}
		return t.acknowledge(&m)
	})
	return m, err
}

// acknowledge notes that the recipient has dealt with a message that was delivered, unless that is noted already.
func (t *tx) acknowledge(m *Message) error { return t.acknowledgeBecause(m, "") }

// acknowledgeBecause is acknowledge with what shows it, when that is not the recipient's own word.
func (t *tx) acknowledgeBecause(m *Message, evidence string) error {
	if m.AcknowledgedAt != "" {
		return nil
	}
	if m.ReadAt == "" {
		if _, err := t.Exec(`DELETE FROM reading_lease WHERE message_id = ? AND recipient = ?`, m.ID, m.Recipient); err != nil {
			return err
		}
		m.ReadAt = t.now
		if err := t.markRead(m, t.now, tracing.Read, ""); err != nil {
			return err
		}
	}
	m.AcknowledgedAt = t.now
	if _, err := t.Exec(`UPDATE `+m.table()+` SET acknowledged_at = ? WHERE message_id = ? AND recipient = ?`, t.now, m.ID, m.Recipient); err != nil {
		return err
	}
	if err := t.endAcknowledgement(m.ID); err != nil {
		return err
	}
	if err := t.heartbeat(m.Recipient); err != nil {
		return err
	}
	e := t.event(tracing.Acknowledged, evidence)
	e.MessageID, e.OldStatus, e.NewStatus = m.ID, string(m.Status), string(m.Status)
	return tracing.Record(t, e)
}

// acknowledgeAnswered acknowledges what a draft answers, if its sender got that. An answer to anything else is a message
// like any other.
func (t *tx) acknowledgeAnswered(d *Draft) error {
	ms, err := t.findMessages(d.ReplyTo)
	if err != nil {
		return err
	}
	for i := range ms {
		if ms[i].Recipient != d.Sender || ms[i].Status != Delivered {
			continue
		}
		if err := t.acknowledge(&ms[i]); err != nil {
			return err
		}
	}
	return nil
}

// expectAcknowledgement has the sender of a message told if it is not acknowledged within a time, which begins when the message
// is due.
func (t *tx) expectAcknowledgement(id, due string, within time.Duration) error {
	_, err := t.Exec(`INSERT INTO acknowledgement_due (message_id, due_at, within_seconds) VALUES (?, ?, ?)`,
		id, stamp(parseStamp(due).Add(within)), int64(within/time.Second))
	return err
}

// endAcknowledgement forgets that an acknowledgement is expected.
func (t *tx) endAcknowledgement(id string) error {
	_, err := t.Exec(`DELETE FROM acknowledgement_due WHERE message_id = ?`, id)
	return err
}

// reportUnacknowledged tells the senders of messages that were not acknowledged in time, each once.
func (t *tx) reportUnacknowledged() (more bool, err error) {
	ids, err := t.texts(`SELECT message_id FROM acknowledgement_due WHERE due_at <= ? AND message_id < x'' ORDER BY due_at LIMIT +?`, t.clockText, reviewBatch)
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		within, err := t.number(`SELECT within_seconds FROM acknowledgement_due WHERE message_id = ?`, id)
		if err != nil {
			return false, err
		}
		if err := t.endAcknowledgement(id); err != nil {
			return false, err
		}
		ms, err := t.findMessages(id)
		if err != nil {
			return false, err
		}
		if len(ms) == 1 {
			if err := t.reportOneUnacknowledged(&ms[0], time.Duration(within)*time.Second); err != nil {
				return false, err
			}
		}
	}
	return len(ids) == reviewBatch, nil
}

// reportOneUnacknowledged sends the note. A message that failed, expired or was cancelled has been told of already, and
// whoever answered one has dealt with it, though no receipt says that it acknowledged it.
func (t *tx) reportOneUnacknowledged(m *Message, within time.Duration) error {
	if m.AcknowledgedAt != "" || m.Status == Failed || m.Status == Lapsed || m.Status == Cancelled {
		return nil
	}
	answered, err := t.number(`
		SELECT EXISTS (SELECT 1 FROM agent_message WHERE reply_to = ?1 AND sender = ?2)
		    OR EXISTS (SELECT 1 FROM agent_message_archive WHERE reply_to = ?1 AND sender = ?2)`, m.ID, m.Recipient)
	if err != nil || answered != 0 {
		return err
	}
	text := fmt.Sprintf("%s has not acknowledged %s within %s; it is %s", m.Recipient, m.ID, FormatDuration(within), m.standing())
	e := t.event(tracing.Overdue, text)
	e.MessageID, e.OldStatus, e.NewStatus = m.ID, string(m.Status), string(m.Status)
	if err := tracing.Record(t, e); err != nil {
		return err
	}
	payload, err := json.Marshal(map[string]any{"message": text, "payload": map[string]any{
		"message_id": m.ID, "recipient": m.Recipient, "message_type": m.Type, "status": m.Status, "read_at": m.ReadAt,
		"within_seconds": int64(within / time.Second),
	}})
	if err != nil {
		return err
	}
	return t.tellSender(m, "acknowledgement_overdue", payload)
}

// standing says in a word how far a message has come.
func (m *Message) standing() string {
	if m.ReadAt != "" {
		return "read"
	}
	return string(m.Status)
}
