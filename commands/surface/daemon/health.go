package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"mailroom/commands/surface/listener"
	"mailroom/orchestrator/ledger"
)

// readyWithin is how long /readyz waits for the database.
const readyWithin = 2 * time.Second

// healthy always answers 200.
func healthy(rw http.ResponseWriter, _ *http.Request) { fmt.Fprintln(rw, "ok") }

// readiness answers 200 if the database can be read and written, and otherwise 503 with the error.
func readiness(l *ledger.Ledger, log *slog.Logger) http.Handler {
	seen := &glance[struct{}]{
		log: log, within: readyWithin,
		look: func(ctx context.Context) (struct{}, error) { return struct{}{}, l.Ready(ctx) },
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if _, err := seen.get(r.Context()); err != nil {
			listener.WriteFailure(rw, http.StatusServiceUnavailable, err)
			return
		}
		fmt.Fprintln(rw, "ok")
	})
}
