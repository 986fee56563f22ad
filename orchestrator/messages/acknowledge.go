package messages

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Acknowledge records that the recipient has dealt with a message. The message then also counts as read. by is the
// agent that asks, or "" for the administrator. A second acknowledgement changes nothing. Errors: not_found, also if
// by has neither sent nor received the message; permission_denied if by sent it; conflict if it is not delivered yet.
func Acknowledge(ctx context.Context, l *ledger.Ledger, id, by string) (m orchestrator.Message, err error) {
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		conf := t.Config()
		ms, err := FindOwn(t.Conn, conf, id, by)
		if err != nil {
			return err
		}
		if len(ms) > 1 {
			return orchestrator.Errorf(orchestrator.InvalidParams, "%s is the ID of %d messages, but must identify one; acknowledge the message that you received", id,
				len(ms)).
				WithHint("To list the messages, run `mailroom trace %s`", id)
		}
		m = ms[0]
		switch {
		case by != "" && !conf.Got(&m, by):
			return orchestrator.Errorf(orchestrator.PermissionDenied,
				"%s was sent to %s; only the recipient can acknowledge it", m.ID, m.Recipient)
		case m.Status != orchestrator.Delivered:
			return orchestrator.Errorf(orchestrator.Conflict, "%s is %s; you can acknowledge only a delivered message",
				m.ID, m.Status)
		}
		return AcknowledgeIn(t, &m, "")
	})
	return m, err
}

// AcknowledgeIn records within a transaction that the recipient has dealt with a delivered message, unless that is
// already recorded. evidence describes how the fact is known; "" means that the recipient reported it.
func AcknowledgeIn(t *ledger.Tx, m *orchestrator.Message, evidence string) error {
	if m.AcknowledgedAt != "" {
		return nil
	}
	if m.ReadAt == "" {
		if err := t.Run(`DELETE FROM reading_lease WHERE message_id = ? AND recipient = ?`, m.ID,
			m.Recipient); err != nil {
			return err
		}
		m.ReadAt = t.Now
		if err := MarkRead(t, m, t.Now, tracing.Read, ""); err != nil {
			return err
		}
	}
	m.AcknowledgedAt = t.Now
	if err := t.Run(`UPDATE `+ledger.Table(m)+` SET acknowledged_at = ? WHERE message_id = ? AND +recipient = ?`, t.Now,
		m.ID, m.Recipient); err != nil {
		return err
	}
	if err := endAcknowledgement(t, m.ID); err != nil {
		return err
	}
	t.Heartbeat(m.Recipient)
	return t.NoteOf(m, tracing.Acknowledged, evidence)
}

// acknowledgeAnswered acknowledges the message that a draft answers, if the draft's sender received it and it is
// delivered. An answer to any other message acknowledges nothing.
func acknowledgeAnswered(t *ledger.Tx, d *orchestrator.Draft) error {
	ms, err := FindIn(t.Conn, d.ReplyTo)
	if err != nil {
		return err
	}
	for i := range ms {
		if ms[i].Recipient != d.Sender || ms[i].Status != orchestrator.Delivered {
			continue
		}
		if err := AcknowledgeIn(t, &ms[i], ""); err != nil {
			return err
		}
	}
	return nil
}

// expectAcknowledgement records that the sender of a message is to be notified if the message is not acknowledged
// within a time. The time starts when the message is due.
func expectAcknowledgement(t *ledger.Tx, id, due string, within time.Duration) error {
	return t.Run(`INSERT INTO acknowledgement_due (message_id, due_at, within_seconds) VALUES (?, ?, ?)`,
		id, orchestrator.Stamp(orchestrator.ParseStamp(due).Add(within)), int64(within/time.Second))
}

// endAcknowledgement deletes the record that an acknowledgement is expected.
func endAcknowledgement(t *ledger.Tx, id string) error {
	return t.Run(`DELETE FROM acknowledgement_due WHERE message_id = ?`, id)
}

// ClampAcknowledgements restarts, from now on, the times for acknowledgements that lie further ahead than possible.
func ClampAcknowledgements(t *ledger.Tx) error {
	return t.Run(`
		UPDATE acknowledgement_due
			SET due_at = coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', ?1, '+' || within_seconds || ' seconds'), ?1)
		WHERE due_at > ?2`, t.ClockText, orchestrator.Stamp(t.Clock.Add(orchestrator.MaxNotBefore+orchestrator.MaxTTL)))
}

// ReportUnacknowledged notifies the senders of messages that were not acknowledged within Draft.AckWithin, once for
// each message. more reports whether others are left for the next transaction.
func ReportUnacknowledged(t *ledger.Tx) (more bool, err error) {
	ids, err := t.Texts(`SELECT message_id FROM acknowledgement_due WHERE due_at <= ? AND message_id < x''
		ORDER BY due_at LIMIT +?`, t.ClockText, ledger.ReviewBatch)
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		within, err := t.Number(`SELECT within_seconds FROM acknowledgement_due WHERE message_id = ?`, id)
		if err != nil {
			return false, err
		}
		if err := endAcknowledgement(t, id); err != nil {
			return false, err
		}
		ms, err := FindIn(t.Conn, id)
		if err != nil {
			return false, err
		}
		if len(ms) == 1 {
			if err := reportOneUnacknowledged(t, &ms[0], time.Duration(within)*time.Second); err != nil {
				return false, err
			}
		}
	}
	return len(ids) == ledger.ReviewBatch, nil
}

// reportOneUnacknowledged sends the notification for one message. It sends none if the message failed, expired or was
// cancelled, because its sender has already been notified of that. It sends none if the recipient has answered the
// message, even without acknowledging it.
func reportOneUnacknowledged(t *ledger.Tx, m *orchestrator.Message, within time.Duration) error {
	if m.AcknowledgedAt != "" || m.Status == orchestrator.Failed || m.Status == orchestrator.Expired ||
		m.Status == orchestrator.Cancelled {
		return nil
	}
	answered, err := t.Number(`
		SELECT EXISTS (SELECT 1 FROM agent_message WHERE reply_to = ?1 AND sender = ?2)
		    OR EXISTS (SELECT 1 FROM agent_message_archive WHERE reply_to = ?1 AND +sender = ?2)`, m.ID, m.Recipient)
	if err != nil || answered != 0 {
		return err
	}
	text := fmt.Sprintf("%s did not acknowledge %s within %s; the message is %s", m.Recipient, m.ID,
		orchestrator.FormatDuration(within), standing(m))
	if err := t.NoteOf(m, tracing.Overdue, text); err != nil {
		return err
	}
	payload, err := json.Marshal(map[string]any{"message": text, "payload": map[string]any{
		"message_id": m.ID, "recipient": m.Recipient, "message_type": m.Type, "status": m.Status, "read_at": m.ReadAt,
		"within_seconds": int64(within / time.Second),
	}})
	if err != nil {
		return err
	}
	return t.TellSender(m, "acknowledgement_overdue", payload)
}

// standing returns the status of a message, or "read" if it has been read.
func standing(m *orchestrator.Message) string {
	if m.ReadAt != "" {
		return "read"
	}
	return string(m.Status)
}
