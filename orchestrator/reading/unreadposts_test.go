package reading_test

import (
	"fmt"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/threads"
)

// TestAnyPostIsTakenOnce checks that a wait for any post takes each post of the agent's threads once, in order.
// Mentions arrive as the agent's own copies. The agent's own posts, and threads in which it takes no part, are left
// out. A limit loses nothing.
func TestAnyPostIsTakenOnce(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	one, two, other := f.Thread("a", "b"), f.Thread("a", "b"), f.Thread("a", "c")
	var want []string
	for i := range 12 {
		th, mentions := []string{one.ID, two.ID}[i%2], []string(nil)
		if i%3 == 0 {
			mentions = []string{"b"}
		}
		want = append(want, f.MustPost(th, "a", mentions...).MessageID)
		f.MustPost(th, "b", "a")
		f.MustPost(other.ID, "c")
	}
	for _, limit := range []int{1, 5, 100} {
		f.SQL(`UPDATE thread_participants SET read_seq = 0`)
		f.SQL(`UPDATE agent_message SET status = 'pending', traced_status = 'pending', read_at = ''
			WHERE recipient = 'b'`)
		f.SQL(`DELETE FROM agent_inbox`)
		got := map[string]int{}
		last := map[string]string{}
		for more := true; more; {
			var ms []orchestrator.Message
			if ms, more = f.TakePosts("b", limit); len(ms) == 0 || len(ms) > limit {
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
		if ms, more := f.TakePosts("b", limit); len(got) != len(want) || len(ms) != 0 || more {
			t.Errorf("limit %d: %d posts were taken, want %d; then %v", limit, len(got), len(want), ms)
		}
	}
}

// TestPostIsUnreadThoughACopyIsArchived checks that a post is unread until its reader has it, even if the copy of
// another mentioned agent is archived.
func TestPostIsUnreadThoughACopyIsArchived(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	post := f.MustPost(f.Thread("a", "b", "c").ID, "a", "c")
	f.Take("c")
	f.Clock.Advance(8 * 24 * time.Hour)
	want.Equal(t, "archived", f.Clear(retention.ClearOptions{}).Deleted, 1)
	ms, _ := f.TakePosts("b", 9)
	want.IDs(t, ms, post.MessageID)
	ms, _ = f.TakePosts("c", 9)
	want.IDs(t, ms)
}

// TestPostsAreUnreadAgain checks that posts whose answer could not be written are unread again. A wait that does not
// ask for posts gets none that mentions no agent.
func TestPostsAreUnreadAgain(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	th := f.Thread("a", "b")
	first := f.MustPost(th.ID, "a")
	ms, _ := f.TakePosts("b", 9)
	want.Equal(t, "first", len(ms), 1)
	second := f.MustPost(th.ID, "a")
	lost, _ := f.TakePosts("b", 9)
	want.Equal(t, "second", len(lost), 1)
	if err := reading.Unread(t.Context(), f.Ledger, lost); err != nil {
		t.Fatal(err)
	}
	ms, _ = f.TakePosts("b", 9)
	if len(ms) != 1 || ms[0].ID != second.MessageID || first.MessageID == second.MessageID {
		t.Errorf("then b gets %v", ms)
	}
	f.MustPost(th.ID, "a")
	peeked, _, err := reading.Wait(t.Context(), f.Ledger,
		reading.Options{Recipient: "b", Limit: 9, Posts: true, Peek: true})
	if plain, _, perr := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 9}); err != nil ||
		perr != nil || len(peeked) != 1 || len(plain) != 0 {
		t.Errorf("peeked %v, %v; plain %v, %v", peeked, err, plain, perr)
	}
	ms, _ = f.TakePosts("b", 9)
	want.Equal(t, "after a look", len(ms), 1)
	_, _, err = reading.Wait(t.Context(), f.Ledger,
		reading.Options{Recipient: "b", Limit: 9, Posts: true, Filter: reading.Filter{Sender: "a"}})
	want.Code(t, err, orchestrator.InvalidParams)
}

// TestPostWakesThoseWhoWaitForAny checks that a post wakes the waits for any post of its thread, also in another
// process, and that being added to a thread wakes such a wait too.
func TestPostWakesThoseWhoWaitForAny(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	routers, ctx := f.OpenAll(2), enginetest.Deadline(t)
	th := f.Thread("a", "b")
	for _, c := range []struct {
		agent string
		act   func()
	}{
		{"b", func() { f.PostFrom(routers[0], th.ID) }},
		{"c", func() {
			if _, _, err := threads.AddParticipant(ctx, routers[0].Ledger,
				threads.Change{Session: enginetest.Room, Thread: th.ID, By: "a"}, "c"); err != nil {
				t.Error(err)
			}
		}},
	} {
		ended := make(chan waited, 1)
		go func() {
			ms, _, err := reading.Wait(ctx, routers[1].Ledger,
				reading.Options{Recipient: c.agent, Limit: 9, Timeout: time.Hour, Posts: true, For: []string{"a"}})
			ended <- waited{c.agent, ms, err}
		}()
		untilRows(f, ctx, countWaits, 1)
		c.act()
		if w := <-ended; w.err != nil || len(w.ms) != 1 || w.ms[0].ThreadID != th.ID {
			t.Fatalf("%s got %v, %v", c.agent, w.ms, w.err)
		}
		untilRows(f, ctx, countWaits, 0)
	}
}

// TestFilteredWaitLeavesTheOthers checks that a wait with a filter takes the messages of its agent and leaves all
// others unread.
func TestFilteredWaitLeavesTheOthers(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	routers, ctx := f.OpenAll(1), enginetest.Deadline(t)
	from := func(sender string, limit int) reading.Options {
		return reading.Options{Recipient: "a", Limit: limit, Filter: reading.Filter{Sender: sender}}
	}
	f.Send("b", "a")
	f.Send("c", "a")
	f.Send("b", "a")
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
	untilRows(f, ctx, countWaits, 1)
	for range 3 {
		if _, err := messages.Send(ctx, routers[0].Ledger,
			orchestrator.Draft{Sender: "c", Recipient: "a"}); err != nil {
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
	want.Equal(t, "left", fmt.Sprint(len(ms), err), "4 <nil>")
	_, _, err = reading.Wait(ctx, f.Ledger, from("nobody", 9))
	want.Code(t, err, orchestrator.UnknownRecipient)
}

// TestFilteredWaitsCloseACircle checks that a message that a filter skips ends no wait, so that two agents that wait
// only for each other close a circle in spite of it.
func TestFilteredWaitsCloseACircle(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	routers, ctx := f.OpenAll(2), enginetest.Deadline(t)
	th := f.Thread("a", "c")
	f.Send("c", "a")
	f.Send("c", "b")
	ended := make(chan waited, 1)
	go func() {
		ms, _, err := reading.Wait(ctx, routers[0].Ledger,
			reading.Options{Recipient: "a", Limit: 9, Timeout: time.Hour, Filter: reading.Filter{Sender: "b"}})
		ended <- waited{"a", ms, err}
	}()
	untilRows(f, ctx, countWaits, 1)
	_, _, err := reading.Wait(ctx, routers[1].Ledger,
		reading.Options{Recipient: "b", Limit: 9, Timeout: time.Hour, Filter: reading.Filter{Sender: "a"}})
	wantCircle(t, waited{"b", nil, err}, []string{"b", "a"})
	if _, err := messages.Send(ctx, routers[1].Ledger, orchestrator.Draft{Sender: "b", Recipient: "a"}); err != nil {
		t.Fatal(err)
	}
	if w := <-ended; w.err != nil || len(w.ms) != 1 {
		t.Fatalf("%v, %v", w.ms, w.err)
	}
	// An agent that any post wakes is not stuck while there is a post.
	f.Take("b")
	f.Take("a")
	f.MustPost(th.ID, "c")
	f.SQL(`INSERT INTO waits (id, waiter, waits_for, instance, since, until, posts)
		VALUES ('w', 'a', 'b', 'killed', '', ?, 1)`,
		f.Clock.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000Z"))
	if refuses(f, "b", "a") {
		t.Error("a wait for an agent that is about to wake up is refused")
	}
	f.TakePosts("a", 9)
	if !refuses(f, "b", "a") {
		t.Error("a circle is not refused once its posts are read")
	}
}
