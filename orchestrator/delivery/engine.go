// Package delivery hands messages over: it adopts what others wrote, claims, delivers through transports, settles, retries, and
// gives up. An Engine does so; the other functions keep nothing.
package delivery

import (
	"context"
	"sync"
	"time"

	"mailroom/orchestrator/ledger"
)

// Engine delivers what is due in a database. It is safe for concurrent use; several may deliver from the same database, in
// this process and in others.
type Engine struct {
	*ledger.Ledger

	// Beside opens another database, of the caller's own, with the same transports, clock and log. It is not asked whether it
	// is trusted, and nothing is kept of it.
	Beside func(ctx context.Context, path string) (*Engine, error)

	mu            sync.Mutex
	lookedForDead time.Time // leases of dead processes
	workers       sync.WaitGroup
	delivering    map[string]int           // workers by the recipient that they deliver to
	seats         map[string]chan struct{} // by scheme: bounds the workers that deliver through a transport at the same time
}

// maxWorkers bounds the workers of one process that deliver through one transport at the same time, and so the files,
// connections and processes that it has for them. Each transport has its own: commands that take their time delay no file.
const maxWorkers = 256

// NewEngine returns an engine for a database.
func NewEngine(l *ledger.Ledger) *Engine {
	e := &Engine{Ledger: l, delivering: map[string]int{}, seats: map[string]chan struct{}{}}
	for scheme := range l.Transports {
		e.seats[scheme] = make(chan struct{}, maxWorkers)
	}
	return e
}

// Drain waits for deliveries under way. No new ones may be asked for meanwhile.
func (e *Engine) Drain() { e.workers.Wait() }

// Close waits for deliveries under way, then closes the database. Nothing may be called afterwards.
func (e *Engine) Close() error {
	e.workers.Wait()
	return e.Ledger.Close()
}
