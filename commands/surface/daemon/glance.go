package daemon

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"golang.org/x/sync/singleflight"

	"mailroom/orchestrator"
)

// glance reads something of the database for whoever asks over HTTP. However many ask at once, it is read once; they
// share the outcome, and none waits for it longer than within, even when the database does not come back. Safe for
// concurrent use.
type glance[T any] struct {
	log    *slog.Logger
	look   func(ctx context.Context) (T, error)
	keep   time.Duration // how old an outcome may be that is handed out without looking again; 0: look always
	within time.Duration

	looks singleflight.Group
	last  T // what was seen last, by the one look that is under way at a time
	err   error
	at    time.Time
}

// get looks, or takes what another has just seen. Errors: those of the look; busy when it takes too long or ctx ends.
func (g *glance[T]) get(ctx context.Context) (value T, err error) {
	ctx, cancel := context.WithTimeout(ctx, g.within)
	defer cancel()
	select {
	case seen := <-g.looks.DoChan("", g.again):
		return seen.Val.(T), seen.Err
	case <-ctx.Done():
		return value, &orchestrator.Error{Code: orchestrator.Busy, Message: "the database does not respond",
			Err: ctx.Err()}
	}
}

// again looks, unless what was seen last is new enough.
func (g *glance[T]) again() (seen any, err error) {
	if !g.at.IsZero() && time.Since(g.at) < g.keep {
		return g.last, g.err
	}
	defer func() {
		if p := recover(); p != nil {
			g.log.Error("panic while reading the database; this is a bug", "panic", p, "stack", string(debug.Stack()))
			g.err = errors.New("panic while reading the database; see the log")
		}
		g.at, seen, err = time.Now(), g.last, g.err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), g.within)
	defer cancel()
	g.last, g.err = g.look(ctx)
	return
}
