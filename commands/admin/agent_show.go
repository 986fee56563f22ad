package admin

import (
	"context"
	"fmt"
	"strings"

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

var agentShowCommand = commands.Define(vocabulary, "agent show", agentShow)

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

// Text shows a line per field; what is not set is left out.
func (r AgentShowResult) Text(w *commands.Text) {
	a, b := r.Agent, r.Backlog
	timeout, silent, plan := "", "", ""
	if a.TimeoutSeconds > 0 {
		timeout = fmt.Sprintf("%d s", a.TimeoutSeconds)
	}
	if a.SilentAfter > 0 {
		silent = fmt.Sprintf("%d s", a.SilentAfter)
	}
	if a.PlanModeRequired {
		plan = "required"
	}
	w.Fields(
		[2]string{"agent", a.Name}, [2]string{"role", a.Role}, [2]string{"deliver", a.Deliver},
		[2]string{"fallback", a.Fallback}, [2]string{"timeout", timeout}, [2]string{"start", a.StartCommand},
		[2]string{"silent after", silent}, [2]string{"plan mode", plan}, [2]string{"groups", strings.Join(a.Groups, ", ")},
		[2]string{"registered by", a.RegisteredBy}, [2]string{"since", a.CreatedAt},
		[2]string{"backlog", fmt.Sprintf("%d pending, %d retry, %d unread", b.Pending, b.Retry, b.Unread)},
		[2]string{"oldest", b.OldestAt},
	)
}
