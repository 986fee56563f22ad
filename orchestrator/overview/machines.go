package overview

import (
	"fmt"
	"slices"
	"strings"

	"mailroom/orchestrator"
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
	running, err := daemonsOn(c, l, agent.Host)
	why.Rule = fmt.Sprintf("%s is on the host %s, where a daemon takes it", what, agent.Host)
	why.Fix = "Nothing; if it does not move, look at the daemon's log on " + agent.Host
	if !running {
		why.Rule = fmt.Sprintf("no router on host %s: %s is there, and no other host can deliver to it", agent.Host, what)
		why.Fix = fmt.Sprintf("`mailroom serve` on %s; or %s", agent.Host, move)
	}
	return err
}

// daemonsOn reports whether a daemon runs on a host.
func daemonsOn(c *store.Conn, l *ledger.Ledger, host string) (bool, error) {
	list, err := daemons.ListIn(c, l.Now())
	return slices.ContainsFunc(list, func(d daemons.Daemon) bool { return d.Host == host }), err
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
	for _, host := range hosts {
		running, err := daemonsOn(c, d.ledger, host)
		if err != nil {
			return err
		}
		names := of[host]
		if running {
			d.add("host "+host, "ok", "a daemon runs there, for "+orchestrator.Plural(len(names), "agent"), "")
			continue
		}
		level := "problem"
		if host == d.ledger.Host() { // whoever works without a daemon delivers by hand
			level = "note"
		}
		d.add("host "+host, level, fmt.Sprintf("no daemon runs there, and no other host delivers to %s", strings.Join(names, ", ")),
			"`mailroom serve` on "+host+"; or move them: `mailroom agent add NAME --host "+d.ledger.Host()+"`")
	}
	return nil
}
