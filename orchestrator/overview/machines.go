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
	move := fmt.Sprintf("if the files and commands of the agent are now on this machine, run `mailroom agent add %s --host %s`",
		agent.Name, l.Host())
	if agent.BuiltIn {
		what, move = "the phone service (signal), which delivers questions and alerts to the user,",
			fmt.Sprintf("to run the phone service on this machine, run `mailroom setting set %s %s`", ledger.SignalHost, l.Host())
	}
	list, err := daemons.ListIn(c, l)
	why.Rule = fmt.Sprintf("%s is on the host %s, and a daemon on that host delivers the message", what, agent.Host)
	why.Fix = noAction + ". If the message is not delivered, check the daemon's log on " + agent.Host
	if !runsOn(list, agent.Host) {
		why.Rule = fmt.Sprintf("%s is on the host %s, but no daemon runs on that host, and no other host can deliver the message", what,
			agent.Host)
		why.Fix = fmt.Sprintf("Run `mailroom serve` on %s, or, %s", agent.Host, move)
	}
	return err
}

// runsOn reports whether one of the daemons in list runs on a host.
func runsOn(list []daemons.Daemon, host string) bool {
	return slices.ContainsFunc(list, func(d daemons.Daemon) bool { return d.Host == host })
}

// checkHosts finds hosts that agents belong to and on which no daemon runs.
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
			About: m.Host, Level: Note, Do: "If two machines have the same name, start the daemon on one of them with `--host-name NAME`",
			Says: fmt.Sprintf("a daemon with this host name (process %d) was seen at %s but does not run on this machine. The daemon was killed, or another machine has the same name",
				m.PID, m.SeenAt),
		})
	}
	for _, host := range slices.Sorted(maps.Keys(of)) {
		f := Finding{
			About: host, Level: Problem, Says: "No daemon runs on " + host, Because: "no other host can deliver to " +
				strings.Join(of[host], ", "),
			Do: "Run `mailroom serve` on " + host + ", or move the agents with `mailroom agent add NAME --host " + x.l.Host() + "`",
		}
		switch {
		case runsOn(x.daemons, host):
			f = Finding{About: host, Level: Fine, Says: "a daemon runs on this host for " + orchestrator.Plural(len(of[host]),
				"agent")}
		case host == x.l.Host(): // without a daemon, this host delivers by hand
			f.Level, f.Do = Note, "Run `mailroom serve`"
		}
		x.add(f)
	}
	return nil
}

// passwords finds agents whose commands cannot use the database, because they do not inherit the password that this
// process was given. It tests this by logging in to the server without that password.
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
		do := "Store the password in ~/.pgpass"
		if os.Getenv("PGPASSWORD") != "" {
			do += ", or pass PGPASSWORD to the commands with `mailroom agent add NAME --pass-env '*,PGPASSWORD'`"
		}
		d.Report("passwords", Note,
			fmt.Sprintf("the commands of %s cannot log in to the server when they run `mailroom`, because they get neither PGPASSWORD nor an address with a password: %v",
				strings.Join(locked, ", "), refusal), do)
	}
	return nil
}
