package store

import (
	"context"
	"errors"
	"time"

	"mailroom/orchestrator"
)

// Job is work of the store itself within a write transaction. It wakes nobody.
type Job func(t *Transaction) error

// Prepare does nothing.
func (j Job) Prepare(*Transaction) error { return nil }

// Run does the job.
func (j Job) Run(t *Transaction) error { return j(t) }

// Quiet returns false, since the caller of the job needs its outcome.
func (j Job) Quiet() bool { return false }

// Lazy returns false, since the job waits for the disk.
func (j Job) Lazy() bool { return false }

// Rings returns an empty Ring.
func (j Job) Rings() *Ring { return &Ring{} }

// Durable does nothing.
func (j Job) Durable() {}

// LockPatience is how long IsLocked waits for its turn to write. It is many times the duration of a transaction.
const LockPatience = 2 * time.Second

// IsLocked reports whether another program's transaction keeps everybody else from writing. It tries to begin a
// write transaction, and reports the finding "ok" if it can. Other causes that prevent writing are found by other
// checks.
func IsLocked(ctx context.Context, write func(q *Request) error, report Report) bool {
	short, cancel := context.WithTimeout(ctx, LockPatience)
	defer cancel()
	looked := errors.New("looked") // this error rolls the transaction back
	err := write(&Request{Ctx: short, Scope: Shared, Work: Job(func(*Transaction) error { return looked })})
	if errors.Is(err, looked) {
		report("lock", Fine, "no program blocks other writers", "")
	}
	return orchestrator.CodeOf(err) == orchestrator.Busy && ctx.Err() == nil
}
