package signal

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/questions"
)

// Completions for a shell. They contain no text of a question.

func knownQuestions(ctx context.Context, env commands.Env) ([]commands.Known, error) {
	list, err := questions.List(ctx, env.Ledger, questions.Filter{Asker: env.Caller.Name})
	return commands.KnownOf(list, func(q *questions.Question) commands.Known {
		return commands.Known{Value: q.ID, About: string(q.Status) + ", asked by " + q.Asker}
	}), err
}

func knownDevices(ctx context.Context, env commands.Env) ([]commands.Known, error) {
	list, err := questions.Devices(ctx, env.Ledger)
	return commands.KnownOf(list, func(d *questions.Device) commands.Known {
		return commands.Known{Value: d.ID, About: d.Name + ", " + d.State}
	}), err
}
