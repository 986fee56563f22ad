package delivery

import (
	"context"
	"errors"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// takeSlot takes a slot for a worker of a recipient, if its transport bounds the attempts that are made at a time; nil if it
// does not. Error: ErrNoSlot, or that there cannot be one.
func takeSlot(ctx context.Context, l *ledger.Ledger, recipient string) (orchestrator.Slot, error) {
	conf, err := l.Configuration(ctx)
	if err != nil || conf.Agents[recipient] == nil {
		return nil, err
	}
	return slotFor(l, conf.Agents[recipient])
}

// slotFor takes a slot for a worker of an agent, as takeSlot does.
func slotFor(l *ledger.Ledger, agent *ledger.Agent) (orchestrator.Slot, error) {
	transport, _ := l.TransportOf(agent.Deliver)
	slotted, ok := transport.(orchestrator.Slotted)
	if !ok || agent.Disabled != "" || agent.Withheld() {
		return nil, nil
	}
	return slotted.Slot(l.Path(), agent.Name, max(agent.Concurrency, 1))
}

// SlotsTaken reports whether as many attempts are under way as the agent allows.
func SlotsTaken(l *ledger.Ledger, agent *ledger.Agent) bool {
	slot, err := slotFor(l, agent)
	if slot != nil {
		slot.Release()
	}
	return errors.Is(err, orchestrator.ErrNoSlot)
}

// workersOf returns how many workers may deliver to a recipient at the same time, and what bounds those of its transport. More
// than one are of use only where a transport says how many attempts it makes at a time.
func (e *Engine) workersOf(ctx context.Context, recipient string) (allowed int, seats chan struct{}) {
	conf, err := e.Configuration(ctx)
	if err != nil || conf.Agents[recipient] == nil {
		return 1, nil
	}
	agent := conf.Agents[recipient]
	scheme, _, _ := strings.Cut(agent.Deliver, ":")
	if _, slotted := e.Transports[scheme].(orchestrator.Slotted); slotted {
		return max(agent.Concurrency, 1), e.seats[scheme]
	}
	return 1, e.seats[scheme]
}
