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

// readyWithin bounds how long /readyz waits for the database.
const readyWithin = 2 * time.Second

// healthy answers 200 as long as the process serves at all.
func healthy(rw http.ResponseWriter, _ *http.Request) { fmt.Fprintln(rw, "ok") }

// readiness answers 200 when the database can be read and written, otherwise 503 and why.
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
