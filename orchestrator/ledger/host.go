package ledger

import (
	"strings"

	"mailroom/orchestrator"
)

// A database on a server is used by many hosts. Some agents belong to one of these hosts, because their messages go
// into its files or to its commands. The column agents.host names that host. Only processes on that host deliver to
// such agents and start their sessions. In a database file the column has no meaning.

// locate marks the agents in a configuration that are on other hosts.
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

// NeedsHost reports whether an agent uses a file, a command or another resource of one machine.
func NeedsHost(l *Ledger, a *Agent) bool {
	return a.StartCommand != "" || isRooted(l, a.Deliver) || isRooted(l, a.Fallback)
}

// isRooted reports whether a target refers to a resource of one machine.
func isRooted(l *Ledger, target string) bool {
	transport, address := l.TransportOf(target)
	of, ok := transport.(rooted)
	return ok && of.IsRooted(address)
}

// rooted is a Transport with addresses that belong to one machine: its files, its programs, or what only it can
// reach. Only that machine can deliver there.
type rooted interface {
	// IsRooted reports whether an address, in canonical form, belongs to one machine.
	IsRooted(address string) bool
}

// IsHostName reports whether a text can be the name of a host: 1 to 253 letters, digits, dots, hyphens and
// underscores.
func IsHostName(name string) bool {
	return name != "" && len(name) <= 253 &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == ""
}
