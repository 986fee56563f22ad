package coral

import (
	"cmp"
	"context"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/threads"
)

// CloseThreadParams name a thread, and say what came of it.
type CloseThreadParams struct {
	ThreadID string `json:"threadId" desc:"thread ID that create_thread returned" check:"id"`
	Summary  string `json:"summary,omitempty" desc:"outcome, stored with the thread" check:"max=8192"`
}

var closeThreadCommand = commands.Define(vocabulary, "close_thread", closeThread).Knowing("threadId",
	commands.KnownThreads)

// closeThread ends a thread for good. What was posted stays, and mentions that are not read yet are still to be had.
func closeThread(ctx context.Context, env commands.Env, p CloseThreadParams) (ThreadResult, error) {
	notice, err := orchestrator.JSON(struct {
		Content string `json:"content"` // no mentions: each of those who get it is shown as one
	}{closed(env.Caller.Name, p.Summary)})
	if err != nil {
		return ThreadResult{}, err
	}
	th, err := threads.Close(ctx, env.Ledger, change(env, p.ThreadID),
		threads.Closing{Summary: p.Summary, Notice: threads.Notice{Type: orchestrator.ThreadClosed, Payload: notice}})
	if err != nil {
		return ThreadResult{}, err
	}
	return threadResult(&th, "Thread closed successfully:"), nil
}

// closed says who closed a thread, and why.
func closed(by, summary string) string {
	text := cmp.Or(by, "An administrator") + " closed this thread."
	if summary != "" {
		text += " Summary: " + summary
	}
	return text
}
