package coral

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/threads"
)

// RemoveParticipantParams name a thread and who is to take no more part in it.
type RemoveParticipantParams struct {
	ThreadID      string `json:"threadId" desc:"thread ID that create_thread returned" check:"id"`
	ParticipantID string `json:"participantId" desc:"agent to remove" check:"agent"`
}

// RemoveParticipantResult is the thread as it is now.
type RemoveParticipantResult struct {
	ParticipantID string `json:"participantId"`
	ThreadResult
}

var removeParticipantCommand = commands.Define(vocabulary, "remove_participant", removeParticipant).Knowing("threadId",
	commands.KnownThreads)

// removeParticipant keeps what was sent to the agent, read or not.
func removeParticipant(ctx context.Context, env commands.Env, p RemoveParticipantParams) (RemoveParticipantResult,
	error) {
	th, err := threads.RemoveParticipant(ctx, env.Ledger, change(env, p.ThreadID), p.ParticipantID)
	if err != nil {
		return RemoveParticipantResult{}, err
	}
	return RemoveParticipantResult{p.ParticipantID, threadResult(&th, p.ParticipantID+" was removed successfully:")},
		nil
}
