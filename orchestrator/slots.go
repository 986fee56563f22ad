package orchestrator

import (
	"context"
	"errors"
	"strings"
)

// takeSlot takes a slot for a worker of a recipient, if its transport bounds the attempts that are made at a time; nil if it
// does not. Error: ErrNoSlot, or that there cannot be one.
func (r *Router) takeSlot(ctx context.Context, recipient string) (Slot, error) {
	conf, err := r.configuration(ctx)
	if err != nil {
		return nil, err
	}
	agent := conf.agents[recipient]
	if agent == nil {
		return nil, nil
	}
	return r.slotFor(agent)
}

// slotFor is takeSlot for an agent that is known to have the name.
func (r *Router) slotFor(agent *Agent) (Slot, error) {
	transport, _ := r.transportOf(agent.Deliver)
	slotted, ok := transport.(Slotted)
	if !ok || agent.Disabled != "" || agent.Withheld() {
		return nil, nil
	}
	return slotted.Slot(r.Path(), agent.Name, max(agent.Concurrency, 1))
}

// slotsTaken reports whether no slot of an agent can be had now.
func (r *Router) slotsTaken(agent *Agent) bool {
	slot, err := r.slotFor(agent)
	if slot != nil {
		slot.Release()
	}
	return errors.Is(err, ErrNoSlot)
}

// workersOf is how many workers may deliver to a recipient at the same time, and what bounds those of its transport. More
// than one are of use only where a transport says how many attempts it makes at a time.
func (e *Engine) workersOf(ctx context.Context, recipient string) (allowed int, seats chan struct{}) {
	conf, err := e.configuration(ctx)
	if err != nil {
		return 1, nil
	}
	agent := conf.agents[recipient]
	if agent == nil {
		return 1, nil
	}
	scheme, _, _ := strings.Cut(agent.Deliver, ":")
	if _, slotted := e.transports[scheme].(Slotted); slotted {
		return max(agent.Concurrency, 1), e.seats[scheme]
	}
	return 1, e.seats[scheme]
}
