package relay

import (
	"context"
	"fmt"
	"slices"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
)

// GetSentMessagesParams selects sent messages. Source: document 000, "get_sent_messages".
type GetSentMessagesParams struct {
	Status   string `json:"status,omitempty" desc:"only messages with this status" check:"status"`
	Target   string `json:"target,omitempty" desc:"only messages to this program or group" check:"agent|group|role"`
	ThreadID string `json:"threadId,omitempty" desc:"only messages in this thread" check:"max=256"`
	Source   string `json:"source,omitempty" desc:"program that sent the messages; only administrators can name another program" check:"agent"`
	Continue string `json:"continue,omitempty" desc:"value of continue in the previous answer" check:"max=64"`
	Limit    int    `json:"limit,omitempty" desc:"maximum number of messages" check:"min=1,max=50" default:"20"`
}

// SentMessage is a message with what is known about its delivery.
type SentMessage struct {
	Message
	Status      string             `json:"status"`
	DeliveredAt string             `json:"delivered_at,omitempty"`
	ReadAt      string             `json:"read_at,omitempty"`
	Error       string             `json:"error,omitempty"` // of the last failed attempt
	Recipient   string             `json:"recipient"`       // the target, or the member of the target
	Receipts    []messages.Receipt `json:"receipts,omitempty"`
	// of a post in a thread: one copy for each agent that it mentions
	Copies []Copy `json:"copies,omitempty"`

	CopiesLeftOut int `json:"copies_left_out,omitempty"` // left out because the answer would be too long for the model
}

// Copy is the copy of a post for one of the agents that it mentions.
type Copy struct {
	MessageID string             `json:"messageId"`
	Recipient string             `json:"recipient"`
	Status    string             `json:"status"`
	Error     string             `json:"error,omitempty"`
	Receipts  []messages.Receipt `json:"receipts"`
}

// SentMessagesResult lists messages.
type SentMessagesResult struct {
	Count    int           `json:"count"`
	HasMore  bool          `json:"hasMore"`
	Continue string        `json:"continue,omitempty"` // parameter for the next call, if there are more
	Messages []SentMessage `json:"messages"`
}

var getSentMessagesCommand = commands.Define(vocabulary, "get_sent_messages", getSentMessages)

// getSentMessages lists sent messages. It changes nothing.
func getSentMessages(ctx context.Context, env commands.Env, p GetSentMessagesParams) (SentMessagesResult, error) {
	source := p.Source
	if source == "" || !env.Caller.Admin {
		var err error
		if source, err = commands.ReadAs(ctx, env, p.Source); err != nil {
			return SentMessagesResult{}, err
		}
	}
	return history(ctx, env, messages.HistoryFilter{
		Sender: source, Own: source == env.Caller.Name, Target: p.Target, ThreadID: p.ThreadID,
		Status: orchestrator.Status(p.Status), Limit: p.Limit,
	}, p.Continue)
}

// history lists past messages with their receipts. from is the value of continue in the previous answer.
func history(ctx context.Context, env commands.Env, f messages.HistoryFilter, from string) (SentMessagesResult, error) {
	var err error
	if f.From, err = commands.Place(from); err != nil {
		return SentMessagesResult{}, err
	}
	ms, more, err := messages.History(ctx, env.Ledger, f)
	if err != nil {
		return SentMessagesResult{}, err
	}
	return sentMessages(ctx, env, ms, more)
}

func sentMessages(ctx context.Context, env commands.Env, ms []orchestrator.Message, more bool) (SentMessagesResult,
	error) {
	receipts, err := messages.Receipts(ctx, env.Ledger, ms)
	if err != nil {
		return SentMessagesResult{}, err
	}
	copies, err := messages.Copies(ctx, env.Ledger, ms)
	if err != nil {
		return SentMessagesResult{}, err
	}
	sent := make([]SentMessage, len(ms))
	for i := range ms {
		m := &ms[i]
		sent[i] = SentMessage{
			Status: string(m.Status), DeliveredAt: m.DeliveredAt, ReadAt: m.ReadAt, Error: m.Error,
			Recipient: m.Recipient, Receipts: receipts[i],
		}
		if sent[i].Copies, err = copiesOf(ctx, env, copies[i]); err != nil {
			return SentMessagesResult{}, err
		}
		all := sent[i].Copies
		n := env.Most(len(all), func(k int) any { return []any{all[:k], commands.Room} })
		sent[i].Copies, sent[i].CopiesLeftOut = all[:n], len(all)-n
	}
	answer := func(ms []orchestrator.Message) any {
		r := SentMessagesResult{Count: len(ms), HasMore: more || len(ms) < len(sent),
			Messages: slices.Clone(sent[:len(ms)])}
		for i := range ms {
			r.Messages[i].Message = render(&ms[i])
		}
		if r.HasMore && len(ms) > 0 {
			r.Continue = fmt.Sprint(ms[len(ms)-1].Seq)
		}
		return r
	}
	return answer(env.Shown(ms, answer)).(SentMessagesResult), nil
}

// copiesOf returns the copies of a post with their receipts.
func copiesOf(ctx context.Context, env commands.Env, ms []orchestrator.Message) ([]Copy, error) {
	if len(ms) == 0 {
		return nil, nil
	}
	receipts, err := messages.Receipts(ctx, env.Ledger, ms)
	if err != nil {
		return nil, err
	}
	list := make([]Copy, len(ms))
	for i := range ms {
		list[i] = Copy{ms[i].ID, ms[i].Recipient, string(ms[i].Status), ms[i].Error, receipts[i]}
	}
	return list, nil
}

// Text writes a line for each message.
func (r SentMessagesResult) Text(w *terminal.Text) {
	terminal.TableOf(w, []string{"MESSAGE", "TYPE", "SOURCE", "TARGET", "STATUS", "SENT", "TEXT…"}, r.Messages,
		func(m *SentMessage) []string {
			return []string{m.MessageID, m.Type, m.Source, m.Recipient, m.Status, w.When(m.SentAt), m.Message.Message}
		})
	if r.HasMore {
		w.Printf("There are more messages. To list them, add --continue %s\n", r.Continue)
	}
}
