package admin

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// AgentAddParams say what to add, or to change of a known agent. What is left out stays as it is.
type AgentAddParams struct {
	Name        string            `json:"name" desc:"name of the agent: a letter, then letters, digits, _ or -" check:"agent" arg:"1"`
	Role        *string           `json:"role,omitempty" desc:"what it does, in a few words" check:"max=256"`
	Groups      []string          `json:"group,omitempty" desc:"group to join; may be repeated" check:"agent|group"`
	Deliver     *string           `json:"deliver,omitempty" desc:"transport: inbox, or jsonl:PATH" check:"min=1,max=4096"`
	Fallback    *string           `json:"fallback,omitempty" desc:"jsonl:PATH used when the first transport fails; '' removes it" check:"max=4096"`
	Timeout     *commands.Seconds `json:"timeout,omitempty" desc:"longest delivery attempt; 0 is the setting delivery.timeout" check:"min=0,max=3600"`
	Start       *string           `json:"start,omitempty" desc:"command that starts the agent" check:"max=4096"`
	SilentAfter *commands.Seconds `json:"silent_after,omitempty" desc:"silence after which it counts as lost; 0 is never" check:"min=0,max=2592000"`
	PlanMode    *bool             `json:"plan_mode,omitempty" desc:"it must have its plans approved"`
}

// AgentResult is one agent.
type AgentResult struct {
	Agent   orchestrator.Agent `json:"agent"`
	Created bool               `json:"created"`
}

var agentAddCommand = commands.Define(vocabulary, "agent add", agentAdd)

// agentAdd is idempotent: adding a known agent again updates it.
func agentAdd(ctx context.Context, env commands.Env, p AgentAddParams) (AgentResult, error) {
	if err := p.allowed(env.Caller); err != nil {
		return AgentResult{}, err
	}
	u := orchestrator.AgentUpdate{
		Name: p.Name, Role: p.Role, Deliver: p.Deliver, Fallback: p.Fallback, StartCommand: p.Start, PlanModeRequired: p.PlanMode,
		Groups: p.Groups, By: env.Caller.Name,
	}
	if p.Timeout != nil {
		d := p.Timeout.Duration()
		u.Timeout = &d
	}
	if p.SilentAfter != nil {
		d := p.SilentAfter.Duration()
		u.SilentAfter = &d
	}
	agent, created, err := env.Router.AddAgent(ctx, u)
	return AgentResult{Agent: agent, Created: created}, err
}

// allowed refuses somebody on another machine who names files or programs of this one.
func (p *AgentAddParams) allowed(caller commands.Caller) error {
	if !caller.Remote {
		return nil
	}
	for i, value := range []*string{p.Deliver, p.Fallback, p.Start} {
		if value != nil && *value != "" && *value != "inbox" {
			name := []string{"deliver", "fallback", "start"}[i]
			e := orchestrator.Errorf(orchestrator.PermissionDenied, "%s: over the network nobody names a file or a program of the daemon's machine", name).
				WithHint("Run `mailroom agent add` there")
			e.Details = map[string]any{"parameter": name}
			return e
		}
	}
	return nil
}

// Text says it in a sentence.
func (r AgentResult) Text(w *commands.Text) {
	what := "Changed"
	if r.Created {
		what = "Added"
	}
	w.Printf("%s %s; its messages go to %s.\n", what, r.Agent.Name, r.Agent.Deliver)
}
