package admin

import (
	"context"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/orchestrator/overview"
)

// AgentListParams say whom to list.
type AgentListParams struct {
	All bool `json:"all,omitempty" desc:"list the names that were removed, too"`
}

// AgentListResult lists the agents that are known, behind them the operator and the user, and then who was removed.
type AgentListResult struct {
	Agents []overview.Standing `json:"agents"`
}

var agentListCommand = commands.Define(vocabulary, "agent list", agentList).With(commands.Traits{ListsAgents: true})

func agentList(ctx context.Context, env commands.Env, p AgentListParams) (AgentListResult, error) {
	agents, err := overview.Standings(ctx, env.Ledger)
	for i := range agents {
		conceal(env.Caller, &agents[i])
	}
	if err != nil || !p.All {
		return AgentListResult{Agents: agents}, err
	}
	removed, err := overview.RemovedAgents(ctx, env.Ledger)
	return AgentListResult{Agents: append(agents, removed...)}, err
}

// conceal keeps the files, commands and addresses of other agents from an agent on another machine: keys stand in them.
func conceal(caller commands.Caller, a *overview.Standing) {
	if !caller.Remote || caller.Admin || caller.Name == a.Name {
		return
	}
	a.Deliver, _, _ = strings.Cut(a.Deliver, ":")
	a.Fallback, _, _ = strings.Cut(a.Fallback, ":")
	a.StartCommand, a.Folder = "", ""
	if a.Disabled != "" {
		a.Disabled, _, _ = strings.Cut(a.Disabled, " ") // since when
	}
	if a.Run != nil {
		run := *a.Run
		run.Outcome, run.Output = "", ""
		a.Run = &run
	}
}

// Text shows a table.
func (r AgentListResult) Text(w *commands.Text) {
	if !slices.ContainsFunc(r.Agents, func(a overview.Standing) bool { return !a.BuiltIn }) {
		w.Printf("Nobody is known yet. Add somebody with `mailroom agent add NAME`.\n")
	}
	headings := []string{"AGENT", "ROLE", "STATUS", "DELIVER", "FALLBACK", "GROUPS"}
	started := slices.ContainsFunc(r.Agents, func(a overview.Standing) bool { return a.Run != nil })
	if started {
		headings = append(headings, "LAST RUN")
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
	}
	w.Table(headings, rows)
	for _, a := range r.Agents {
		if a.Note != "" {
			w.Printf("%s\n", w.Paint(commands.Yellow, a.Note+". `mailroom doctor` says what to do."))
		}
	}
}

// standing says in a few words what an agent does, and since when.
func standing(w *commands.Text, a *overview.Standing) string {
	if a.Status == "" {
		return ""
	}
	return string(a.Status) + ", " + w.When(a.StatusSince)
}
