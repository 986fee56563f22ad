package team

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/tracing"
)

// MessagesResult holds only the caller's unread messages.
type MessagesResult struct {
	Agent string `json:"agent"`
	Count int    `json:"count"`
	Arrivals
}

var messagesCommand = commands.Define(vocabulary, "team messages", messages).
	With(commands.Traits{Kind: tracing.Consumer})

func messages(ctx context.Context, env commands.Env, _ struct{}) (MessagesResult, error) {
	agent, err := member(env)
	if err != nil {
		return MessagesResult{}, err
	}
	if err := takePart(ctx, env, agent, false); err != nil {
		return MessagesResult{}, err
	}
	a, err := attend(ctx, env, agent)
	return MessagesResult{Agent: agent, Count: len(a.Messages), Arrivals: a}, err
}

// Text writes each message.
func (r MessagesResult) Text(w *terminal.Text) {
	if r.Count == 0 {
		w.Printf("%s has no unread messages.\n", r.Agent)
	}
	r.Arrivals.text(w)
}
