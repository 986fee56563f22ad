package delivery_test

import (
	"context"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/transport"
)

// looking is a store that records whether anything was read.
type looking struct {
	store.Store
	looked bool
}

func (s *looking) Version() (int64, bool) { return s.Store.(store.Versioned).Version() }

func (s *looking) Read(ctx context.Context, fn func(c *store.Conn) error) error {
	s.looked = true
	return s.Store.Read(ctx, fn)
}

func (s *looking) Look(ctx context.Context, fn func(c *store.Conn) error) error {
	s.looked = true
	return s.Store.Look(ctx, fn)
}

// TestCalm checks that after a run that found nothing to do, later runs do not read until somebody commits, something
// is due, the clock is set back, or ten seconds have passed. While a reader holds messages, every run checks whether
// the reader is alive.
func TestCalm(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "on a server nothing tells cheaply whether anybody has committed")
	f := enginetest.New(t, "a", "b")
	daemon := enginetest.OpenWith(t, ledger.Options{
		Path: f.Path, Now: f.Clock.Now, Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}},
	})
	_, stop, err := daemon.Store.Bell().Listen(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	seen := &looking{Store: daemon.Store}
	daemon.Store = seen
	run := func(looks bool, delivers int) {
		t.Helper()
		seen.looked = false
		did, err := daemon.DeliverAll(t.Context(), delivery.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want.Equal(t, "delivered", did.Delivered, delivers)
		want.Equal(t, "looked", seen.looked, looks)
	}
	settle := func() {
		t.Helper()
		run(true, 0)
		run(false, 0)
	}
	settle()

	f.Send("a", "b", func(d *orchestrator.Draft) { d.NotBefore = f.Clock.Now().Add(5 * time.Second) })
	settle()
	f.Clock.Advance(5 * time.Second)
	run(true, 1)
	settle()

	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient) VALUES ('by-hand', 'a', 'b')`)
	run(true, 1)
	settle()

	f.Clock.Advance(9 * time.Second)
	run(false, 0)
	f.Clock.Advance(time.Second)
	settle()
	f.Clock.Advance(-time.Hour)
	run(true, 0)

	f.TakeFor("b", 2*time.Hour)
	run(true, 0)
	run(true, 0)
}
