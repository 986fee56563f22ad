package orchestrator

import "encoding/json"

// tell sends a note of the router's own, if somebody has the name of its recipient.
func (t *tx) tell(d *Draft) error {
	d.Sender = SystemSender
	return t.tellAs(d)
}

// tellAs sends a note in the name of its Sender, of whom nothing is asked: an agent whose session has ended says nothing more.
func (t *tx) tellAs(d *Draft) error {
	conf, err := t.config()
	if err != nil || conf.agents[d.Recipient] == nil {
		return err
	}
	id, err := t.newID("msg-")
	if err != nil {
		return err
	}
	row := insertion{draft: d, id: id, recipient: d.Recipient, status: Pending, maxRetries: conf.settings.MaxRetries}
	row.expire(t, &conf.settings)
	t.ring.all = true
	return t.insert(&row)
}

// tellSender sends a note of the router's own to the sender of a message, if it is still there: another agent that has its name
// since gets none.
func (t *tx) tellSender(m *Message, kind string, payload json.RawMessage) error {
	conf, err := t.config()
	if err != nil || !conf.sent(m, m.Sender) {
		return err
	}
	return t.tell(&Draft{Recipient: m.Sender, Type: kind, Payload: payload, ReplyTo: m.ID, ThreadID: m.ThreadID})
}
