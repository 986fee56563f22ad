package roster

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
)

// AgentEnableResult is an agent whose transport is used.
type AgentEnableResult struct {
	Agent   ledger.Agent `json:"agent"`
	Enabled bool         `json:"enabled"` // false: it was already enabled
}

var agentEnableCommand = commands.Define(vocabulary, "agent enable", agentEnable)

func agentEnable(ctx context.Context, env commands.Env, p AgentNameParams) (r AgentEnableResult, err error) {
	r.Agent, r.Enabled, err = agents.Enable(ctx, env.Ledger, p.Name)
	return r, err
}

// Text writes the result for people.
func (r AgentEnableResult) Text(w *terminal.Text) {
	if !r.Enabled {
		w.Printf("%s is not disabled; its messages go to %s.\n", r.Agent.Name, r.Agent.Deliver)
		return
	}
	w.Printf("Enabled %s. The next delivery run delivers its waiting messages to %s.\n", r.Agent.Name, r.Agent.Deliver)
}
