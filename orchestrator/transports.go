package orchestrator

import "strings"

// transportOf finds the transport of a target such as "jsonl:/path" and the address in it.
func (r *Router) transportOf(target string) (Transport, string) {
	scheme, address, _ := strings.Cut(target, ":")
	return r.transports[scheme], address
}

// setTransport returns the agent's transport if that is a table, else nil.
func (r *Router) setTransport(a *Agent) SetTransport {
	scheme, _, _ := strings.Cut(a.Deliver, ":")
	set, _ := r.transports[scheme].(SetTransport)
	return set
}

// inbox returns the transport by which a recipient reads, nil if this program has none.
func (r *Router) inbox() SetTransport {
	set, _ := r.transports["inbox"].(SetTransport)
	return set
}
