package commands

import (
	"context"
	"maps"
	"slices"
	"strings"

	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
)

// Presence maps recipients of a message to the state of their agent-host sessions: working, idle, idle and not woken,
// over budget, not running, session ended, no hooks.
type Presence map[string]string

// PresenceOf returns what is known of the recipients of a message that is being sent. It logs an error and returns
// what was found.
func PresenceOf(ctx context.Context, env Env, d *orchestrator.Draft, recipients ...string) Presence {
	known, err := hosts.Presence(ctx, env.Ledger, d, recipients...)
	if err != nil {
		env.Log.Warn("cannot determine whether the recipients of a message are active", "error", err)
	}
	return known
}

// String returns the states, as "alice: idle, bob: working".
func (p Presence) String() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		list = append(list, name+": "+p[name])
	}
	return strings.Join(list, ", ")
}

// Text writes for people when the recipients will see the message.
func (p Presence) Text(w *terminal.Text) {
	for _, says := range [][2]string{
		{hosts.IsWorking, "Working agents, which will see the message at their next tool call or at the end of the turn: %s.\n"},
		{hosts.IsIdle, "Idle agents, which will be woken if their host supports it: %s.\n"},
		{hosts.NotWoken, "Idle agents, which will not be woken for this message and will see it in their next turn: %s.\n"},
		{hosts.OverSpent, "Agents that see no more messages this hour because their budget (budget.bytes) is used up: %s.\n"},
		{hosts.NoHooks, "Agents that have no connected host and will see the message when they next check: %s.\n"},
		{hosts.NotThere, "Agents that are not running and will see the message in their next session: %s.\n"},
		{hosts.Abandoned, "Agents whose session has ended: %s. They see the message only if somebody resumes the session within an hour. Otherwise, Mailroom removes the agent, and the message expires.\n"},
	} {
		var names []string
		for name, known := range p {
			if known == says[0] {
				names = append(names, name)
			}
		}
		if slices.Sort(names); len(names) > 0 {
			w.Printf(says[1], strings.Join(names, ", "))
		}
	}
}

// NoDaemon reports whether no daemon is running that would deliver. It returns false if the answer is not for a
// person.
func NoDaemon(ctx context.Context, env Env) bool {
	if env.Call.Narrator == nil {
		return false
	}
	running, err := daemons.List(ctx, env.Ledger)
	return err == nil && len(running) == 0
}

// HostWithout returns the host that alone delivers to an agent if that host is not this one and runs no daemon, and
// "" otherwise.
func HostWithout(ctx context.Context, env Env, agent *ledger.Agent) string {
	if !agent.Elsewhere() {
		return ""
	}
	running, err := daemons.List(ctx, env.Ledger)
	if err != nil || slices.ContainsFunc(running, func(d daemons.Daemon) bool { return d.Host == agent.Host }) {
		return ""
	}
	return agent.Host
}

// TellNoDaemon writes that no daemon is running to deliver what was sent. sent is "it is" or "they are".
func TellNoDaemon(w *terminal.Text, sent string) {
	w.Printf("%s\n", w.Paint(terminal.Yellow,
		"No daemon is running: "+sent+" delivered when you run `mailroom deliver_all` or start `mailroom serve`."))
}

// NotTrusted writes why a database has no effect outside itself, and what to do about it. It writes nothing if why is
// "".
func NotTrusted(w *terminal.Text, why string) {
	if why != "" {
		w.Printf("%s\n", w.Paint(terminal.Red, "Attention: "+ledger.NotTrusted+": "+why+". "+ledger.NotTrustedHint+"."))
	}
}
