package admin

import (
	"context"

	"mailroom/commands"
)

// AgentRemoveParams name the agent to forget.
type AgentRemoveParams struct {
	Name       string `json:"name" desc:"name of the agent" check:"agent" arg:"1"`
	DeadLetter bool   `json:"dead_letter,omitempty" desc:"turn what waits for it into dead letters"`
}

// AgentRemoveResult says what became of its mail.
type AgentRemoveResult struct {
	Name        string `json:"name"`
	DeadLetters int64  `json:"dead_letters"`
}

var agentRemoveCommand = commands.Define(vocabulary, "agent remove", agentRemove)

func agentRemove(ctx context.Context, env commands.Env, p AgentRemoveParams) (AgentRemoveResult, error) {
	failed, err := env.Router.RemoveAgent(ctx, p.Name, p.DeadLetter)
	return AgentRemoveResult{Name: p.Name, DeadLetters: failed}, err
}
