package route

import (
	"context"
	"encoding/json"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
)

// PollParams names the agent whose backlog to list. Source: document 004, "Operation 1: Poll Messages for Agent".
type PollParams struct {
	Recipient string `json:"recipient" desc:"agent whose undelivered messages to list" check:"agent"`
	BatchSize int    `json:"batch_size,omitempty" desc:"maximum number of messages" check:"min=1,max=1000" default:"10"`
}

// PollResult is the answer defined by document 004.
type PollResult struct {
	Recipient string          `json:"recipient"`
	Pending   int             `json:"messages_pending"`
	Unread    int             `json:"messages_unread"` // delivered to the inbox but not read
	Messages  []PolledMessage `json:"messages"`
	Rest      string          `json:"rest,omitempty"` // for a model: how to get the rest
	Timestamp string          `json:"timestamp"`
}

// PolledMessage is one undelivered message.
type PolledMessage struct {
	MessageID     string          `json:"message_id"`
	Sender        string          `json:"sender"`
	Type          string          `json:"message_type"`
	Payload       json.RawMessage `json:"payload"`
	CreatedAt     string          `json:"created_at"`
	Status        string          `json:"status"`
	RetryCount    int             `json:"retry_count"`
	Priority      int             `json:"priority"`
	NextAttemptAt string          `json:"next_attempt_at,omitempty"`
	NotBefore     string          `json:"not_before,omitempty"`
	Error         string          `json:"error_message,omitempty"`
}

var pollCommand = commands.Define(vocabulary, "poll", poll).With(commands.Traits{Document: true})

// poll lists undelivered messages. It changes nothing.
func poll(ctx context.Context, env commands.Env, p PollParams) (PollResult, error) {
	backlog, err := delivery.Poll(ctx, env.Ledger, p.Recipient, p.BatchSize)
	if err != nil {
		return PollResult{}, err
	}
	answer := func(ms []orchestrator.Message) any {
		r := PollResult{Recipient: backlog.Recipient, Pending: backlog.Pending, Unread: backlog.Unread,
			Timestamp: timestamp(env)}
		for i := range ms {
			r.Messages = append(r.Messages, polled(&ms[i]))
		}
		return r
	}
	shown := env.Shown(backlog.Messages, answer)
	r := answer(shown).(PollResult)
	r.Rest = env.Rest(len(shown) < len(backlog.Messages), "to find them, call search_messages; to read one, call get_message")
	return r, nil
}

func polled(m *orchestrator.Message) PolledMessage {
	return PolledMessage{
		MessageID: m.ID, Sender: m.Sender, Type: m.Type, Payload: m.Payload, CreatedAt: m.CreatedAt,
		Status:     string(m.Status),
		RetryCount: m.RetryCount, Priority: m.Priority, NextAttemptAt: m.NextAttemptAt, NotBefore: m.NotBefore,
		Error: m.Error,
	}
}

// Text writes the backlog as a table.
func (r PollResult) Text(w *terminal.Text) {
	w.Printf("Messages pending for %s: %d. Delivered and unread: %d.\n", r.Recipient, r.Pending, r.Unread)
	if len(r.Messages) == 0 {
		return
	}
	terminal.TableOf(w, []string{"MESSAGE", "FROM", "TYPE", "STATUS", "SINCE", "NEXT ATTEMPT", "PAYLOAD…"}, r.Messages,
		func(m *PolledMessage) []string {
			return []string{m.MessageID, m.Sender, m.Type, m.Status, w.When(m.CreatedAt), w.When(m.NextAttemptAt),
				string(m.Payload)}
		})
}
