package team

import (
	"cmp"
	"encoding/json"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
)

// Message is a message of any vocabulary in the form for teammates. The keys after type hold what this form has no
// other place for.
type Message struct {
	ID        string          `json:"id"`
	From      string          `json:"from"`
	Message   json.RawMessage `json:"message"` // a text, or a protocol object
	Summary   string          `json:"summary"`
	Timestamp string          `json:"timestamp"`
	Type      string          `json:"type"`

	Payload     json.RawMessage `json:"payload,omitempty"` // structured data beside the text, or instead of it
	Mentions    []string        `json:"mentions,omitempty"`
	Priority    string          `json:"priority,omitempty"`
	Action      string          `json:"action,omitempty"`
	Context     string          `json:"context,omitempty"`
	ReplyTo     string          `json:"reply_to,omitempty"`
	ThreadID    string          `json:"thread_id,omitempty"`
	Session     string          `json:"session,omitempty"`
	MulticastID string          `json:"multicast_id,omitempty"`
	Group       string          `json:"multicast_target,omitempty"` // what the sender addressed: * or a group
	ExpiresAt   string          `json:"expires_at,omitempty"`       // if the sender set a time to live
}

// rendered returns a message of any vocabulary in the team's form.
func rendered(m *orchestrator.Message) Message {
	c := commands.ContentOf(m)
	r := Message{
		ID: m.ID, From: m.Sender, Summary: cmp.Or(m.Summary, commands.Preview(c.Text)),
		Timestamp: cmp.Or(m.CreatedAt, m.DeliveredAt), Type: m.Type, Mentions: c.Mentions,
		Action: m.Action, Context: m.Context, ReplyTo: m.ReplyTo, ThreadID: m.ThreadID, Session: m.SessionID,
		MulticastID: m.MulticastID, Group: m.Group, ExpiresAt: m.TTLEnd(),
	}
	if m.Priority != 0 {
		r.Priority = orchestrator.PriorityWord(m.Priority)
	}
	if c.Protocol != "" || typeOf(m.Payload) == orchestrator.IdleNotification {
		r.Message = m.Payload
	} else {
		r.Message, _ = orchestrator.JSON(c.Text) // a string always marshals
		r.Payload = c.Data
	}
	return r
}

// text writes one message.
func (m *Message) text(w *terminal.Text) {
	said := string(m.Message)
	_ = json.Unmarshal(m.Message, &said) // an object is shown as JSON
	w.Printf("%s  %s from %s, %s\n", w.Paint(terminal.Bold, m.ID), m.Type, m.From, m.Timestamp)
	w.Body("  ", said)
	if m.Payload != nil && string(m.Payload) != said {
		w.Body("  ", string(m.Payload))
	}
}
