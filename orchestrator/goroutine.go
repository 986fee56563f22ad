package orchestrator

import (
	"cmp"
	"context"
	"log/slog"
	"runtime/debug"
)

// GoSafe runs f in a new goroutine. If f panics, GoSafe logs the panic with its stack, and only f ends. An
// unrecovered panic would end the program with status 2, which Mailroom never uses; therefore all goroutines of the
// program start here. Cleanup that must happen in any case (closing a channel, releasing a lock) belongs in f's own
// deferred calls. A nil log means slog.Default().
func GoSafe(name string, log *slog.Logger, f func()) {
	go func() {
		defer func() {
			if p := recover(); p != nil {
				cmp.Or(log, slog.Default()).Error("a goroutine panicked; this is a bug", "goroutine", name, "panic", p,
					"stack", string(debug.Stack()))
			}
		}()
		f()
	}()
}

// Background runs f in a new goroutine and recovers its panics, like GoSafe. The context of f ends when ctx ends or
// stop is called. Stop waits until f has returned.
func Background(ctx context.Context, name string, log *slog.Logger, f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	GoSafe(name, log, func() {
		defer close(done)
		f(ctx)
	})
	return func() {
		cancel()
		<-done
	}
}
