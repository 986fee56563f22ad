package ledger

import (
	"strings"

	"mailroom/orchestrator"
)

// A database on a server is used by many hosts, and some agents belong to one of them: their messages go into its files
// or to its commands. agents.host names it. Only its processes deliver to them, and start their sessions; in a file the
// column says nothing.

// locate notes in a configuration which agents are on other hosts.
func locate(l *Ledger, conf *Config) {
	if !l.central {
		return
	}
	conf.Agents[orchestrator.User].Host = conf.Settings.SignalHost
	for _, a := range conf.Agents {
		if a.Host == "" || a.Host == l.host {
			continue
		}
		a.away = true
		a.elsewhere = isRooted(l, a.Deliver) || l.SetTransport(a) == nil && isRooted(l, a.Fallback)
		conf.Elsewhere = conf.Elsewhere || a.elsewhere
	}
}

// NeedsHost reports whether an agent has a file or a command, or something else that is on one machine.
func NeedsHost(l *Ledger, a *Agent) bool {
	return a.StartCommand != "" || isRooted(l, a.Deliver) || isRooted(l, a.Fallback)
}

// isRooted reports whether a target leads to something that is on one machine.
func isRooted(l *Ledger, target string) bool {
	transport, address := l.TransportOf(target)
	of, ok := transport.(rooted)
	return ok && of.IsRooted(address)
}

// rooted is a Transport of which some addresses belong to a machine: its files, its programs, or what only it can
// reach. Only that machine can deliver there.
type rooted interface {
	// IsRooted reports whether an address in canonical form does.
	IsRooted(address string) bool
}

// IsHostName reports whether a text can name a host: letters, digits, dots, - and _, at most 253.
func IsHostName(name string) bool {
	return name != "" && len(name) <= 253 &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == ""
}
