package roster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/overview"
)

// AgentListParams selects the agents to list.
type AgentListParams struct {
	All     bool   `json:"all,omitempty" desc:"include removed agents"`
	Search  string `json:"search,omitempty" desc:"only agents with this text in their name, role, or host" check:"max=256"`
	Backlog bool   `json:"backlog,omitempty" desc:"show the number and the age of the messages that wait for each agent"`
	Order   string `json:"order,omitempty" desc:"sort by name, or by waiting (disabled agents first, then agents with the most waiting messages)" check:"oneof=name|waiting" default:"name"`
	Limit   int    `json:"limit,omitempty" desc:"maximum number of agents; default: all" check:"min=1,max=1000"`
	Skip    int    `json:"skip,omitempty" desc:"number of agents to skip at the start of the list" check:"min=0"`
}

// AgentListResult lists the known agents, then the operator and the user, and then the removed agents.
type AgentListResult struct {
	Agents []overview.Standing `json:"agents"`
	Total  int                 `json:"total"` // without limit and skip, and without removed agents
}

var agentListCommand = commands.Define(vocabulary, "agent list", agentList).With(commands.Traits{ListsAgents: true})

func agentList(ctx context.Context, env commands.Env, p AgentListParams) (AgentListResult, error) {
	agents, total, err := overview.Standings(ctx, env.Ledger, overview.StandingFilter{
		Search: p.Search, Waiting: p.Order == "waiting", Skip: p.Skip, Limit: p.Limit, Backlog: p.Backlog,
	})
	for i := range agents {
		conceal(env.Caller, &agents[i])
	}
	if err != nil || !p.All {
		return AgentListResult{agents, total}, err
	}
	removed, err := overview.RemovedAgents(ctx, env.Ledger)
	return AgentListResult{append(agents, removed...), total}, err
}

// conceal removes the files, commands and addresses of another agent for a caller on another machine, because they
// may contain keys.
func conceal(caller commands.Caller, a *overview.Standing) {
	if !caller.Remote || caller.Admin || caller.Name == a.Name {
		return
	}
	a.Deliver, _, _ = strings.Cut(a.Deliver, ":")
	a.Fallback, _, _ = strings.Cut(a.Fallback, ":")
	a.StartCommand, a.Folder, a.PassEnv = "", "", ""
	if a.Disabled != "" {
		a.Disabled, _ = a.DisabledSince()
	}
	if a.Backlog != nil {
		a.Backlog.Disabled = a.Disabled
	}
	if a.Run != nil {
		run := *a.Run
		run.Outcome, run.Output = "", ""
		a.Run = &run
	}
}

// Text writes a table.
func (r AgentListResult) Text(w *terminal.Text) {
	switch {
	case r.Total > 0 && len(r.Agents) == 0:
		w.Printf("--skip is too large: the list has only %s.\n", orchestrator.Plural(r.Total, "agent"))
		return
	case len(r.Agents) == 0:
		w.Printf("No agent has this text in its name, role, or host.\n")
		return
	case r.Total == len(r.Agents) &&
		!slices.ContainsFunc(r.Agents, func(a overview.Standing) bool { return !a.BuiltIn }):
		w.Printf("There are no agents yet. To add one, run `mailroom agent add NAME`.\n")
	}
	headings := []string{"AGENT", "ROLE", "STATUS", "DELIVER", "FALLBACK", "GROUPS"}
	started := slices.ContainsFunc(r.Agents, func(a overview.Standing) bool { return a.Run != nil })
	if started {
		headings = append(headings, "LAST RUN")
	}
	waiting := slices.ContainsFunc(r.Agents, func(a overview.Standing) bool { return a.Backlog != nil })
	if waiting {
		headings = append(headings, "WAIT", "UNREAD", "OLDEST")
	}
	rows := make([][]string, len(r.Agents))
	for i, a := range r.Agents {
		deliver := a.Deliver
		if a.Host != "" {
			deliver += " on " + a.Host
		}
		if a.Disabled != "" {
			deliver = "(disabled) " + deliver
		}
		rows[i] = []string{a.Name, a.Role, standing(w, &a), deliver, a.Fallback, strings.Join(a.Groups, ", ")}
		if started {
			rows[i] = append(rows[i], runState(w, a.Run))
		}
		if waiting {
			rows[i] = append(rows[i], waits(w, a.Backlog)...)
		}
	}
	w.Table(headings, rows)
}

// waits returns how many messages wait for an agent, how many are unread, and since when. The cells are empty for a
// removed agent.
func waits(w *terminal.Text, b *overview.RecipientBacklog) []string {
	if b == nil {
		return []string{"", "", ""}
	}
	return []string{fmt.Sprint(b.Pending + b.Retry), fmt.Sprint(b.Unread), w.When(b.Oldest())}
}

// standing describes in a few words what an agent does, and since when.
func standing(w *terminal.Text, a *overview.Standing) string {
	if a.Status == "" {
		return ""
	}
	return string(a.Status) + ", " + w.When(a.StatusSince)
}
