package overview

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// explainElsewhere explains a message to an agent whose files or commands are on another host.
func explainElsewhere(c *store.Conn, l *ledger.Ledger, agent *ledger.Agent, why *Reason) error {
	what := fmt.Sprintf("the transport of %s, %s,", agent.Name, agent.Deliver)
	move := fmt.Sprintf("`mailroom agent add %s --host %s`, if its files and commands are here now", agent.Name,
		l.Host())
	if agent.BuiltIn {
		what, move = "signal, which asks and tells the user,",
			fmt.Sprintf("`mailroom setting set %s %s`, if it is to be served here", ledger.SignalHost, l.Host())
	}
	list, err := daemons.ListIn(c, l)
	why.Rule = fmt.Sprintf("%s is on the host %s, where a daemon takes it", what, agent.Host)
	why.Fix = "Nothing; if it does not move, look at the daemon's log on " + agent.Host
	if !runsOn(list, agent.Host) {
		why.Rule = fmt.Sprintf("no router on host %s: %s is there, and no other host can deliver to it", agent.Host,
			what)
		why.Fix = fmt.Sprintf("`mailroom serve` on %s; or %s", agent.Host, move)
	}
	return err
}

// runsOn reports whether one of these daemons runs on a host.
func runsOn(list []daemons.Daemon, host string) bool {
	return slices.ContainsFunc(list, func(d daemons.Daemon) bool { return d.Host == host })
}

// checkHosts finds hosts to which agents belong, and on which no daemon runs.
func checkHosts(x *examination) error {
	if !x.l.IsCentral() {
		return nil
	}
	of := map[string][]string{}
	for _, name := range append([]string{orchestrator.User}, x.conf.Names...) {
		if host := x.conf.Agents[name].Host; host != "" {
			of[host] = append(of[host], name)
		}
	}
	missing, err := daemons.Missing(x.c, x.l)
	if err != nil {
		return err
	}
	for _, m := range missing {
		x.add(Finding{
			About: m.Host, Level: Note, Do: "Give one of two machines another name: --host-name NAME",
			Says: fmt.Sprintf("a daemon of that name, process %d, was seen at %s and is not on this machine: it was killed since, or another machine has the same name",
				m.PID, m.SeenAt),
		})
	}
	for _, host := range slices.Sorted(maps.Keys(of)) {
		f := Finding{
			About: host, Level: Problem, Says: "No daemon runs on " + host, Because: "no other host delivers to " +
				strings.Join(of[host], ", "),
			Do: "`mailroom serve` on " + host + "; or move them: `mailroom agent add NAME --host " + x.l.Host() + "`",
		}
		switch {
		case runsOn(x.daemons, host):
			f = Finding{About: host, Level: Fine, Says: "a daemon runs there, for " + orchestrator.Plural(len(of[host]),
				"agent")}
		case host == x.l.Host(): // whoever works without a daemon delivers by hand
			f.Level, f.Do = Note, "`mailroom serve`"
		}
		x.add(f)
	}
	return nil
}

// passwords looks for agents whose commands cannot use the database by themselves, since they do not get the password
// that this process was given. It logs in to the server without that password.
func (d *doctor) passwords(ctx context.Context) error {
	conf, err := d.ledger.Configuration(ctx)
	if err != nil {
		return err
	}
	var locked []string
	for _, name := range conf.Names {
		if agents.Lacks(conf.Agents[name], "PGPASSWORD") {
			locked = append(locked, name)
		}
	}
	server, ok := d.ledger.Store.(store.Central)
	if !ok || len(locked) == 0 {
		return nil
	}
	if refusal := server.Enters(ctx); refusal != nil {
		do := "Put the password into ~/.pgpass"
		if os.Getenv("PGPASSWORD") != "" {
			do += "; or let it pass: `mailroom agent add NAME --pass-env '*,PGPASSWORD'`"
		}
		d.Report("passwords", Note,
			fmt.Sprintf("`mailroom` in the commands of %s is not let in, since it gets neither PGPASSWORD nor the password of an address: %v",
				strings.Join(locked, ", "), refusal), do)
	}
	return nil
}
