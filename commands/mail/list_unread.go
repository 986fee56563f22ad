package mail

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/reading"
)

// ListUnreadParams selects the inbox to list.
type ListUnreadParams struct {
	Agent string `json:"agent,omitempty" desc:"agent whose messages to list; may be left out if --as or MAILROOM_AGENT names it" check:"agent" arg:"1"`
	Limit int    `json:"limit,omitempty" desc:"maximum number of messages" check:"min=1,max=100" default:"20"`
}

// ListUnreadResult lists unread messages in the order in which they are read.
type ListUnreadResult struct {
	Agent    string `json:"agent"`
	Count    int    `json:"count"`
	More     bool   `json:"more"`           // there are more messages
	Rest     string `json:"rest,omitempty"` // for a model: how to get the rest
	Messages []Hit  `json:"messages"`
}

var listUnreadCommand = commands.Define(vocabulary, "list_unread", listUnread).Called("inbox", "",
	"List unread messages without marking them as read")

// listUnread lists unread messages. It first delivers what is due to the agent, and does not mark messages as read.
func listUnread(ctx context.Context, env commands.Env, p ListUnreadParams) (ListUnreadResult, error) {
	agent, err := commands.ReadAs(ctx, env, p.Agent)
	if err != nil {
		return ListUnreadResult{}, err
	}
	ms, more, err := reading.Wait(ctx, env.Ledger, reading.Options{Recipient: agent, Limit: p.Limit, Peek: true})
	if err != nil {
		return ListUnreadResult{}, err
	}
	answer := func(ms []orchestrator.Message) any {
		r := ListUnreadResult{Agent: agent, Count: len(ms), More: more, Messages: make([]Hit, len(ms))}
		for i := range ms {
			r.Messages[i] = hitOf(&ms[i])
			r.Messages[i].Excerpt, _ = commands.Excerpt(&ms[i], "")
		}
		return r
	}
	r := answer(env.Shown(ms, answer)).(ListUnreadResult)
	r.More = more || r.Count < len(ms)
	r.Rest = env.Rest(r.More, "read these messages, and call list_unread again")
	return r, nil
}

// hitOf returns a message without its content.
func hitOf(m *orchestrator.Message) Hit {
	return Hit{
		MessageID: m.ID, Sender: m.Sender, Recipient: m.Recipient, Group: m.Group, Type: m.Type, ThreadID: m.ThreadID,
		ReplyTo: m.ReplyTo, Status: string(m.Status), CreatedAt: m.CreatedAt, ReadAt: m.ReadAt,
	}
}

// Text writes a line for each message.
func (r ListUnreadResult) Text(w *terminal.Text) {
	if r.Count == 0 {
		w.Printf("%s has no unread messages.\n", r.Agent)
		return
	}
	rows := terminal.Rows(r.Messages, func(h *Hit) []string {
		return []string{h.MessageID, w.When(h.CreatedAt), h.Sender, h.Type, h.Excerpt}
	})
	if !w.SideBySide([]string{"MESSAGE", "SENT", "FROM", "TYPE", "TEXT…"}, rows, "TYPE", "SENT") {
		writeHits(w, r.Messages)
	}
	if r.More {
		w.Printf("There are more messages. To list up to 100, add --limit 100.\n")
	}
	w.Printf("To show a complete message, run `mailroom show ID`. To read the messages and mark them as read, run `mailroom read %s`.\n", r.Agent)
}
