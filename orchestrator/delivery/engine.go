// Package delivery delivers messages: it claims due messages, delivers them through transports, records the outcomes,
// retries failed deliveries, and finally gives up.
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

// Engine is an open database that can deliver. Package router opens one. It is safe for concurrent use. Other engines
// may have the same database open, in this process and in others.
type Engine struct {
	*ledger.Ledger

	// OpenOther opens another database of the caller with the same transports, clock and log. It does not check
	// whether that database is trusted, and records nothing about it.
	OpenOther func(ctx context.Context, path string) (*Engine, error)

	calm calm
	lent bool

	mu            sync.Mutex
	lookedForDead time.Time // last check for leases of dead processes
	workers       sync.WaitGroup
	delivering    map[string]int           // number of workers by recipient
	seats         map[string]chan struct{} // by scheme: limits the workers that use a transport at the same time
}

// maxWorkers is the maximum number of workers of one process that deliver through one transport at the same time. It
// limits the files, connections and processes that they use. Each transport has its own limit, so that slow commands
// do not delay deliveries to files.
const maxWorkers = 256

// NewEngine returns an engine for an open database.
func NewEngine(l *ledger.Ledger) *Engine {
	e := &Engine{Ledger: l, delivering: map[string]int{}, seats: map[string]chan struct{}{}}
	for scheme := range l.Transports {
		e.seats[scheme] = make(chan struct{}, maxWorkers)
	}
	return e
}

// Drain waits for deliveries in progress. No new deliveries may be started meanwhile.
func (e *Engine) Drain() { e.workers.Wait() }

// Lend returns an engine for the same open database whose Close leaves the database open. It must not be used after e
// is closed.
func (e *Engine) Lend() *Engine {
	lent := NewEngine(e.Ledger)
	lent.OpenOther, lent.lent = e.OpenOther, true
	return lent
}

// Close waits for deliveries in progress, then closes the database. The engine must not be used afterwards.
func (e *Engine) Close() error {
	e.workers.Wait()
	if e.lent {
		return nil
	}
	return e.Ledger.Close()
}

// takeSlot takes a slot for a worker of a recipient if the recipient's transport limits concurrent attempts, and
// returns nil if it does not. Error: ErrNoSlot, or the reason why no slot can exist.
func takeSlot(ctx context.Context, l *ledger.Ledger, recipient string) (orchestrator.Slot, error) {
	conf, err := l.Configuration(ctx)
	if err != nil || conf.Agents[recipient] == nil {
		return nil, err
	}
	return slotFor(l, conf.Agents[recipient])
}

// slotFor takes a slot for a worker of an agent, with the results of takeSlot. It returns nil if the agent's
// transport is disabled, withheld or on another host.
func slotFor(l *ledger.Ledger, agent *ledger.Agent) (orchestrator.Slot, error) {
	transport, _ := l.TransportOf(agent.Deliver)
	slotted, ok := transport.(orchestrator.Slotted)
	if !ok || agent.Disabled != "" || agent.Withheld() || agent.Elsewhere() {
		return nil, nil
	}
	return slotted.Slot(l.FilePrefix(), agent.Name, max(agent.Concurrency, 1))
}

// SlotsTaken reports whether as many attempts are in progress as the agent allows.
func SlotsTaken(l *ledger.Ledger, agent *ledger.Agent) bool {
	slot, err := slotFor(l, agent)
	if slot != nil {
		slot.Release()
	}
	return errors.Is(err, orchestrator.ErrNoSlot)
}

// workersOf returns how many workers may deliver to an agent at the same time, and the channel that limits the
// workers of its transport. More than one worker is useful only if the transport limits its concurrent attempts. A
// nil agent stands for a recipient that is not an agent.
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
