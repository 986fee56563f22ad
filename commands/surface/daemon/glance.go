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

// glance reads data from the database for HTTP clients. Concurrent requests share one read and its result, and none
// waits longer than within, even if the database does not respond. glance is safe for concurrent use.
type glance[T any] struct {
	log    *slog.Logger
	look   func(ctx context.Context) (T, error)
	keep   time.Duration // maximum age of a result that is used again; 0: always read
	within time.Duration

	looks singleflight.Group
	last  T // the last result; only one read runs at a time
	err   error
	at    time.Time
}

// get returns the result of a new read, or a recent result. It returns the error of the read, or busy if the read
// takes too long or ctx ends.
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

// again reads the data, unless the last result is recent enough.
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
