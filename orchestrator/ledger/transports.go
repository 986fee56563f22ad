package ledger

import (
	"strings"

	"mailroom/orchestrator"
)

// TransportOf returns the transport of a target such as "jsonl:/path", and the address in it. The transport is nil if this
// program has none of that scheme.
func (l *Ledger) TransportOf(target string) (orchestrator.Transport, string) {
	scheme, address, _ := strings.Cut(target, ":")
	return l.Transports[scheme], address
}

// SetTransport returns the transport of an agent if it delivers within the database, as that into inboxes does; nil otherwise.
func (l *Ledger) SetTransport(a *Agent) orchestrator.SetTransport {
	scheme, _, _ := strings.Cut(a.Deliver, ":")
	set, _ := l.Transports[scheme].(orchestrator.SetTransport)
	return set
}

// Inbox returns the transport into inboxes; nil if this program has none.
func (l *Ledger) Inbox() orchestrator.SetTransport {
	set, _ := l.Transports["inbox"].(orchestrator.SetTransport)
	return set
}
