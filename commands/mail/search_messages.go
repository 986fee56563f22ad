package mail

import (
	"context"
	"fmt"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
)

// SearchMessagesParams selects the messages to search for.
type SearchMessagesParams struct {
	Text     string `json:"text,omitempty" desc:"text that the message contains" check:"min=1,max=1024" arg:"1" flag:"grep"`
	Sender   string `json:"sender,omitempty" desc:"only messages from this agent" check:"agent" also:"from"`
	To       string `json:"recipient,omitempty" desc:"only messages to this agent or group" check:"agent|group" also:"to"`
	With     string `json:"with,omitempty" desc:"only messages to or from this agent" check:"agent"`
	Type     string `json:"message_type,omitempty" desc:"only messages of this type" check:"min=1" also:"type"`
	ThreadID string `json:"thread_id,omitempty" desc:"only messages in this thread" check:"min=1,max=256" also:"thread"`
	Status   string `json:"status,omitempty" desc:"only messages with this status" check:"status"`
	Since    string `json:"since,omitempty" desc:"earliest sending time: RFC 3339, or how long ago, such as 1h" check:"max=64"`
	Continue string `json:"continue,omitempty" desc:"value of continue in the previous answer" check:"max=256"`
	Limit    int    `json:"limit,omitempty" desc:"maximum number of messages" check:"min=1,max=100" default:"20"`
	Agent    string `json:"agent,omitempty" desc:"agent that sent or got the messages; default for an administrator: all agents" check:"agent"`
}

// SearchMessagesResult lists the messages found, newest first.
type SearchMessagesResult struct {
	Agent    string `json:"agent,omitempty"` // "" for all agents
	Count    int    `json:"count"`
	Messages []Hit  `json:"messages"`
	Complete bool   `json:"complete"` // the whole history has been searched

	SearchedBackTo string `json:"searched_back_to,omitempty"` // messages sent since then have been searched
	Continue       string `json:"continue,omitempty"`         // parameter for the call that continues the search

	says string // the text that was searched for
}

// Hit is a message without its whole content. get_message shows the whole message.
type Hit struct {
	MessageID string `json:"message_id"`
	Sender    string `json:"sender"`
	Recipient string `json:"recipient"` // thread:ID for a post in a thread
	Group     string `json:"multicast_target,omitempty"`
	Type      string `json:"message_type"`
	ThreadID  string `json:"thread_id,omitempty"`
	ReplyTo   string `json:"reply_to,omitempty"`
	Status    string `json:"status"`
	CreatedAt string `json:"created_at"`
	ReadAt    string `json:"read_at,omitempty"`
	Excerpt   string `json:"excerpt"`
}

// to returns where the message was sent: "team (bob)" for bob's copy of a message to the group team. Status is that
// of the copy.
func (h *Hit) to() string {
	if h.Group == "" || h.Group == h.Recipient || strings.HasPrefix(h.Group, orchestrator.ThreadPrefix) {
		return h.Recipient
	}
	return h.Group + " (" + h.Recipient + ")"
}

var searchMessagesCommand = commands.Define(vocabulary, "search_messages", searchMessages).Called("list", "",
	"List messages, newest first, or search them")

// searchMessages searches messages. It changes nothing.
func searchMessages(ctx context.Context, env commands.Env, p SearchMessagesParams) (SearchMessagesResult, error) {
	agent, err := ownerOrAll(ctx, env, p.Agent)
	if err != nil {
		return SearchMessagesResult{}, err
	}
	s := messages.Search{
		Agent: agent, Sender: p.Sender, To: p.To, With: p.With, Type: p.Type, ThreadID: p.ThreadID,
		Status: orchestrator.Status(p.Status), Since: p.Since, Limit: p.Limit,
	}
	before, multicast, _ := strings.Cut(p.Continue, ".")
	s.From.Multicast = multicast
	if s.From.Before, err = commands.Place(before); err != nil {
		return SearchMessagesResult{}, err
	}
	s.Says = func(m *orchestrator.Message) bool {
		_, says := commands.Excerpt(m, p.Text)
		return says
	}
	found, err := messages.SearchOwn(ctx, env.Ledger, s)
	if err != nil {
		return SearchMessagesResult{}, err
	}
	r := SearchMessagesResult{says: p.Text, Agent: agent, Count: len(found.Messages), Complete: found.Complete,
		Messages: make([]Hit, len(found.Messages))}
	for i := range found.Messages {
		m := &found.Messages[i]
		r.Messages[i] = hitOf(m)
		r.Messages[i].Excerpt, _ = commands.Excerpt(m, p.Text)
	}
	if !r.Complete {
		r.SearchedBackTo, r.Continue = found.BackTo, fmt.Sprint(found.Next.Before)
		if found.Next.Multicast != "" {
			r.Continue += "." + found.Next.Multicast
		}
	}
	return r, nil
}

// writeHits writes messages where a table does not fit: a heading and the beginning of the text of each.
func writeHits(w *terminal.Text, list []Hit) {
	for i := range list {
		h := &list[i]
		w.Printf("%s  %s from %s to %s, %s, %s\n", w.Paint(terminal.Bold, h.MessageID), h.Type, h.Sender, h.to(),
			w.When(h.CreatedAt), w.Status(h.Status))
		if h.Excerpt != "" {
			w.Body("  ", h.Excerpt)
		}
	}
}

// Text writes a line for each message, and how far the search has come.
func (r SearchMessagesResult) Text(w *terminal.Text) {
	if r.Count > 0 {
		rows := terminal.Rows(r.Messages, func(h *Hit) []string {
			return []string{h.MessageID, w.When(h.CreatedAt), h.Sender, h.to(), h.Type, h.Status, h.Excerpt}
		})
		if !w.SideBySide([]string{"MESSAGE", "SENT", "FROM", "TO", "TYPE", "STATUS", "TEXT…"}, rows,
			"TYPE", "SENT", "STATUS") {
			writeHits(w, r.Messages)
		}
	}
	switch {
	case !r.Complete:
		w.Printf("Searched back to %s. To search further, add --continue %s\n", w.When(r.SearchedBackTo), r.Continue)
	case r.Count == 0 && orchestrator.CanBeAgent(r.says):
		w.Printf("No message contains %q. To list messages to or from an agent with that name, run `mailroom list --with %s`.\n", r.says, r.says)
	case r.Count == 0 && r.Agent == "":
		w.Printf("No matching messages.\n")
	case r.Count == 0:
		w.Printf("No matching messages for %s.\n", r.Agent)
	}
}
