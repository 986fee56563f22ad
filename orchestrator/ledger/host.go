package ledger

import (
	"strings"

	"mailroom/orchestrator"
)

// A database on a server is used by many hosts, and some agents belong to one of them: their messages go into its files or to its
// commands. agents.host names it. Only its processes deliver to them, and start their sessions; in a file the column says nothing.

// locate notes in a configuration which agents are on other hosts.
func (l *Ledger) locate(conf *Config) {
	if !l.central {
		return
	}
	for _, a := range conf.Agents {
		if a.Host == "" || a.Host == l.host {
			continue
		}
		a.away = true
		a.elsewhere = l.isRooted(a.Deliver) || l.SetTransport(a) == nil && l.isRooted(a.Fallback)
		conf.Elsewhere = conf.Elsewhere || a.elsewhere
	}
}

// NeedsHost reports whether an agent has a file or a command, or something else that is on one machine.
func (l *Ledger) NeedsHost(a *Agent) bool {
	return a.StartCommand != "" || l.isRooted(a.Deliver) || l.isRooted(a.Fallback)
}

// isRooted reports whether a target leads to something that is on one machine.
func (l *Ledger) isRooted(target string) bool {
	transport, address := l.TransportOf(target)
	rooted, ok := transport.(orchestrator.Rooted)
	return ok && rooted.IsRooted(address)
}

// IsHostName reports whether a text can name a host: letters, digits, dots, - and _, at most 253.
func IsHostName(name string) bool {
	return name != "" && len(name) <= 253 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == ""
}
