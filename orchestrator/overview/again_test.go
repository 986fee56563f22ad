package overview_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/schedules"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/threads"
)

// again is a store that loses the connection at the end of each read transaction, so that each reader runs twice,
// with another change in between.
type again struct {
	store.Store
	between func()
}

func (s again) Read(ctx context.Context, fn func(c *store.Conn) error) error {
	if err := s.Store.Read(ctx, fn); err != nil {
		return err
	}
	s.between()
	return s.Store.Read(ctx, fn)
}

// TestReadersRunAgain checks that a reader that runs again, because its connection was lost, returns the new state
// and nothing of the old one.
func TestReadersRunAgain(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(ctx context.Context, l *ledger.Ledger) (any, error){
		"poll":     func(ctx context.Context, l *ledger.Ledger) (any, error) { return delivery.Poll(ctx, l, "b", 9) },
		"sessions": func(ctx context.Context, l *ledger.Ledger) (any, error) { return sessions.New(l).Look(ctx) },
		"dead letters": func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return messages.CountForReplay(ctx, l, messages.DeadLetterFilter{Limit: 9})
		},
		"runs": func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return schedules.LastRuns(ctx, l, []orchestrator.Schedule{{Name: "often", Command: "deliver_all"}})
		},
		"threads": func(ctx context.Context, l *ledger.Ledger) (any, error) { return threads.List(ctx, l, []string{"t"}) },
		"status":  func(ctx context.Context, l *ledger.Ledger) (any, error) { return overview.Status(ctx, l) },
		"attempts": func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return overview.AttemptsAfter(ctx, l, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := full(t)
			st := f.Ledger.Store
			ask := func() string {
				t.Helper()
				got, err := read(t.Context(), f.Ledger)
				if err != nil {
					t.Fatal(err)
				}
				text, err := json.Marshal(got)
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			before, gone := ask(), false
			f.Ledger.Store = again{st, func() {
				if !gone {
					gone = true
					empty(f)
				}
			}}
			second := ask()
			f.Ledger.Store = st
			after := ask()
			want.Equal(t, "the second run", second, after)
			if before == after {
				t.Errorf("nothing has changed between: %s", after)
			}
		})
	}
}

// full returns an engine with some data of every kind that is read.
func full(t *testing.T) *enginetest.Fixture {
	f := enginetest.New(t, "a", "b")
	starts := "true"
	if _, _, err := agents.Add(t.Context(), f.Ledger, agents.Update{Name: "s", StartCommand: &starts}); err != nil {
		t.Fatal(err)
	}
	f.Send("a", "s")
	f.AddWired("w")
	f.Wire.Set(enginetest.Failing("down"))
	f.Send("a", "w")
	f.Deliver()
	for _, s := range []string{
		`INSERT INTO agent_message (message_id, sender, recipient, payload, status, traced_status, seq)
			VALUES ('dead', 'a', 'b', '1', 'failed', 'failed', 1000)`,
		`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('by hand', 'a', ' B', '1')`,
		`INSERT INTO agent_message (message_id, sender, recipient, payload, status) VALUES ('odd', 'a', 'b', '1', 'odd')`,
		`INSERT INTO threads (thread_id, session_id, name, creator, created_at)
			VALUES ('t', 's', 'n', 'a', '2026-01-01T00:00:00.000Z')`,
		`INSERT INTO command_trace (trace_id, span_id, name, kind, started_at, ended_at, status)
			VALUES ('1', '1', 'deliver_all', 'INTERNAL', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', 'OK')`,
	} {
		f.SQL(s)
	}
	return f
}

// empty removes most of the data, and advances the clock until something is due.
func empty(f *enginetest.Fixture) {
	f.Clock.Advance(time.Minute)
	for _, table := range []string{"agent_message", "agent_inbox", "threads", "command_trace", "message_trace"} {
		f.SQL(`DELETE FROM ` + table)
	}
}
