package team

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/teams"
	"mailroom/tracing"
)

// IdleParams holds why the caller's turn ended, and which agent to notify.
type IdleParams struct {
	Reason string `json:"reason,omitempty" desc:"why the turn ended" check:"max=1024"`
	Lead   string `json:"lead,omitempty" desc:"agent to notify; default: the team's lead" check:"agent"`
}

// IdleResult holds which agent was notified, and carries the caller's unread messages.
type IdleResult struct {
	Agent     string `json:"agent"`
	Presence  string `json:"presence"`
	Since     string `json:"since"`
	Lead      string `json:"lead,omitempty"` // agent to notify; "" if the team has nobody but the caller
	Notified  bool   `json:"notified"`       // false if there is no lead, or if this turn was already reported
	MessageID string `json:"message_id,omitempty"`
	Arrivals
}

var idleCommand = commands.Define(vocabulary, "team idle", idle).With(commands.Traits{Kind: tracing.Producer})

// idle ends an agent's turn. Hooks call it when the turn has ended.
func idle(ctx context.Context, env commands.Env, p IdleParams) (IdleResult, error) {
	agent, err := teammate(env)
	if err != nil {
		return IdleResult{}, err
	}
	notice, err := teams.IdleNotice(agent, env.Caller.Session, p.Reason)
	if err != nil {
		return IdleResult{}, err
	}
	notice.Summary = commands.Preview(agent + " is idle" + after(&p.Reason))
	ended, err := teams.EndTurn(ctx, env.Ledger, p.Lead, notice)
	if err != nil {
		return IdleResult{}, err
	}
	return IdleResult{
		Agent: agent, Presence: string(ended.Presence.Status), Since: ended.Presence.Since, Lead: ended.Lead,
		Notified: ended.Notice.MessageID != "", MessageID: ended.Notice.MessageID,
		Arrivals: arrivalsAfter(ctx, env, agent),
	}, nil
}

// Text writes the result, and the caller's unread messages.
func (r IdleResult) Text(w *terminal.Text) {
	switch {
	case r.Notified:
		w.Printf("%s is %s; %s was notified.\n", r.Agent, r.Presence, r.Lead)
	default:
		w.Printf("%s has been %s since %s. No notification was sent.\n", r.Agent, r.Presence, r.Since)
	}
	r.Arrivals.text(w)
}
