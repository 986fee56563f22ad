package admin

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// AgentNameParams name one agent.
type AgentNameParams struct {
	Name string `json:"name" desc:"name of the agent" check:"agent" arg:"1"`
}

// AgentShowResult is one agent and what waits for it.
type AgentShowResult struct {
	Agent   orchestrator.Agent            `json:"agent"`
	Backlog orchestrator.RecipientBacklog `json:"backlog"`
}

var agentShowCommand = commands.Define(vocabulary, "agent_show", agentShow)

func agentShow(ctx context.Context, env commands.Env, p AgentNameParams) (AgentShowResult, error) {
	agent, err := env.Router.Agent(ctx, p.Name)
	if err != nil {
		return AgentShowResult{}, err
	}
	r := AgentShowResult{Agent: agent}
	state, err := env.Router.Status(ctx)
	for _, b := range state.Recipients {
		if b.Recipient == agent.Name {
			r.Backlog = b
		}
	}
	return r, err
}
