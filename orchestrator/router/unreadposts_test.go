package router_test

import (
	"fmt"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/threads"
)

// takePosts is a wait, without waiting, for all that is new to an agent.
func (f *fixture) takePosts(agent string, limit int) (ms []orchestrator.Message, more bool) {
	f.t.Helper()
	ms, more, err := reading.Wait(f.t.Context(), f.Ledger, reading.Options{Recipient: agent, Limit: limit, Posts: true})
	if err != nil {
		f.t.Fatal(err)
	}
	return ms, more
}

// A wait for any post takes each post of the agent's threads once, in order, mentions as its own copies, and nothing that
// it wrote itself or that was said where it takes no part. A limit leaves out nothing.
func TestAnyPostIsTakenOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	one, two, other := f.thread("a", "b"), f.thread("a", "b"), f.thread("a", "c")
	var want []string
	for i := range 12 {
		th, mentions := []string{one.ID, two.ID}[i%2], []string(nil)
		if i%3 == 0 {
			mentions = []string{"b"}
		}
		want = append(want, f.mustPost(th, "a", mentions...).MessageID)
		f.mustPost(th, "b", "a")
		f.mustPost(other.ID, "c")
	}
	for _, limit := range []int{1, 5, 100} {
		f.sql(`UPDATE thread_participants SET read_seq = 0`)
		f.sql(`UPDATE agent_message SET status = 'pending', traced_status = 'pending', read_at = '' WHERE recipient = 'b'`)
		f.sql(`DELETE FROM agent_inbox`)
		got := map[string]int{}
		last := map[string]string{}
		for more := true; more; {
			var ms []orchestrator.Message
			if ms, more = f.takePosts("b", limit); len(ms) == 0 || len(ms) > limit {
				t.Fatalf("limit %d: %d messages, more %v, after %d", limit, len(ms), more, len(got))
			}
			for _, m := range ms {
				got[m.MulticastID]++
				if m.Recipient != "b" {
					if m.MulticastID < last[m.ThreadID] {
						t.Errorf("limit %d: %s after %s", limit, m.MulticastID, last[m.ThreadID])
					}
					last[m.ThreadID] = m.MulticastID
				}
			}
		}
		for _, id := range want {
			if got[id] != 1 {
				t.Errorf("limit %d: %s was taken %d times", limit, id, got[id])
			}
		}
		if ms, more := f.takePosts("b", limit); len(got) != len(want) || len(ms) != 0 || more {
			t.Errorf("limit %d: %d posts were taken, want %d; then %v", limit, len(got), len(want), ms)
		}
	}
}

// What could not be written is unread again, and without any a post that mentions nobody is nobody's.
func TestPostsAreUnreadAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	th := f.thread("a", "b")
	first := f.mustPost(th.ID, "a")
	ms, _ := f.takePosts("b", 9)
	want(t, "first", len(ms), 1)
	second := f.mustPost(th.ID, "a")
	lost, _ := f.takePosts("b", 9)
	want(t, "second", len(lost), 1)
	if err := reading.Unread(t.Context(), f.Ledger, lost); err != nil {
		t.Fatal(err)
	}
	ms, _ = f.takePosts("b", 9)
	if len(ms) != 1 || ms[0].ID != second.MessageID || first.MessageID == second.MessageID {
		t.Errorf("then b gets %v", ms)
	}
	f.mustPost(th.ID, "a")
	peeked, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 9, Posts: true, Peek: true})
	if plain, _, perr := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 9}); err != nil || perr != nil || len(peeked) != 1 || len(plain) != 0 {
		t.Errorf("peeked %v, %v; plain %v, %v", peeked, err, plain, perr)
	}
	ms, _ = f.takePosts("b", 9)
	want(t, "after a look", len(ms), 1)
	_, _, err = reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 9, Posts: true, Filter: reading.Filter{Sender: "a"}})
	wantCode(t, err, orchestrator.InvalidParams)
}

// A post wakes those who wait for any post of its thread, also in another process, and so does being added to a thread.
func TestPostWakesThoseWhoWaitForAny(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	routers, ctx := f.openAll(2), short(t)
	th := f.thread("a", "b")
	for _, c := range []struct {
		agent string
		act   func()
	}{
		{"b", func() { f.fixturePost(routers[0], th.ID) }},
		{"c", func() {
			if _, _, err := threads.AddParticipant(ctx, routers[0].Ledger, threads.Change{Session: room, Thread: th.ID, By: "a"}, "c"); err != nil {
				t.Error(err)
			}
		}},
	} {
		ended := make(chan waited, 1)
		go func() {
			ms, _, err := reading.Wait(ctx, routers[1].Ledger, reading.Options{Recipient: c.agent, Limit: 9, Timeout: time.Hour, Posts: true, For: []string{"a"}})
			ended <- waited{c.agent, ms, err}
		}()
		f.untilRows(ctx, countWaits, 1)
		c.act()
		if w := <-ended; w.err != nil || len(w.ms) != 1 || w.ms[0].ThreadID != th.ID {
			t.Fatalf("%s got %v, %v", c.agent, w.ms, w.err)
		}
		f.untilRows(ctx, countWaits, 0)
	}
}

// A wait that filters takes what its agent sent and leaves everything else unread.
func TestFilteredWaitLeavesTheOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	routers, ctx := f.openAll(1), short(t)
	from := func(sender string, limit int) reading.Options {
		return reading.Options{Recipient: "a", Limit: limit, Filter: reading.Filter{Sender: sender}}
	}
	f.send("b", "a")
	f.send("c", "a")
	f.send("b", "a")
	ms, more, err := reading.Wait(ctx, f.Ledger, from("B", 1))
	if err != nil || len(ms) != 1 || ms[0].Sender != "b" || !more {
		t.Fatalf("%v, %v, %v", ms, more, err)
	}
	ms, more, err = reading.Wait(ctx, f.Ledger, from("b", 9))
	if err != nil || len(ms) != 1 || ms[0].Sender != "b" || more {
		t.Fatalf("%v, %v, %v", ms, more, err)
	}
	ended := make(chan waited, 1)
	go func() {
		o := from("b", 9)
		o.Timeout = time.Hour
		ms, _, err := reading.Wait(ctx, routers[0].Ledger, o)
		ended <- waited{"a", ms, err}
	}()
	f.untilRows(ctx, countWaits, 1)
	for range 3 {
		if _, err := messages.Send(ctx, routers[0].Ledger, orchestrator.Draft{Sender: "c", Recipient: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := messages.Send(ctx, routers[0].Ledger, orchestrator.Draft{Sender: "b", Recipient: "a"}); err != nil {
		t.Fatal(err)
	}
	if w := <-ended; w.err != nil || len(w.ms) != 1 || w.ms[0].Sender != "b" {
		t.Fatalf("%v, %v", w.ms, w.err)
	}
	ms, _, err = reading.Wait(ctx, f.Ledger, reading.Options{Recipient: "a", Limit: 9})
	want(t, "left", fmt.Sprint(len(ms), err), "4 <nil>")
	_, _, err = reading.Wait(ctx, f.Ledger, from("nobody", 9))
	wantCode(t, err, orchestrator.UnknownRecipient)
}

// Mail that a filter passes over ends no wait, so that two agents that wait for each other alone are a circle beside it.
func TestFilteredWaitsCloseACircle(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	routers, ctx := f.openAll(2), short(t)
	th := f.thread("a", "c")
	f.send("c", "a")
	f.send("c", "b")
	ended := make(chan waited, 1)
	go func() {
		ms, _, err := reading.Wait(ctx, routers[0].Ledger, reading.Options{Recipient: "a", Limit: 9, Timeout: time.Hour, Filter: reading.Filter{Sender: "b"}})
		ended <- waited{"a", ms, err}
	}()
	f.untilRows(ctx, countWaits, 1)
	_, _, err := reading.Wait(ctx, routers[1].Ledger, reading.Options{Recipient: "b", Limit: 9, Timeout: time.Hour, Filter: reading.Filter{Sender: "a"}})
	wantCircle(t, waited{"b", nil, err}, []string{"b", "a"})
	if _, err := messages.Send(ctx, routers[1].Ledger, orchestrator.Draft{Sender: "b", Recipient: "a"}); err != nil {
		t.Fatal(err)
	}
	if w := <-ended; w.err != nil || len(w.ms) != 1 {
		t.Fatalf("%v, %v", w.ms, w.err)
	}
	// An agent that any post wakes is not stuck while there is one.
	f.take("b")
	f.take("a")
	f.mustPost(th.ID, "c")
	f.sql(`INSERT INTO waits (id, waiter, waits_for, instance, since, until, posts) VALUES ('w', 'a', 'b', 'killed', '', ?, 1)`, f.clock.now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000Z"))
	if f.refuses("b", "a") {
		t.Error("a wait for an agent that is about to wake up is refused")
	}
	f.takePosts("a", 9)
	if !f.refuses("b", "a") {
		t.Error("a circle is not refused once its posts are read")
	}
}
