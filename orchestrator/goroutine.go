package orchestrator

import (
	"cmp"
	"context"
	"log/slog"
	"runtime/debug"
)

// GoSafe starts f in a goroutine of its own. All goroutines of the program start here: a panic that nobody recovers
// ends the program with status 2, which Mailroom never uses, so a panic of f is logged with its stack and ends f alone.
// What f must leave behind in any case (a closed channel, a released lock) belongs in its own deferred calls. A nil log
// is slog.Default().
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

// Background starts f in a goroutine as GoSafe does. Its context ends with ctx, or when stop is called, which returns
// when f has ended.
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
