package messages

import (
	"encoding/json"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// NoteDeleted records in the trace that messages are about to be deleted, and from and to whom they were. from is what stands
// behind FROM in a SELECT of them: a table and a condition.
func NoteDeleted(t *ledger.Tx, from string) error {
	return tracing.RecordDeleted(t, from, t.Event(tracing.Deleted, ""))
}

// Deleted returns what the trace kept of a message that retention deleted, and when that was. If it was not deleted, m
// has only its ID, and at is "".
func Deleted(c *store.Conn, id string) (m orchestrator.Message, at string, err error) {
	m.ID = id
	err = c.Query(`SELECT at, old_status, error, detail FROM message_trace WHERE message_id = ? AND event = 'deleted' ORDER BY id DESC LIMIT 1`,
		func(row store.Row) error {
			at, m.Status, m.Error = row.Text(0), orchestrator.Status(row.Text(1)), row.Text(2)
			var kept struct {
				Sender    string `json:"sender"`
				Recipient string `json:"recipient"`
				Type      string `json:"message_type"`
			}
			_ = json.Unmarshal([]byte(row.Text(3)), &kept) // events of earlier versions say no more
			m.Sender, m.Recipient, m.Type = kept.Sender, kept.Recipient, kept.Type
			return nil
		}, id)
	return m, at, err
}
