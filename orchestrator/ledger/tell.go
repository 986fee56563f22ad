package ledger

import (
	"encoding/json"

	"mailroom/orchestrator"
)

// Tell sends a message of orchestrator.SystemSender. It does nothing if nobody has the recipient's name.
func (t *Tx) Tell(d *orchestrator.Draft) error {
	d.Sender = orchestrator.SystemSender
	return t.TellAs(d)
}

// TellAs sends a message in the name of the draft's sender, without checking that the sender may: an agent whose session has
// ended can say nothing more itself.
func (t *Tx) TellAs(d *orchestrator.Draft) error {
	conf := t.Config()
	if conf.Agents[d.Recipient] == nil {
		return nil
	}
	id, err := t.NewID("msg-")
	if err != nil {
		return err
	}
	row := Insertion{Draft: d, Id: id, Recipient: d.Recipient, Status: orchestrator.Pending, MaxRetries: conf.Settings.MaxRetries}
	row.Expire(t, &conf.Settings)
	t.WakeAll()
	return t.Insert(&row)
}

// TellSender sends a message of orchestrator.SystemSender to the sender of m, unless that was removed: another agent that has
// its name now gets nothing.
func (t *Tx) TellSender(m *orchestrator.Message, kind string, payload json.RawMessage) error {
	if !t.Config().Sent(m, m.Sender) {
		return nil
	}
	return t.Tell(&orchestrator.Draft{Recipient: m.Sender, Type: kind, Payload: payload, ReplyTo: m.ID, ThreadID: m.ThreadID})
}
