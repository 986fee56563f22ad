package coral

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/threads"
)

// CreateThreadParams describes a new thread.
type CreateThreadParams struct {
	ThreadName     string   `json:"threadName" desc:"what the thread is about" check:"min=1,max=256"`
	CreatorID      string   `json:"creatorId,omitempty" desc:"agent that creates the thread and takes part; may be left out if the caller's credential names it" check:"agent"`
	ParticipantIDs []string `json:"participantIds,omitempty" desc:"other agents that take part" check:"agent,max=1000"`
}

// ThreadResult is a thread in its present state.
type ThreadResult struct {
	ThreadID     string   `json:"threadId"`
	ThreadName   string   `json:"threadName"`
	CreatorID    string   `json:"creatorId"`
	Participants []string `json:"participants"` // the creator first, then in order of joining
	Status       string   `json:"status"`       // open or closed
	Summary      string   `json:"summary,omitempty"`
	CreatedAt    string   `json:"createdAt"`
	ClosedAt     string   `json:"closedAt,omitempty"`

	did string // for people and models: what was done
}

var createThreadCommand = commands.Define(vocabulary, "create_thread", createThread)

// createThread creates a thread in the caller's session.
func createThread(ctx context.Context, env commands.Env, p CreateThreadParams) (ThreadResult, error) {
	creator, err := commands.ActAs(env.Caller, p.CreatorID)
	if err != nil {
		return ThreadResult{}, err
	}
	th, err := threads.Create(ctx, env.Ledger, threads.Draft{
		Session: env.Caller.Session, Name: p.ThreadName, Creator: creator, Participants: p.ParticipantIDs,
	})
	if err != nil {
		return ThreadResult{}, err
	}
	return threadResult(&th, "Thread created successfully:"), nil
}

func threadResult(th *threads.Thread, did string) ThreadResult {
	return ThreadResult{
		ThreadID: th.ID, ThreadName: th.Name, CreatorID: th.Creator, Participants: th.Names(),
		Status:  string(th.Status),
		Summary: th.Summary, CreatedAt: th.CreatedAt, ClosedAt: th.ClosedAt, did: did,
	}
}

// ToolText describes what was done, and the thread in its present state.
func (r ThreadResult) ToolText() string {
	return lines(r.did, [2]string{"ID", r.ThreadID}, [2]string{"Name", r.ThreadName}, [2]string{"Creator", r.CreatorID},
		[2]string{"Participants", listed(r.Participants)}, [2]string{"Status", r.Status},
		[2]string{"Summary", r.Summary})
}

// Text writes the text of ToolText for people.
func (r ThreadResult) Text(w *terminal.Text) { w.Block("", "", r.ToolText()) }
