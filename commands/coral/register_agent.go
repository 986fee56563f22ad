package coral

import (
	"cmp"
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
)

// RegisterAgentParams holds the name of an agent in the session, and what the agent does.
type RegisterAgentParams struct {
	AgentID     string  `json:"agentId,omitempty" desc:"agent that registers; may be left out if the caller's credential names it" check:"agent"`
	AgentName   *string `json:"agentName,omitempty" desc:"display name; default: the current name, or agentId for a new agent" check:"max=256"`
	Description *string `json:"description,omitempty" desc:"what the agent can do, for other agents" check:"max=8192"`
}

// RegisterAgentResult is the agent as registered in the session.
type RegisterAgentResult struct {
	AgentID     string `json:"agentId"`
	AgentName   string `json:"agentName"`
	Description string `json:"description,omitempty"`
	SessionID   string `json:"sessionId"`
}

var registerAgentCommand = commands.Define(vocabulary, "register_agent", registerAgent)

// registerAgent registers an agent in the session. It can be repeated; parameters left out keep their values. Agents
// can register only themselves, and an administrator can register any agent.
func registerAgent(ctx context.Context, env commands.Env, p RegisterAgentParams) (RegisterAgentResult, error) {
	id, err := commands.ActAs(env.Caller, p.AgentID)
	if err != nil {
		return RegisterAgentResult{}, err
	}
	if env.Caller.Admin {
		ctx = ledger.WithIdentity(ctx, id)
	}
	presence, err := agents.Join(ctx, env.Ledger, agents.Joining{
		Session: env.Caller.Session, Agent: id, DisplayName: p.AgentName, Description: p.Description,
	})
	if err != nil {
		return RegisterAgentResult{}, err
	}
	return RegisterAgentResult{
		AgentID: id, AgentName: cmp.Or(presence.DisplayName, id), Description: presence.Description,
		SessionID: presence.Session,
	}, nil
}

// ToolText returns a confirmation.
func (r RegisterAgentResult) ToolText() string {
	return lines("Agent registered successfully:", [2]string{"ID", r.AgentID}, [2]string{"Name", r.AgentName},
		[2]string{"Description", r.Description}, [2]string{"Session", r.SessionID})
}

// Text writes the result for people.
func (r RegisterAgentResult) Text(w *terminal.Text) {
	w.Printf("%s is registered in the session %s as %s.\n", w.Paint(terminal.Bold, r.AgentID), r.SessionID, r.AgentName)
}
