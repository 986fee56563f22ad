package exports

import (
	"fmt"
	"testing"
	"time"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// TestSentBesideWriters checks that, on a server, the events and commands of a transaction that began first and
// commits last are sent too. Ids of undone transactions do not count as deleted rows.
func TestSentBesideWriters(t *testing.T) {
	t.Parallel()
	address := postgrestest.Place(postgrestest.Start(t))
	engine := enginetest.OpenWith(t,
		ledger.Options{Path: address, Bell: store.NewLocalBell(), BusyTimeout: time.Minute})
	if _, err := engine.Store.Create(); err != nil {
		t.Fatal(err)
	}
	r := newReceiver(t)
	e := exporterOf(engine.Ledger, r)
	r.drain(e) // the transaction has begun
	slow, fast := postgrestest.Connect(t, address), postgrestest.Connect(t, address)
	write := func(s *postgrestest.Session, n int) {
		s.Run(fmt.Sprintf(`INSERT INTO message_trace (message_id, at, event)
			VALUES ('m%[1]d', '2026-01-01T00:00:00.000Z', 'created');
			INSERT INTO command_trace (trace_id, span_id, name, kind, started_at, ended_at)
			VALUES ('%032[1]d', '%016[1]d', 'send', 'INTERNAL', '2026-01-01T00:00:00.000Z',
				'2026-01-01T00:00:00.000Z')`, n))
	}
	slow.Begin()
	write(slow, 1)
	slow.Run("ROLLBACK")
	slow.Begin()
	write(slow, 2)
	fast.Begin()
	write(fast, 3)
	fast.Run("COMMIT")
	r.drain(e)
	want.Equal(t, "spans beside an open transaction", len(r.spans()), 0)
	slow.Run("COMMIT")
	r.drain(e)
	want.Equal(t, "spans", len(r.spans()), 4)
	want.Equal(t, "missed", e.at.missed, 0)
}
