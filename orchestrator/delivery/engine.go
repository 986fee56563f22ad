// Package delivery hands messages over: it claims what is due, delivers it through transports, notes the outcome,
// retries, and gives up in the end.
package delivery

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// Engine is an open database that can deliver. Package router opens one. It is safe for concurrent use; other engines
// may have the same database open, in this process and in others.
type Engine struct {
	*ledger.Ledger

	// OpenOther opens another database, of the caller's own, with the same transports, clock and log. It is not asked
	// whether it is trusted, and nothing is kept of it.
	OpenOther func(ctx context.Context, path string) (*Engine, error)

	calm calm
	lent bool

	mu            sync.Mutex
	lookedForDead time.Time // leases of dead processes
	workers       sync.WaitGroup
	delivering    map[string]int           // workers by the recipient that they deliver to
	seats         map[string]chan struct{} // by scheme: bounds the workers that deliver through a transport at the same time
}

// maxWorkers bounds the workers of one process that deliver through one transport at the same time, and so the files,
// connections and processes that it has for them. Each transport has its own: commands that take their time delay no
// file.
const maxWorkers = 256

// NewEngine returns an engine for an open database.
func NewEngine(l *ledger.Ledger) *Engine {
	e := &Engine{Ledger: l, delivering: map[string]int{}, seats: map[string]chan struct{}{}}
	for scheme := range l.Transports {
		e.seats[scheme] = make(chan struct{}, maxWorkers)
	}
	return e
}

// Drain waits for deliveries that are under way. Nobody may begin new ones meanwhile.
func (e *Engine) Drain() { e.workers.Wait() }

// Lend returns an engine of the same open database, whose Close leaves that open. It must not be used once e is closed.
func (e *Engine) Lend() *Engine {
	lent := NewEngine(e.Ledger)
	lent.OpenOther, lent.lent = e.OpenOther, true
	return lent
}

// Close waits for deliveries that are under way, then closes the database. The engine must not be used afterwards.
func (e *Engine) Close() error {
	e.workers.Wait()
	if e.lent {
		return nil
	}
	return e.Ledger.Close()
}

// takeSlot takes a slot for a worker of a recipient, if its transport bounds the attempts that are made at a time; nil
// if it does not. Error: ErrNoSlot, or that there cannot be one.
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
	if !ok || agent.Disabled != "" || agent.Withheld() || agent.Elsewhere() {
		return nil, nil
	}
	return slotted.Slot(l.FilePrefix(), agent.Name, max(agent.Concurrency, 1))
}

// SlotsTaken reports whether as many attempts are under way as the agent allows.
func SlotsTaken(l *ledger.Ledger, agent *ledger.Agent) bool {
	slot, err := slotFor(l, agent)
	if slot != nil {
		slot.Release()
	}
	return errors.Is(err, orchestrator.ErrNoSlot)
}

// workersOf returns how many workers may deliver to an agent at the same time, and what bounds those of its transport.
// More than one are of use only where a transport says how many attempts it makes at a time. nil is a recipient that is
// no agent.
func (e *Engine) workersOf(agent *ledger.Agent) (allowed int, seats chan struct{}) {
	if agent == nil {
		return 1, nil
	}
	scheme, _, _ := strings.Cut(agent.Deliver, ":")
	if _, slotted := e.Transports[scheme].(orchestrator.Slotted); slotted {
		return max(agent.Concurrency, 1), e.seats[scheme]
	}
	return 1, e.seats[scheme]
}
