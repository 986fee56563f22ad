package coral

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/threads"
)

// AddParticipantParams names a thread and the agent to add.
type AddParticipantParams struct {
	ThreadID      string `json:"threadId" desc:"thread ID that create_thread returned" check:"id"`
	ParticipantID string `json:"participantId" desc:"agent to add" check:"agent"`
}

// AddParticipantResult is the thread after the change. Added is false for an agent that was already a participant.
type AddParticipantResult struct {
	ParticipantID string `json:"participantId"`
	Added         bool   `json:"added"`
	ThreadResult
}

var addParticipantCommand = commands.Define(vocabulary, "add_participant", addParticipant).Knowing("threadId",
	commands.KnownThreads)

// addParticipant adds an agent to a thread. It is idempotent.
func addParticipant(ctx context.Context, env commands.Env, p AddParticipantParams) (AddParticipantResult, error) {
	th, added, err := threads.AddParticipant(ctx, env.Ledger, change(env, p.ThreadID), p.ParticipantID)
	if err != nil {
		return AddParticipantResult{}, err
	}
	did := p.ParticipantID + " was added successfully:"
	if !added {
		did = p.ParticipantID + " is already a participant:"
	}
	return AddParticipantResult{ParticipantID: p.ParticipantID, Added: added, ThreadResult: threadResult(&th, did)}, nil
}
