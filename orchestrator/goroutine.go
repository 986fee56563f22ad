package orchestrator

import (
	"log/slog"
	"runtime/debug"
)

// goSafe starts a goroutine that logs a panic instead of ending the process with status 2, which hosts of agents read as
// "block".
func goSafe(name string, log *slog.Logger, f func()) {
	go func() {
		defer func() {
			if p := recover(); p != nil {
				log.Error("a goroutine panicked", "goroutine", name, "panic", p, "stack", string(debug.Stack()))
			}
		}()
		f()
	}()
}
