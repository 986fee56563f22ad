package messages_test

import (
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/retention"
)

// TestEndingWith checks that an ending of at least four characters finds a message of the caller, archived or not,
// ignoring case.
func TestEndingWith(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	first := f.Send("a", "b")
	f.Deliver()
	f.Clock.Advance(8 * 24 * time.Hour)
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	second := f.Send("a", "c")
	finds := func(by, ending string, ids ...string) {
		t.Helper()
		ms, err := messages.EndingWith(t.Context(), f.Ledger, by, ending, 10)
		if err != nil {
			t.Fatal(err)
		}
		want.IDs(t, ms, ids...)
	}
	for _, id := range []string{first, second} {
		finds("", id[len(id)-8:], id)
		finds("", id, id)
		finds("a", id[len(id)-8:], id)
		finds("", id[len(id)-3:])
	}
	finds("b", first[len(first)-8:], first)
	finds("b", second[len(second)-8:])
	finds("", "%%%%")
	finds("", "____")
	f.Send("a", "b", func(d *orchestrator.Draft) { d.Type = orchestrator.TestMessage })
	newest, found, err := messages.Newest(t.Context(), f.Ledger, "b", nil)
	if err != nil || !found || newest.ID != first {
		t.Errorf("%s, %t, %v", newest.ID, found, err)
	}
	if newest, _, _ = messages.Newest(t.Context(), f.Ledger, "", nil); newest.ID != second {
		t.Error(newest.ID)
	}
}

// TestLastEvents checks that the newest events are returned oldest first, for one agent or for all, and new events
// follow the returned position.
func TestLastEvents(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	f.Send("a", "b")
	f.Send("a", "c")
	f.Deliver()
	shows := func(agent string, n int64, events ...string) messages.Cursor {
		t.Helper()
		list, next, err := messages.LastEvents(t.Context(), f.Ledger, agent, n)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range list {
			got = append(got, list[i].Recipient+" "+list[i].Event)
		}
		want.Rows(t, got, events...)
		return next
	}
	shows("", 0)
	shows("", 1, "c delivered")
	shows("", 100, "b created", "c created", "b delivered", "c delivered")
	shows("b", 1, "b delivered")
	shows("c", 100, "c created", "c delivered")
	next := shows("b", 100, "b created", "b delivered")
	later := f.Send("a", "b")
	list, last, _, err := messages.Events(t.Context(), f.Ledger, next, "", 10)
	if err != nil || len(list) != 1 || list[0].MessageID != later {
		t.Errorf("%v, %v", list, err)
	}
	want.Equal(t, "behind", last.Behind(next), 1)
	want.Equal(t, "before", last.Before(1), next)
	want.Equal(t, "before the first", last.Before(1000), messages.Cursor{})
}

// TestEventsSince checks that the position for a time precedes exactly the events from that time on, whichever ids
// are missing.
func TestEventsSince(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	for range 5 {
		f.Send("a", "b")
		f.Clock.Advance(time.Hour)
	}
	f.SQL(`DELETE FROM message_trace WHERE id IN (SELECT id FROM message_trace WHERE id > 0 ORDER BY id LIMIT 1 OFFSET 1)`)
	for since, events := range map[string]int{"10m": 0, "1h": 1, "90m": 1, "150m": 2, "3h": 3, "4h": 3, "5h": 4, "9h": 4} {
		at, err := messages.EventsSince(t.Context(), f.Ledger, since)
		if err != nil {
			t.Fatal(err)
		}
		list, _, _, err := messages.Events(t.Context(), f.Ledger, at, "", 10)
		if err != nil || len(list) != events {
			t.Errorf("since %s: %d events, %v; want %d", since, len(list), err, events)
		}
	}
	_, err := messages.EventsSince(t.Context(), f.Ledger, "soon")
	want.Code(t, err, orchestrator.InvalidParams)
}
