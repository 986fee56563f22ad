package coral

import (
	"context"

	"mailroom/commands"
)

// CloseThreadParams name a thread, and say what came of it.
type CloseThreadParams struct {
	ThreadID string `json:"threadId" desc:"thread that create_thread answered with" check:"id"`
	Summary  string `json:"summary,omitempty" desc:"what came of it; kept with the thread" check:"max=8192"`
}

var closeThreadCommand = commands.Define(vocabulary, "close_thread", closeThread)

// closeThread ends a thread for good. What was posted stays, and mentions that are not read yet are still to be had.
func closeThread(ctx context.Context, env commands.Env, p CloseThreadParams) (ThreadResult, error) {
	th, err := env.Router.CloseThread(ctx, change(env, p.ThreadID), p.Summary)
	if err != nil {
		return ThreadResult{}, err
	}
	return threadResult(&th, "Thread closed successfully:"), nil
}
