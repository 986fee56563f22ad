package team

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/teams"
)

// MembersResult lists the team, first the lead, last the operator and the user. It carries the caller's unread
// messages.
type MembersResult struct {
	Session string         `json:"session"`
	Members []teams.Member `json:"members"`
	Arrivals
}

var membersCommand = commands.Define(vocabulary, "team members", members).With(commands.Traits{ListsAgents: true})

func members(ctx context.Context, env commands.Env, _ struct{}) (MembersResult, error) {
	agent, err := member(env)
	if err != nil {
		return MembersResult{}, err
	}
	if err := takePart(ctx, env, agent, false); err != nil {
		return MembersResult{}, err
	}
	a, err := attend(ctx, env, agent)
	if err != nil {
		return MembersResult{}, err
	}
	// The list is read after the messages, because messages may have changed the caller's status to working.
	list, err := teams.Get(ctx, env.Ledger, env.Caller.Session)
	if err != nil {
		return MembersResult{}, err
	}
	return MembersResult{Session: env.Caller.Session, Members: list, Arrivals: a}, nil
}

// Text writes a table, and the caller's unread messages.
func (r MembersResult) Text(w *terminal.Text) {
	terminal.TableOf(w, []string{"TEAMMATE", "PART", "ROLE", "PRESENCE", "SINCE", "PLANS"}, r.Members,
		func(m *teams.Member) []string {
			part := "member"
			switch {
			case m.Lead:
				part = "lead"
			case m.BuiltIn:
				part = "not a member"
			}
			plans := ""
			if m.PlanModeRequired {
				plans = "need approval"
			}
			return []string{m.Name, part, m.Role, string(m.Status), m.Since, plans}
		})
	r.Arrivals.text(w)
}
