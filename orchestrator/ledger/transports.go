package ledger

import (
	"strings"

	"mailroom/orchestrator"
)

// TransportOf finds the transport of a target such as "jsonl:/path" and the address in it.
func (l *Ledger) TransportOf(target string) (orchestrator.Transport, string) {
	scheme, address, _ := strings.Cut(target, ":")
	return l.Transports[scheme], address
}

// SetTransport returns the agent's transport if that is a table, else nil.
func (l *Ledger) SetTransport(a *Agent) orchestrator.SetTransport {
	scheme, _, _ := strings.Cut(a.Deliver, ":")
	set, _ := l.Transports[scheme].(orchestrator.SetTransport)
	return set
}

// Inbox returns the transport by which a recipient reads, nil if this program has none.
func (l *Ledger) Inbox() orchestrator.SetTransport {
	set, _ := l.Transports["inbox"].(orchestrator.SetTransport)
	return set
}
