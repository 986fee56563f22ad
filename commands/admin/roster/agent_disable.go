package roster

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
)

// AgentDisableParams names the agent whose transport is no longer used.
type AgentDisableParams struct {
	Name string `json:"name" desc:"name of the agent" check:"agent" arg:"1"`
	Why  string `json:"why,omitempty" desc:"short reason, shown wherever the agent is listed as disabled" check:"max=256"`
}

// AgentDisableResult is a disabled agent.
type AgentDisableResult struct {
	Agent    ledger.Agent `json:"agent"`
	Disabled bool         `json:"disabled"` // false: it was already disabled
}

var agentDisableCommand = commands.Define(vocabulary, "agent disable", agentDisable)

func agentDisable(ctx context.Context, env commands.Env, p AgentDisableParams) (r AgentDisableResult, err error) {
	r.Agent, r.Disabled, err = agents.Disable(ctx, env.Ledger,
		agents.Disabling{Agent: p.Name, Why: p.Why, By: env.Caller.Asks()})
	return r, err
}

// Text writes the result, and where the agent's messages go.
func (r AgentDisableResult) Text(w *terminal.Text) {
	if !r.Disabled {
		since, why := r.Agent.DisabledSince()
		w.Printf("%s has been disabled since %s: %s\n", r.Agent.Name, since, why)
		return
	}
	if r.Agent.KeptBack() {
		w.Printf("Disabled %[1]s. Its messages wait until you run `mailroom agent enable %[1]s`, or until the agent or a hook of its session checks for messages.\n", r.Agent.Name)
		return
	}
	w.Printf("Disabled %[1]s. Its messages go to %[2]s until you run `mailroom agent enable %[1]s`.\n", r.Agent.Name,
		r.Agent.Fallback)
}
