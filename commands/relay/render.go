package relay

import (
	"cmp"
	"encoding/json"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
)

// Message is a message of any vocabulary in the form of this one. Source: dialects.md, "relay".
type Message struct {
	MessageID string          `json:"messageId"`
	Source    string          `json:"source"`
	Target    string          `json:"target"` // program, or the group that the sender named
	Type      string          `json:"message_type"`
	Message   string          `json:"message"`
	Priority  string          `json:"priority"`
	Action    string          `json:"action"`
	Context   string          `json:"context,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	ReplyTo   string          `json:"reply_to,omitempty"`
	ThreadID  string          `json:"threadId,omitempty"`
	Payload   json.RawMessage `json:"payload,omitempty"`
	SentAt    string          `json:"sentAt"`

	// Fields of other vocabularies.
	Summary     string   `json:"summary,omitempty"`
	Mentions    []string `json:"mentions,omitempty"`
	MulticastID string   `json:"multicastId,omitempty"`
	ExpiresAt   string   `json:"expiresAt,omitempty"`
}

// render returns a message in the form of this vocabulary.
func render(m *orchestrator.Message) Message {
	content := commands.ContentOf(m)
	r := Message{
		MessageID: m.ID, Source: m.Sender, Target: m.Recipient, Type: m.Type, Message: content.Text,
		Priority: orchestrator.PriorityWord(m.Priority), Action: cmp.Or(m.Action, "queue"), Context: m.Context,
		SessionID: m.SessionID,
		ReplyTo:   m.ReplyTo, ThreadID: m.ThreadID, Payload: content.Data, SentAt: m.CreatedAt,
		Summary: m.Summary, Mentions: content.Mentions, MulticastID: m.MulticastID, ExpiresAt: m.TTLEnd(),
	}
	if m.Group != "" && !strings.HasPrefix(m.Group, orchestrator.ThreadPrefix) { // threads are no targets here
		r.Target = m.Group
	}
	return r
}

// write writes the message for people.
func (m *Message) write(w *terminal.Text) {
	w.Printf("%s  %s from %s to %s, %s\n", w.Paint(terminal.Bold, m.MessageID), m.Type, m.Source, m.Target, m.SentAt)
	w.Body("  ", m.Message)
	if len(m.Payload) > 0 {
		w.Body("  ", string(m.Payload))
	}
}
