package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"mailroom/orchestrator"
)

// glance is a look at the database for whoever asks over HTTP. However many ask at once, one look is under way; they
// share its outcome, and nobody waits for it longer than within, even when the database does not come back. Safe for
// concurrent use.
type glance[T any] struct {
	name   string
	log    *slog.Logger
	look   func(ctx context.Context) (T, error)
	keep   time.Duration // how old an outcome may be that is handed out without looking again; 0: look always
	within time.Duration

	mu   sync.Mutex
	last *outcome[T]   // nil until the first look has ended
	now  chan struct{} // closed when the look under way ends; nil when none is
}

// outcome is what a look saw, and when it ended.
type outcome[T any] struct {
	value T
	err   error
	at    time.Time
}

// get looks, or takes what another has just seen. Errors: those of the look; busy when it takes too long or ctx ends.
func (g *glance[T]) get(ctx context.Context) (value T, err error) {
	g.mu.Lock()
	if g.last != nil && time.Since(g.last.at) < g.keep {
		defer g.mu.Unlock()
		return g.last.value, g.last.err
	}
	if g.now == nil {
		g.begin()
	}
	now := g.now
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, g.within)
	defer cancel()
	select {
	case <-now:
	case <-ctx.Done():
		return value, &orchestrator.Error{Code: orchestrator.Busy, Message: "the database does not answer", Err: ctx.Err()}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last.value, g.last.err
}

// begin starts a look. The caller holds mu.
func (g *glance[T]) begin() {
	now := make(chan struct{})
	g.now = now
	orchestrator.GoSafe(g.name, g.log, func() {
		seen := &outcome[T]{err: errors.New("a look at the database panicked; see the log")}
		defer func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			seen.at = time.Now()
			g.last, g.now = seen, nil
			close(now)
		}()
		ctx, cancel := context.WithTimeout(context.Background(), g.within)
		defer cancel()
		seen.value, seen.err = g.look(ctx)
	})
}
