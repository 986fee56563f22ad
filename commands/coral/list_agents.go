package coral

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
)

// ListAgentsParams selects how much to show.
type ListAgentsParams struct {
	IncludeDetails bool `json:"includeDetails,omitempty" desc:"also show the description and status of each agent"`
}

// ListAgentsResult lists everybody who can take part in a thread: first the agents that registered in the session, in
// the order of their registration, then all other known agents by name, then the operator and the user.
type ListAgentsResult struct {
	Count  int     `json:"count"`
	Agents []Agent `json:"agents"`
}

// Agent is an agent, or another recipient, that can be mentioned.
type Agent struct {
	AgentID     string `json:"agentId"`
	AgentName   string `json:"agentName"`
	Registered  bool   `json:"registered"`        // in this session
	BuiltIn     bool   `json:"builtIn,omitempty"` // the operator or the user: Description describes who that is
	Description string `json:"description,omitempty"`
	Role        string `json:"role,omitempty"`
	Status      string `json:"status,omitempty"` // working, idle or stopped; "" if not registered in this session
	Since       string `json:"since,omitempty"`
}

var listAgentsCommand = commands.Define(vocabulary, "list_agents", listAgents).With(commands.Traits{ListsAgents: true})

// listAgents lists the agents. It changes nothing.
func listAgents(ctx context.Context, env commands.Env, p ListAgentsParams) (ListAgentsResult, error) {
	presences, err := agents.Presences(ctx, env.Ledger, env.Caller.Session)
	if err != nil {
		return ListAgentsResult{}, err
	}
	known, err := agents.List(ctx, env.Ledger)
	if err != nil {
		return ListAgentsResult{}, err
	}
	others := make(map[string]*ledger.Agent, len(known))
	for i := range known {
		others[known[i].Name] = &known[i]
	}
	var r ListAgentsResult
	for _, here := range presences {
		a := others[here.Agent]
		if a == nil {
			continue // removed since
		}
		delete(others, here.Agent)
		shown := Agent{AgentID: here.Agent, AgentName: cmp.Or(here.DisplayName, here.Agent), Registered: true}
		if p.IncludeDetails {
			shown.Description, shown.Role, shown.Status, shown.Since = here.Description, a.Role, string(here.Status),
				here.Since
		}
		r.Agents = append(r.Agents, shown)
	}
	for i := range known {
		a := &known[i]
		if others[a.Name] == nil {
			continue
		}
		shown := Agent{AgentID: a.Name, AgentName: a.Name}
		if p.IncludeDetails {
			shown.Role = a.Role
		}
		r.Agents = append(r.Agents, shown)
	}
	builtIns, err := agents.BuiltIns(ctx, env.Ledger)
	for _, a := range builtIns {
		r.Agents = append(r.Agents, Agent{AgentID: a.Name, AgentName: a.Name, BuiltIn: true, Description: a.Role})
	}
	r.Count = len(r.Agents)
	return r, err
}

// ToolText lists the agents, one per line.
func (r ListAgentsResult) ToolText() string {
	var b strings.Builder
	others := slices.IndexFunc(r.Agents, func(a Agent) bool { return a.BuiltIn })
	fmt.Fprintf(&b, "%d agents:", others)
	if others == 0 {
		b.Reset()
		b.WriteString("No agents are registered.")
	}
	for i, a := range r.Agents {
		if i == others {
			b.WriteString("\nBuilt-in recipients, not agents:")
		}
		fmt.Fprintf(&b, "\nID: %s, Name: %s", a.AgentID, hanging(a.AgentName))
		for _, pair := range [][2]string{{"Role", a.Role}, {"Status", a.Status}, {"Description", a.Description}} {
			if pair[1] != "" {
				fmt.Fprintf(&b, ", %s: %s", pair[0], hanging(pair[1]))
			}
		}
	}
	return b.String()
}

// Text writes a table.
func (r ListAgentsResult) Text(w *terminal.Text) {
	terminal.TableOf(w, []string{"AGENT", "NAME", "STATUS", "DESCRIPTION"}, r.Agents, func(a *Agent) []string {
		return []string{a.AgentID, a.AgentName, a.Status, a.Description}
	})
}
