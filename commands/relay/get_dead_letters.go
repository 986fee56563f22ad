package relay

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/messages"
)

// GetDeadLettersParams bounds the answer. Source: document 000, "get_dead_letters".
type GetDeadLettersParams struct {
	Limit    int    `json:"limit,omitempty" desc:"maximum number of messages, newest first" check:"min=1,max=50" default:"20"`
	Continue string `json:"continue,omitempty" desc:"value of continue in the previous answer" check:"max=64"`
}

var getDeadLettersCommand = commands.Define(vocabulary, "get_dead_letters", getDeadLetters)

// getDeadLetters lists dead letters. It changes nothing.
func getDeadLetters(ctx context.Context, env commands.Env, p GetDeadLettersParams) (SentMessagesResult, error) {
	before, err := commands.Place(p.Continue)
	if err != nil {
		return SentMessagesResult{}, err
	}
	list, err := messages.DeadLetters(ctx, env.Ledger, messages.DeadLetterFilter{Limit: p.Limit, Before: before})
	if err != nil {
		return SentMessagesResult{}, err
	}
	return sentMessages(ctx, env, list.DeadLetters, list.Total > int64(len(list.DeadLetters)))
}
