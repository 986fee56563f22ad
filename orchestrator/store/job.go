package store

import (
	"context"
	"errors"
	"time"

	"mailroom/orchestrator"
)

// Job is work that a store itself does within a write transaction. It wakes nobody.
type Job func(t *Transaction) error

// Prepare does nothing.
func (j Job) Prepare(*Transaction) error { return nil }

// Run does the job.
func (j Job) Run(t *Transaction) error { return j(t) }

// Quiet reports false: whoever asked for the job learns how it ended.
func (j Job) Quiet() bool { return false }

// Lazy reports false: the job waits for the disk.
func (j Job) Lazy() bool { return false }

// Rings returns nobody.
func (j Job) Rings() *Ring { return &Ring{} }

// Durable does nothing.
func (j Job) Durable() {}

// LockPatience is how long IsLocked waits for its turn to write: many times what a transaction takes.
const LockPatience = 2 * time.Second

// IsLocked reports whether a transaction of somebody keeps all others from writing, which it finds out by beginning to
// write. If it can, it reports so. What else keeps from writing, other checks name.
func IsLocked(ctx context.Context, write func(q *Request) error, report Report) bool {
	short, cancel := context.WithTimeout(ctx, LockPatience)
	defer cancel()
	looked := errors.New("looked") // which undoes the transaction
	err := write(&Request{Ctx: short, Scope: Shared, Work: Job(func(*Transaction) error { return looked })})
	if errors.Is(err, looked) {
		report("lock", Fine, "no program blocks other writers", "")
	}
	return orchestrator.CodeOf(err) == orchestrator.Busy && ctx.Err() == nil
}
