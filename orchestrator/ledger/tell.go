package ledger

import (
	"encoding/json"

	"mailroom/orchestrator"
)

// Tell sends a note of the engine's own, if somebody has the name of its recipient.
func (t *Tx) Tell(d *orchestrator.Draft) error {
	d.Sender = orchestrator.SystemSender
	return t.TellAs(d)
}

// TellAs sends a note in the name of its Sender, of whom nothing is asked: an agent whose session has ended says nothing more.
func (t *Tx) TellAs(d *orchestrator.Draft) error {
	conf, err := t.Config()
	if err != nil || conf.Agents[d.Recipient] == nil {
		return err
	}
	id, err := t.NewID("msg-")
	if err != nil {
		return err
	}
	row := Insertion{Draft: d, Id: id, Recipient: d.Recipient, Status: orchestrator.Pending, MaxRetries: conf.Settings.MaxRetries}
	row.Expire(t, &conf.Settings)
	t.Ring.All = true
	return t.Insert(&row)
}

// TellSender sends a note of the engine's own to the sender of a message, if it is still there: another agent that has its name
// since gets none.
func (t *Tx) TellSender(m *orchestrator.Message, kind string, payload json.RawMessage) error {
	conf, err := t.Config()
	if err != nil || !conf.Sent(m, m.Sender) {
		return err
	}
	return t.Tell(&orchestrator.Draft{Recipient: m.Sender, Type: kind, Payload: payload, ReplyTo: m.ID, ThreadID: m.ThreadID})
}
