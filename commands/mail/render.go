package mail

import (
	"bytes"
	"encoding/json"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
)

// Message is a message of any vocabulary: its content, independent of the form that its vocabulary gave it, and its
// columns.
type Message struct {
	MessageID   string          `json:"message_id"`
	Sender      string          `json:"sender"`
	Recipient   string          `json:"recipient"` // thread:ID for a post in a thread
	Group       string          `json:"multicast_target,omitempty"`
	MulticastID string          `json:"multicast_id,omitempty"`
	Type        string          `json:"message_type"`
	Text        string          `json:"text,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"` // beside the text, or the whole payload if that is not text
	Mentions    []string        `json:"mentions,omitempty"`
	Summary     string          `json:"summary,omitempty"`
	Context     string          `json:"context,omitempty"`
	Priority    int             `json:"priority,omitempty"`
	Action      string          `json:"message_action,omitempty"` // get_message has its own action
	ThreadID    string          `json:"thread_id,omitempty"`
	ThreadName  string          `json:"thread_name,omitempty"` // if the reader takes part in it
	SessionID   string          `json:"session_id,omitempty"`
	ReplyTo     string          `json:"reply_to,omitempty"`
	Origin      json.RawMessage `json:"origin,omitempty"` // what the message's file contained about its origin

	Status         string `json:"status"`
	Error          string `json:"error_message,omitempty"`
	RetryCount     int    `json:"retry_count,omitempty"`
	CreatedAt      string `json:"created_at"`
	DeliveredAt    string `json:"delivered_at,omitempty"`
	ReadAt         string `json:"read_at,omitempty"`
	AcknowledgedAt string `json:"acknowledged_at,omitempty"`
	NextAttemptAt  string `json:"next_attempt_at,omitempty"`
	ExpiresAt      string `json:"expires_at,omitempty"`
	ArchivedAt     string `json:"archived_at,omitempty"`
}

// render returns a message in this form. It leaves out a text that equals the data.
func render(m *orchestrator.Message) Message {
	content := commands.ContentOf(m)
	r := Message{
		MessageID: m.ID, Sender: m.Sender, Recipient: m.Recipient, Group: m.Group, MulticastID: m.MulticastID,
		Type: m.Type,
		Text: content.Text, Data: content.Data, Mentions: content.Mentions, Summary: m.Summary, Context: m.Context,
		Priority: m.Priority, Action: m.Action, ThreadID: m.ThreadID, SessionID: m.SessionID, ReplyTo: m.ReplyTo,
		Status: string(m.Status), Error: m.Error, RetryCount: m.RetryCount, CreatedAt: m.CreatedAt,
		DeliveredAt: m.DeliveredAt,
		ReadAt:      m.ReadAt, AcknowledgedAt: m.AcknowledgedAt, NextAttemptAt: m.NextAttemptAt, ExpiresAt: m.ExpiresAt,
		ArchivedAt: m.ArchivedAt,
	}
	if bytes.Equal([]byte(r.Text), r.Data) {
		r.Text = ""
	}
	if json.Valid([]byte(m.Origin)) {
		r.Origin = json.RawMessage(m.Origin)
	}
	return r
}

// write writes the message for people.
func (m *Message) write(w *terminal.Text) {
	w.Printf("%s  %s from %s to %s, %s\n", w.Paint(terminal.Bold, m.MessageID), m.Type, m.Sender, m.Recipient,
		w.When(m.CreatedAt))
	for _, text := range []string{m.Summary, m.Text, string(m.Data)} {
		if text != "" {
			w.Body("  ", text)
		}
	}
}
