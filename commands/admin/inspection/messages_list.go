package inspection

import (
	"context"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/threads"
)

// MessagesListParams selects messages.
type MessagesListParams struct {
	Text        string   `json:"text,omitempty" desc:"part of the text of the message or of its last error" check:"min=1,max=1024" arg:"1" flag:"grep"`
	Agent       string   `json:"agent,omitempty" desc:"only messages to or from this agent" check:"agent"`
	Sender      string   `json:"sender,omitempty" desc:"only messages from this agent" check:"agent" also:"from"`
	Recipient   string   `json:"recipient,omitempty" desc:"only messages to this agent or group" check:"agent" also:"to"`
	Pair        []string `json:"pair,omitempty" desc:"only messages between these two agents" check:"min=2,max=2"`
	Type        string   `json:"message_type,omitempty" desc:"only messages of this type" check:"min=1" also:"type"`
	Status      string   `json:"status,omitempty" desc:"only messages with this status; live means pending or retry, dead means failed or expired" check:"oneof=pending|retry|delivered|failed|expired|cancelled|live|dead"`
	ThreadID    string   `json:"thread_id,omitempty" desc:"only messages in this thread" check:"min=1,max=256" also:"thread"`
	Since       string   `json:"since,omitempty" desc:"only messages sent since this time: RFC 3339, or an age such as 1h" check:"max=64"`
	Until       string   `json:"until,omitempty" desc:"only messages sent until this time: RFC 3339, or an age such as 1h" check:"max=64"`
	Archived    bool     `json:"archived,omitempty" desc:"include archived messages"`
	Before      int64    `json:"before,omitempty" desc:"only messages sent before the message with this seq" check:"min=1"`
	After       int64    `json:"after,omitempty" desc:"only messages sent after the message with this seq" check:"min=1"`
	OldestFirst bool     `json:"oldest_first,omitempty" desc:"list the oldest messages first"`
	Limit       int      `json:"limit,omitempty" desc:"maximum number of messages" check:"min=1,max=500" default:"50"`
	IDs         []string `json:"message_ids,omitempty" desc:"list the messages with these IDs, and ignore the other parameters" check:"max=500"`
}

// MessagesListResult lists messages, newest first unless oldest_first is given.
type MessagesListResult struct {
	Count    int      `json:"count"`
	Messages []Listed `json:"messages"`
	Complete bool     `json:"complete"`         // no messages are left
	Next     int64    `json:"next,omitempty"`   // to continue: the value of before or, with oldest_first, of after
	Until    string   `json:"as_far,omitempty"` // when the last message that was searched was sent

	oldestFirst bool
}

// Listed is one message of the list.
type Listed struct {
	Seq           int64               `json:"seq"`
	MessageID     string              `json:"message_id"`
	Sender        string              `json:"sender"`
	Recipient     string              `json:"recipient"`
	Group         string              `json:"multicast_target,omitempty"`
	Type          string              `json:"message_type"`
	ThreadID      string              `json:"thread_id,omitempty"`
	ThreadName    string              `json:"thread_name,omitempty"`
	Status        orchestrator.Status `json:"status"`
	CreatedAt     string              `json:"created_at"`
	DeliveredAt   string              `json:"delivered_at,omitempty"`
	EndedAt       string              `json:"ended_at,omitempty"`
	NextAttemptAt string              `json:"next_attempt_at,omitempty"`
	RetryCount    int                 `json:"retry_count"`
	MaxRetries    int                 `json:"max_retries"`
	Error         string              `json:"error_message,omitempty"`
	Held          bool                `json:"held,omitempty"`
	LeaseUntil    string              `json:"lease_until,omitempty"` // the message is being delivered
	ReadAt        string              `json:"read_at,omitempty"`
	Archived      bool                `json:"archived,omitempty"`
	// the summary, the beginning of the text, or the part around the text that was searched for
	Says string `json:"says"`
}

var messagesListCommand = commands.Define(vocabulary, "messages list", messagesList)

// messagesList lists messages. It changes nothing.
func messagesList(ctx context.Context, env commands.Env, p MessagesListParams) (MessagesListResult, error) {
	if len(p.IDs) > 0 {
		ms, err := messages.Named(ctx, env.Ledger, p.IDs)
		if err != nil {
			return MessagesListResult{}, err
		}
		r := MessagesListResult{Count: len(ms), Complete: true}
		r.Messages, err = p.rows(ctx, env, ms)
		return r, err
	}
	f, err := p.filter()
	if err != nil {
		return MessagesListResult{}, err
	}
	listed, err := messages.List(ctx, env.Ledger, f)
	if err != nil {
		return MessagesListResult{}, err
	}
	r := MessagesListResult{Count: len(listed.Messages), Complete: listed.Complete, oldestFirst: p.OldestFirst}
	if !r.Complete {
		r.Next, r.Until = listed.Next, listed.At
	}
	r.Messages, err = p.rows(ctx, env, listed.Messages)
	return r, err
}

// filter returns the filter that the parameters describe.
func (p *MessagesListParams) filter() (f messages.ListFilter, err error) {
	f = messages.ListFilter{
		Agent: p.Agent, Sender: p.Sender, Recipient: p.Recipient, Type: p.Type, ThreadID: p.ThreadID, Since: p.Since,
		Until:    p.Until,
		Archived: p.Archived, Before: p.Before, After: p.After, OldestFirst: p.OldestFirst, Limit: p.Limit,
	}
	for i, name := range p.Pair {
		if f.Pair[i], err = orchestrator.CheckName("agent", name); err != nil {
			return f, orchestrator.InvalidParam("pair", "%s", err)
		}
	}
	switch p.Status {
	case "":
	case "live":
		f.Statuses = []orchestrator.Status{orchestrator.Pending, orchestrator.Retry}
	case "dead":
		f.Statuses = []orchestrator.Status{orchestrator.Failed, orchestrator.Expired}
	default:
		f.Statuses = []orchestrator.Status{orchestrator.Status(p.Status)}
	}
	if p.Text != "" {
		wanted := strings.ToLower(p.Text)
		f.Says = func(m *orchestrator.Message) bool {
			_, says := commands.Excerpt(m, p.Text)
			return says || strings.Contains(strings.ToLower(m.Error), wanted)
		}
	}
	return f, nil
}

// rows returns messages in the form of the list.
func (p *MessagesListParams) rows(ctx context.Context, env commands.Env, ms []orchestrator.Message) ([]Listed, error) {
	var ids []string
	for i := range ms {
		if ms[i].ThreadID != "" {
			ids = append(ids, ms[i].ThreadID)
		}
	}
	slices.Sort(ids)
	named, err := threads.List(ctx, env.Ledger, slices.Compact(ids))
	if err != nil {
		return nil, err
	}
	rows := make([]Listed, len(ms))
	for i := range ms {
		m := &ms[i]
		rows[i] = Listed{
			Seq: m.Seq, MessageID: m.ID, Sender: m.Sender, Recipient: m.Recipient, Group: m.Group, Type: m.Type,
			ThreadID:   m.ThreadID,
			ThreadName: named[m.ThreadID].Name, Status: m.Status, CreatedAt: m.CreatedAt, DeliveredAt: m.DeliveredAt,
			EndedAt:       m.EndedAt,
			NextAttemptAt: m.NextAttemptAt, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries,
			Error: orchestrator.Clip(m.Error), Held: m.Held,
			LeaseUntil: m.LeaseUntil, ReadAt: m.ReadAt, Archived: m.ArchivedAt != "",
		}
		rows[i].Says, _ = commands.Excerpt(m, p.Text)
		if p.Text == "" && m.Summary != "" {
			rows[i].Says = m.Summary
		}
	}
	return rows, nil
}

// Text writes one line per message, and how far the search has come.
func (r MessagesListResult) Text(w *terminal.Text) {
	if r.Count > 0 {
		terminal.TableOf(w, []string{"MESSAGE", "SENT", "FROM", "TO", "TYPE", "STATUS", "TEXT"}, r.Messages,
			func(m *Listed) []string {
				says := m.Says
				if m.Error != "" && m.Status != orchestrator.Delivered {
					says = m.Error
				}
				return []string{m.MessageID, w.When(m.CreatedAt), m.Sender, m.Recipient, m.Type, string(m.Status), says}
			})
	}
	on := "--before"
	if r.oldestFirst {
		on = "--oldest-first --after"
	}
	switch {
	case !r.Complete:
		w.Printf("The search stopped at a message sent %s. To continue, add %s %d.\n", w.When(r.Until), on, r.Next)
	case r.Count == 0:
		w.Printf("No messages match.\n")
	}
}
