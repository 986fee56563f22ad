package mail

import (
	"cmp"
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/threads"
)

// RenameThreadParams names a thread, and holds its new name.
type RenameThreadParams struct {
	ThreadID string `json:"thread_id" desc:"thread to rename" check:"id" arg:"1"`
	Name     string `json:"name" desc:"new name of the thread" check:"min=1,max=256" arg:"2"`
	Agent    string `json:"agent,omitempty" desc:"agent that renames the thread" check:"agent"`
}

// RenameThreadResult is the thread after the change. Renamed is false if the thread already had the name.
type RenameThreadResult struct {
	Renamed bool `json:"renamed"`
	Thread
}

var renameThreadCommand = commands.Define(vocabulary, "rename_thread", renameThread).Knowing("thread_id",
	commands.KnownThreads)

// renamedType is the message_type of the notice about the new name to the participants.
const renamedType = "thread_renamed"

// renameThread renames a thread. It is idempotent.
func renameThread(ctx context.Context, env commands.Env, p RenameThreadParams) (RenameThreadResult, error) {
	by, err := ownerOrAll(ctx, env, p.Agent)
	if err != nil {
		return RenameThreadResult{}, err
	}
	notice, err := orchestrator.JSON(struct {
		Content string `json:"content"`
	}{cmp.Or(by, "An administrator") + " renamed this thread: " + p.Name})
	if err != nil {
		return RenameThreadResult{}, err
	}
	th, renamed, err := threads.Rename(ctx, env.Ledger,
		threads.Change{Session: env.Caller.Session, Thread: p.ThreadID, By: by},
		p.Name, threads.Notice{Type: renamedType, Payload: notice})
	return RenameThreadResult{renamed, renderThread(&th)}, err
}

// Text writes the result for people.
func (r RenameThreadResult) Text(w *terminal.Text) {
	if !r.Renamed {
		w.Printf("%s is already named %s.\n", r.ThreadID, r.Name)
		return
	}
	w.Printf("%s is now named %s.\n", w.Paint(terminal.Bold, r.ThreadID), r.Name)
}
