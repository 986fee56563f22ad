package ralph

import (
	"bytes"
	"encoding/json"

	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/letter"
)

// Message is a message in the form of the document, and how it was addressed. Source: document 002, "Message
// Structure".
type Message struct {
	ID        string          `json:"id"`
	From      string          `json:"from"`
	To        string          `json:"to"`
	Type      string          `json:"type"`
	Priority  string          `json:"priority"`
	Payload   json.RawMessage `json:"payload"` // unchanged, in whatever vocabulary the message was sent
	Timestamp string          `json:"timestamp"`
	Status    string          `json:"status"` // pending, as in the file: not yet processed
	ReplyTo   *string         `json:"replyTo"`

	SessionID       string `json:"session_id,omitempty"`
	MulticastID     string `json:"multicast_id,omitempty"`
	MulticastTarget string `json:"multicast_target,omitempty"` // group or team that the sender addressed
}

// Received is a message with keys that the document does not define: those of other vocabularies, and those found
// only in the message's file.
type Received struct {
	Message
	Summary   string `json:"summary,omitempty"`
	Context   string `json:"context,omitempty"`
	Action    string `json:"action,omitempty"`
	ThreadID  string `json:"thread_id,omitempty"`
	ExpiresAt string `json:"expires_at,omitempty"` // if the sender set a time to live

	more []letter.Member
}

// MarshalJSON writes unknown keys of the message's file after all others.
func (r Received) MarshalJSON() ([]byte, error) {
	type known Received
	body, err := orchestrator.JSON(known(r))
	if err != nil {
		return nil, err
	}
	for _, m := range r.more {
		body = append(append(append(bytes.TrimSuffix(body, []byte("}")), ','), orchestrator.JSONString(m.Key)...), ':')
		body = append(append(body, m.Value...), '}')
	}
	return body, nil
}

// render returns a message of any vocabulary in the form of the document.
func render(m *orchestrator.Message) Received {
	l := letter.Of(m)
	r := Received{
		Message: Message{
			ID: l.ID, From: l.From, To: l.To, Type: l.Type, Priority: l.Priority, Payload: l.Payload,
			Timestamp: l.Timestamp,
			Status:    l.Status, SessionID: l.SessionID, MulticastID: l.MulticastID, MulticastTarget: l.MulticastTarget,
		},
		Summary: l.Summary, Context: l.Context, Action: l.Action, ThreadID: l.ThreadID, ExpiresAt: l.ExpiresAt,
		more: l.More,
	}
	if l.ReplyTo != "" {
		r.ReplyTo = &l.ReplyTo
	}
	return r
}

// text writes a message for people.
func (m *Message) text(w *terminal.Text) {
	w.Printf("%s  %s from %s to %s, %s\n", w.Paint(terminal.Bold, m.ID), m.Type, m.From, m.To, m.Timestamp)
	w.Body("  ", string(m.Payload))
}
