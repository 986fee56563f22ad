package overview

import (
	"context"
	"fmt"
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
	move := fmt.Sprintf("`mailroom agent add %s --host %s`, if its files and commands are here now", agent.Name, l.Host())
	if agent.BuiltIn {
		what, move = "signal, which asks and tells the user,", fmt.Sprintf("`mailroom setting set %s %s`, if it is to be served here", ledger.SignalHost, l.Host())
	}
	running, err := hostsWithDaemons(c, l)
	why.Rule = fmt.Sprintf("%s is on the host %s, where a daemon takes it", what, agent.Host)
	why.Fix = "Nothing; if it does not move, look at the daemon's log on " + agent.Host
	if !running[agent.Host] {
		why.Rule = fmt.Sprintf("no router on host %s: %s is there, and no other host can deliver to it", agent.Host, what)
		why.Fix = fmt.Sprintf("`mailroom serve` on %s; or %s", agent.Host, move)
	}
	return err
}

// hostsWithDaemons returns the hosts on which a daemon runs.
func hostsWithDaemons(c *store.Conn, l *ledger.Ledger) (map[string]bool, error) {
	hosts := map[string]bool{}
	list, err := daemons.ListIn(c, l)
	for _, d := range list {
		hosts[d.Host] = true
	}
	return hosts, err
}

// machines tells of hosts to which agents belong, and on which no daemon runs. It says nothing where no agent belongs to any.
func (d *doctor) machines(c *store.Conn, conf *ledger.Config) error {
	if !d.ledger.IsCentral() {
		return nil
	}
	of := map[string][]string{}
	var hosts []string
	for _, name := range append([]string{orchestrator.User}, conf.Names...) {
		if host := conf.Agents[name].Host; host != "" {
			if of[host] == nil {
				hosts = append(hosts, host)
			}
			of[host] = append(of[host], name)
		}
	}
	slices.Sort(hosts)
	missing, err := daemons.Missing(c, d.ledger)
	for _, m := range missing {
		d.addHost(m.Host, "note", fmt.Sprintf("a daemon of that name, process %d, was seen at %s and is not on this machine: it was killed since, or another machine has the same name", m.PID, m.SeenAt),
			"Give one of two machines another name: --host-name NAME")
	}
	if err != nil {
		return err
	}
	running, err := hostsWithDaemons(c, d.ledger)
	for _, host := range hosts {
		names := of[host]
		if running[host] {
			d.addHost(host, "ok", "a daemon runs there, for "+orchestrator.Plural(len(names), "agent"), "")
			continue
		}
		says := "no daemon runs there, and no other host delivers to " + strings.Join(names, ", ")
		if host == d.ledger.Host() { // whoever works without a daemon delivers by hand
			d.addHost(host, "note", says, "`mailroom serve`")
			continue
		}
		d.addHost(host, "problem", says, "`mailroom serve` on "+host+"; or move them: `mailroom agent add NAME --host "+d.ledger.Host()+"`")
	}
	return err
}

// passwords looks for agents whose commands cannot use the database by themselves, since they do not get the password that this
// process was given. It logs in to the server without that password.
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
		d.add("passwords", "note", fmt.Sprintf("`mailroom` in the commands of %s is not let in, since it gets neither PGPASSWORD nor the password of an address: %v",
			strings.Join(locked, ", "), refusal), do)
	}
	return nil
}
