package coral

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/threads"
)

// RemoveParticipantParams names a thread and the agent to remove.
type RemoveParticipantParams struct {
	ThreadID      string `json:"threadId" desc:"thread ID that create_thread returned" check:"id"`
	ParticipantID string `json:"participantId" desc:"agent to remove" check:"agent"`
}

// RemoveParticipantResult is the thread after the change.
type RemoveParticipantResult struct {
	ParticipantID string `json:"participantId"`
	ThreadResult
}

var removeParticipantCommand = commands.Define(vocabulary, "remove_participant", removeParticipant).Knowing("threadId",
	commands.KnownThreads)

// removeParticipant removes an agent from a thread. It keeps what was sent to the agent, read or unread.
func removeParticipant(ctx context.Context, env commands.Env, p RemoveParticipantParams) (RemoveParticipantResult,
	error) {
	th, err := threads.RemoveParticipant(ctx, env.Ledger, change(env, p.ThreadID), p.ParticipantID)
	if err != nil {
		return RemoveParticipantResult{}, err
	}
	return RemoveParticipantResult{p.ParticipantID, threadResult(&th, p.ParticipantID+" was removed successfully:")},
		nil
}
