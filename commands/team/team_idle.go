package team

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/teams"
	"mailroom/tracing"
)

// IdleParams say why the caller's turn ended, and who is to hear of it.
type IdleParams struct {
	Reason string `json:"reason,omitempty" desc:"why the turn ended" check:"max=1024"`
	Lead   string `json:"lead,omitempty" desc:"agent to notify; default: the team's lead" check:"agent"`
}

// IdleResult says who was told, and carries the caller's unread messages.
type IdleResult struct {
	Agent     string `json:"agent"`
	Presence  string `json:"presence"`
	Since     string `json:"since"`
	Lead      string `json:"lead,omitempty"` // who hears of it; absent when there is nobody but the caller
	Notified  bool   `json:"notified"`       // false when nobody was told: no lead, or not the first time in this turn
	MessageID string `json:"message_id,omitempty"`
	Arrivals
}

var idleCommand = commands.Define(vocabulary, "team idle", idle).With(commands.Traits{Kind: tracing.Producer})

// idle is what a hook calls when an agent's turn ended.
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

// Text says it in a sentence, and shows what came for the caller.
func (r IdleResult) Text(w *terminal.Text) {
	switch {
	case r.Notified:
		w.Printf("%s is %s; %s was notified.\n", r.Agent, r.Presence, r.Lead)
	default:
		w.Printf("%s has been %s since %s. No notification was sent.\n", r.Agent, r.Presence, r.Since)
	}
	r.Arrivals.text(w)
}
