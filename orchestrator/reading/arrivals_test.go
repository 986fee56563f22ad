package reading_test

import (
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/transport"
)

// TestArrivals checks that each arrival is reported once, even if its id is older than that of a message that was
// read in the meantime: an id is made before the commit that makes the message visible.
func TestArrivals(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	bell := store.NewLocalBell() // only this test rings it
	r := enginetest.OpenWith(t, ledger.Options{
		Path: f.Path, Now: f.Clock.Now, Bell: bell,
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}},
	})
	send := func(id string) { f.Send("b", "a", func(d *orchestrator.Draft) { d.ID = id }) }
	send("msg-2")
	arrivals, stop, err := reading.Arrivals(t.Context(), r.Ledger, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	f.Take("a")
	send("msg-1")
	bell.Ring("a")
	<-arrivals
	f.Take("a")
	send("msg-3")
	bell.Ring("a")
	<-arrivals
}
