package admin

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator"
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
	SessionPID  int    `json:"session_pid,omitempty"` // of its session, which goes on
}

var agentRemoveCommand = commands.Define(vocabulary, "agent remove", agentRemove)

func agentRemove(ctx context.Context, env commands.Env, p AgentRemoveParams) (AgentRemoveResult, error) {
	r := AgentRemoveResult{Name: p.Name}
	agent, err := env.Router.AgentStanding(ctx, p.Name)
	if err != nil {
		return r, err
	}
	if agent.Run != nil && agent.Run.State == orchestrator.RunRunning {
		r.SessionPID = agent.Run.PID
	}
	r.DeadLetters, err = env.Router.RemoveAgent(ctx, p.Name, p.DeadLetter)
	return r, err
}
