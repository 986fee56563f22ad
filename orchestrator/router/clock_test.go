package router_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store/postgres"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// onHost opens the engine of a host with a wrong clock.
func onHost(t *testing.T, address string, ahead time.Duration) (*delivery.Engine, *enginetest.Scripted) {
	t.Helper()
	wire := &enginetest.Scripted{}
	o := onServer(address, wire)
	l := ledger.New(o, nil)
	s, err := postgres.Open(postgres.Options{
		DSN: address, Log: o.Log, BusyTimeout: l.Busy, Begin: l.Begin, End: l.End,
		Now: func() time.Time { return time.Now().Add(ahead) },
	})
	if err != nil {
		t.Fatal(err)
	}
	l.UseStore(s)
	e := delivery.NewEngine(l)
	t.Cleanup(func() { e.Close() })
	return e, wire
}

// TestWrongClocks checks that a host with a wrong clock uses the server's clock: it does not deliver early, does not
// sleep too long, and does not write wrong times.
func TestWrongClocks(t *testing.T) {
	t.Parallel()
	address := postgrestest.Place(postgrestest.Start(t))
	right, _ := scene(t, address)
	for _, ahead := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
		e, wire := onHost(t, address, ahead)
		due := time.Now().Add(3 * time.Second)
		sent, err := messages.Send(t.Context(), e.Ledger,
			orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note", NotBefore: due})
		if err != nil {
			t.Fatal(err)
		}
		list, err := messages.Find(t.Context(), right.Ledger, sent.MessageID)
		if err != nil || len(list) != 1 || time.Since(orchestrator.ParseStamp(list[0].CreatedAt)).Abs() > time.Minute {
			t.Errorf("%s ahead: a message of now is dated %+v, %v", ahead, list, err)
		}
		rings, stop, err := delivery.Wakeups(t.Context(), e.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		late := time.After(time.Minute)
		for len(wire.IDs()) == 0 {
			if _, err := e.DeliverAll(t.Context(), delivery.Options{}); err != nil {
				t.Fatal(err)
			}
			if len(wire.IDs()) > 0 {
				if time.Now().Add(time.Second).Before(due) {
					t.Errorf("%s ahead: delivered early", ahead)
				}
				break
			}
			select {
			case <-rings:
			case <-late:
				t.Fatalf("%s ahead: not delivered in time", ahead)
			}
		}
		stop()
		want.Equal(t, "arrived", strings.Join(wire.IDs(), " "), sent.MessageID)
	}
}
