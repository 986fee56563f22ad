package postgres_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/exports"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/store"
	"mailroom/tracing/otlp"
)

// interleavingsOfHosts are operations that only the daemon of one host performs, although each could. The engines a
// and b belong to hosts with these names.
func interleavingsOfHosts() []interleaving {
	return []interleaving{
		both(interleaving{
			name: "two hosts start a session", byLock: true,
			set: func(s *scene) {
				three(s)
				s.Add(agents.Update{Name: "y", StartCommand: new("true"), Host: new("")})
				s.Send("x", "y")
				s.Deliver()
				for _, e := range []*delivery.Engine{s.a, s.b} {
					if err := daemons.Beat(s.ctx, e.Ledger, ""); err != nil {
						s.T.Fatal(err)
					}
				}
			},
			check: func(s *scene) {
				s.must(s.errA == nil && errors.Is(s.errB, orchestrator.ErrNoSlot), "a: %v, b: %v", s.errA, s.errB)
				s.must(len(s.got[0]) == 1 && len(s.got[1]) == 0, "%v", s.got)
				s.count(1, `SELECT 1 FROM agent_runs WHERE starts = 1 AND instance = 'a'`)
			},
		}, func(s *scene, e *delivery.Engine, n int) error {
			begun, err := sessions.New(e.Ledger).Begin(s.ctx, "y", "")
			if begun != nil {
				s.got[n] = append(s.got[n], begun.MessageID)
			}
			return err
		}),
		exportings(),
	}
}

// exportings makes two daemons take the lease under which one of them sends the traces.
func exportings() interleaving {
	taken := func(s *scene) bool { return len(s.rows(`SELECT 1 FROM exports`)) > 0 }
	return both(interleaving{
		name: "two hosts send the traces", byLock: true, set: three,
		check: func(s *scene) { s.fine(); s.count(1, `SELECT 1 FROM exports WHERE lease_owner = 'a'`) },
	}, func(s *scene, e *delivery.Engine, n int) error {
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
			_ *http.Request) {
			io.WriteString(w, "{}")
		}))
		defer receiver.Close()
		stop := exports.Start(s.ctx, e.Ledger, slog.New(slog.DiscardHandler),
			otlp.Options{URL: receiver.URL, Timeout: time.Minute}, false, "v0")
		defer stop()
		for !taken(s) && s.ctx.Err() == nil {
		}
		if n == 0 {
			<-s.doneB // otherwise the lease would be free
			return nil
		}
		// This statement comes after the one for which b waited.
		return e.Write(s.ctx, store.Shared, func(t *ledger.Tx) error { return t.Run(`DELETE FROM waits`) })
	})
}
