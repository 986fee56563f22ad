package admin

import (
	"context"
	"strings"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// NoParams are the parameters of a command that has none.
type NoParams struct{}

// AgentListResult lists who is known.
type AgentListResult struct {
	Agents []orchestrator.Agent `json:"agents"`
}

var agentListCommand = commands.Define(vocabulary, "agent list", agentList)

func agentList(ctx context.Context, env commands.Env, _ NoParams) (AgentListResult, error) {
	agents, err := env.Router.Agents(ctx)
	return AgentListResult{Agents: agents}, err
}

// Text shows a table.
func (r AgentListResult) Text(w *commands.Text) {
	if len(r.Agents) == 0 {
		w.Printf("Nobody is known yet. Add somebody with `mailroom agent add NAME`.\n")
		return
	}
	rows := make([][]string, len(r.Agents))
	for i, a := range r.Agents {
		rows[i] = []string{a.Name, a.Role, a.Deliver, a.Fallback, strings.Join(a.Groups, ", ")}
	}
	w.Table([]string{"AGENT", "ROLE", "DELIVER", "FALLBACK", "GROUPS"}, rows)
}
