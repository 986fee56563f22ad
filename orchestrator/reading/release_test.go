package reading_test

import (
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
)

// TestRelease checks that Release gives back messages that were read and not acknowledged, in their order, and
// nothing else, and that a waiter gets them.
func TestRelease(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	first, second := f.Send("a", "b"), f.Send("a", "b")
	_, _, err := messages.Release(t.Context(), f.Ledger, first, "b")
	want.Code(t, err, orchestrator.Conflict) // not delivered
	want.IDs(t, f.TakeFor("b", 0), first, second)
	release := func(id string, want bool) {
		t.Helper()
		m, released, err := messages.Release(t.Context(), f.Ledger, id, "b")
		if err != nil || released != want || m.Recipient != "b" {
			t.Fatalf("%v %v; want %v", released, err, want)
		}
	}
	release(first, true)
	release(first, false)
	want.Rows(t, f.Rows(`SELECT event, error FROM message_trace WHERE message_id = ? AND event = 'released'`, first),
		"released handed back by its reader; unread again")
	third := f.Send("a", "b", func(d *orchestrator.Draft) { d.Priority = 1 })
	want.IDs(t, f.TakeFor("b", time.Hour), third, first)
	release(first, true)
	want.IDs(t, f.TakeFor("b", 0), first)
	if _, err := messages.Acknowledge(t.Context(), f.Ledger, second, "b"); err != nil {
		t.Fatal(err)
	}
	_, _, err = messages.Release(t.Context(), f.Ledger, second, "b")
	want.Code(t, err, orchestrator.Conflict)
	_, _, err = messages.Release(t.Context(), f.Ledger, first, "a")
	want.Code(t, err, orchestrator.NotFound)
	released, err := messages.ReleaseAll(t.Context(), f.Ledger, "b", "b")
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "released", len(released), 2)
	want.IDs(t, f.TakeFor("b", 0), third, first)
	_, err = messages.ReleaseAll(t.Context(), f.Ledger, "nobody", "")
	want.Code(t, err, orchestrator.UnknownRecipient)
}

// TestReleaseWithoutALease checks that Release gives back a message whose inbox row looks read although no reader has
// it, because the tables were changed by hand.
func TestReleaseWithoutALease(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	want.IDs(t, f.TakeFor("b", time.Hour), id)
	f.SQL(`DELETE FROM reading_lease`)
	reasons, err := overview.Why(t.Context(), f.Ledger, id)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "what helps", reasons[0].Fix, "To make it unread again, run `mailroom mail release "+id+"`")
	if released, err := messages.ReleaseAll(t.Context(), f.Ledger, "b", "b"); err != nil || len(released) != 1 {
		t.Fatalf("released %v, %v", released, err)
	}
	want.IDs(t, f.TakeFor("b", 0), id)
}

// TestReleaseWakes checks that a released message wakes a waiter.
func TestReleaseWakes(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	want.IDs(t, f.TakeFor("b", time.Hour), id)
	waiting := make(chan []orchestrator.Message, 1)
	go func() {
		ms, _, err := reading.Wait(t.Context(), f.Ledger,
			reading.Options{Recipient: "b", Limit: 1, Timeout: time.Minute})
		if err != nil {
			t.Error(err)
		}
		waiting <- ms
	}()
	if _, _, err := messages.Release(t.Context(), f.Ledger, id, ""); err != nil {
		t.Fatal(err)
	}
	want.IDs(t, <-waiting, id)
}

// TestReleaseMany checks a release that needs several transactions, and that messages of other transports stay read.
func TestReleaseMany(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.AddWired("w")
	for range 120 {
		f.Send("a", "b")
	}
	elsewhere := f.Send("a", "w")
	f.Deliver()
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 1000})
	if err != nil || len(ms) != 120 {
		t.Fatal(len(ms), err)
	}
	f.SQL(`UPDATE agent_message SET read_at = delivered_at WHERE message_id = ?`, elsewhere)
	_, _, err = messages.Release(t.Context(), f.Ledger, elsewhere, "w")
	want.Code(t, err, orchestrator.Conflict)
	released, err := messages.ReleaseAll(t.Context(), f.Ledger, "b", "")
	want.Equal(t, "released", len(released), 120)
	if err != nil {
		t.Fatal(err)
	}
	unread, _ := backlogOf(f, "b")
	want.Equal(t, "unread", unread, 120)
}

// TestReleaseOfWhatWasReadWakes checks the same for messages that were read without a lease.
func TestReleaseOfWhatWasReadWakes(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	want.IDs(t, f.TakeFor("b", 0), id)
	rings, stop, err := f.Store.Bell().Listen(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, _, err := messages.Release(t.Context(), f.Ledger, id, "b"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-rings:
	case <-time.After(10 * time.Second):
		t.Error("nobody is woken")
	}
}
