package messages

import (
	"context"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// MessageEvent is one event in the life of a message: a row of message_trace, with the message's sender, recipient and thread.
type MessageEvent struct {
	ID        int64  `json:"id"`
	MessageID string `json:"message_id"`
	At        string `json:"at"`
	Event     string `json:"event"`
	OldStatus string `json:"old_status,omitempty"`
	NewStatus string `json:"new_status,omitempty"`
	Attempt   int64  `json:"attempt,omitempty"`
	Error     string `json:"error,omitempty"`
	Sender    string `json:"sender,omitempty"` // "" once the message is deleted
	Recipient string `json:"recipient,omitempty"`
	ThreadID  string `json:"thread_id,omitempty"`
}

// Events returns what happened to messages after the event with the id after, oldest first, at most limit events. concerning
// restricts them to messages that this agent sent or got; "" does not. last is the id of the last event that was looked at,
// which is after for the next call.
func Events(ctx context.Context, l *ledger.Ledger, after int64, concerning string, limit int) (list []MessageEvent, last int64, err error) {
	err = l.Read(ctx, func(c *store.Conn) error {
		list, last = nil, after
		conf, err := l.Config.Load(c)
		if err != nil {
			return err
		}
		return c.Query(`
			SELECT t.id, t.message_id, t.at, t.event, t.old_status, t.new_status, t.attempt, t.error,
			       coalesce(m.sender, a.sender, ''), coalesce(m.recipient, a.recipient, ''), coalesce(m.thread_id, a.thread_id, ''),
			       coalesce(m.seq, a.seq, 0), coalesce(m.ended_at, a.ended_at, '')
			FROM message_trace t
			LEFT JOIN agent_message m ON m.message_id = t.message_id
			LEFT JOIN agent_message_archive a ON m.message_id IS NULL AND a.message_id = t.message_id
			WHERE t.id > ? ORDER BY t.id LIMIT +?`, func(row store.Row) error {
			e := MessageEvent{
				ID: row.Int(0), MessageID: row.Text(1), At: row.Text(2), Event: row.Text(3), OldStatus: row.Text(4),
				NewStatus: row.Text(5), Attempt: row.Int(6), Error: row.Text(7), Sender: row.Text(8),
				Recipient: row.Text(9), ThreadID: row.Text(10),
			}
			last = e.ID
			m := orchestrator.Message{Sender: e.Sender, Recipient: e.Recipient, Seq: row.Int(11), EndedAt: row.Text(12)}
			if concerning == "" || conf.Owns(&m, concerning) {
				list = append(list, e)
			}
			return nil
		}, after, limit)
	})
	return list, last, err
}

// LastEvent returns the id of the newest event, 0 if there is none.
func LastEvent(ctx context.Context, l *ledger.Ledger) (id int64, err error) {
	err = l.Read(ctx, func(c *store.Conn) error {
		id, err = c.Number(`SELECT coalesce(max(id), 0) FROM message_trace`)
		return err
	})
	return id, err
}
