package coral

import (
	"cmp"
	"context"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/threads"
)

// CloseThreadParams names a thread, and holds its outcome.
type CloseThreadParams struct {
	ThreadID string `json:"threadId" desc:"thread ID that create_thread returned" check:"id"`
	Summary  string `json:"summary,omitempty" desc:"outcome, stored with the thread" check:"max=8192"`
}

var closeThreadCommand = commands.Define(vocabulary, "close_thread", closeThread).Knowing("threadId",
	commands.KnownThreads)

// closeThread closes a thread permanently. Its posts are kept, and unread mentions can still be read.
func closeThread(ctx context.Context, env commands.Env, p CloseThreadParams) (ThreadResult, error) {
	notice, err := orchestrator.JSON(struct {
		Content string `json:"content"` // no mentions: each recipient of the notice is shown as mentioned
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

// closed returns a text about who closed a thread, and the summary.
func closed(by, summary string) string {
	text := cmp.Or(by, "An administrator") + " closed this thread."
	if summary != "" {
		text += " Summary: " + summary
	}
	return text
}
