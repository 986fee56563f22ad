package messages_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/retention"
)

// TestHistory checks that the history does not depend on what retention has archived: every filter finds its messages
// in order and reports whether there are more.
func TestHistory(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "team", []string{"b", "c"}); err != nil {
		t.Fatal(err)
	}
	numbers := map[string]string{} // by message id
	send := func(n, sender, recipient, kind, thread string) {
		sent, err := messages.Send(t.Context(), f.Ledger,
			orchestrator.Draft{Sender: sender, Recipient: recipient, Type: kind, ThreadID: thread})
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range sent.MessageIDs {
			numbers[id] = n + strings.Repeat("'", i)
		}
		f.Clock.Advance(time.Second)
	}
	send("1", "a", "b", "x", "t")
	send("2", "b", "a", "y", "t")
	send("3", "a", "team", "x", "")
	f.Deliver()
	f.Clock.Advance(time.Hour)
	if c, err := retention.ClearOld(t.Context(), f.Ledger,
		retention.ClearOptions{OlderThan: time.Minute}); err != nil || c.Deleted != 4 {
		t.Fatalf("%+v, %v", c, err)
	}
	send("0", "c", "a", "z", "")
	f.Take("a")
	send("4", "a", "b", "y", "t")
	send("5", "c", "b", "x", "")
	send("6", "b", "team", "x", "t")

	for _, c := range []struct {
		f    messages.HistoryFilter
		want string
	}{
		{messages.HistoryFilter{ThreadID: "t", OldestFirst: true}, "1 2 4 6 6'"},
		{messages.HistoryFilter{ThreadID: "t"}, "6' 6 4 2 1"},
		{messages.HistoryFilter{ThreadID: "t", Sender: "a"}, "4 1"},
		{messages.HistoryFilter{Sender: "a"}, "4 3' 3 1"},
		{messages.HistoryFilter{Target: "b"}, "6 5 4 3 1"},
		{messages.HistoryFilter{Target: "team"}, "6' 6 3' 3"},
		{messages.HistoryFilter{Sender: "a", Target: "team"}, "3' 3"},
		{messages.HistoryFilter{Sender: "a", Type: "x"}, "3' 3 1"},
		{messages.HistoryFilter{Target: "b", Status: orchestrator.Pending}, "5 4"},
		{messages.HistoryFilter{Target: "b", Status: orchestrator.Delivered, OldestFirst: true}, "1 3 6"}, // 6 is its own copy
		{messages.HistoryFilter{Sender: "a", Since: "2026-01-02 03:04:07"}, "4 3' 3"},
		{messages.HistoryFilter{Sender: "a", Until: "2026-01-02T03:04:07Z"}, "3' 3 1"},
		{messages.HistoryFilter{Sender: "a", Since: "2026-01-02T03:04:06Z", Until: "2026-01-02T03:04:06Z"}, ""},
		{messages.HistoryFilter{Sender: "c"}, "5 0"}, // one undelivered, one delivered
		{messages.HistoryFilter{Sender: "nobody"}, ""},
	} {
		all := strings.Fields(c.want)
		for limit := 1; limit <= len(all)+1; limit++ {
			c.f.Limit = limit
			ms, more, err := messages.History(t.Context(), f.Ledger, c.f)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range ms {
				got = append(got, numbers[ms[i].ID])
			}
			want.Equal(t, fmt.Sprintf("%+v", c.f), strings.Join(got, " "),
				strings.Join(all[:min(limit, len(all))], " "))
			want.Equal(t, fmt.Sprintf("more of %+v", c.f), more, limit < len(all))
		}
	}
	_, _, err := messages.History(t.Context(), f.Ledger,
		messages.HistoryFilter{Sender: "a", Since: "yesterday", Limit: 1})
	want.Code(t, err, orchestrator.InvalidParams)
}

// TestHistoryOfLargeMessages checks that a page is also limited by bytes: it has at least one message, and reports
// that there are more.
func TestHistoryOfLargeMessages(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	large := func(d *orchestrator.Draft) { d.Payload = []byte(`"` + strings.Repeat("x", 1_000_000) + `"`) }
	for range 6 {
		f.Send("a", "b", large)
	}
	ms, more, err := messages.History(t.Context(), f.Ledger, messages.HistoryFilter{Sender: "a", Limit: 100})
	if err != nil || len(ms) != 4 || !more {
		t.Errorf("%d messages, more %v, %v", len(ms), more, err)
	}
}

// TestEvents checks that events are returned in order, from any of them on. An agent gets only the events of its own
// messages, and the id for the next call skips the others. Events survive the archiving of their message, but not its
// deletion.
func TestEvents(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	start, err := messages.LastEvent(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	f.Send("a", "b", func(d *orchestrator.Draft) { d.ThreadID = "t" })
	f.Send("b", "c")
	f.Send("a", "c")
	f.Deliver()
	f.Take("b")
	told := func(concerning string) string {
		t.Helper()
		var all []string
		newest := int64(0)
		for after := start; ; {
			list, last, _, err := messages.Events(t.Context(), f.Ledger, after, concerning, 2) // two at a time
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list {
				if e.ID <= newest {
					t.Errorf("event %d comes after event %d", e.ID, newest)
				}
				newest = e.ID
				all = append(all, strings.TrimSpace(e.Event+" "+e.Sender+e.Recipient+" "+e.ThreadID))
			}
			if last == after {
				return strings.Join(all, ", ")
			}
			after = last
		}
	}
	const ofB = "created ab t, created bc, delivered ab t, delivered bc, read ab t"
	want.Equal(t, "events of b", told("b"), ofB)
	want.Equal(t, "events of nobody", told("nobody"), "")
	want.Equal(t, "number of all", fmt.Sprint(strings.Count(told(""), ",")+1),
		f.Rows(`SELECT count(*) FROM message_trace WHERE id > ?1`, start.String())[0])
	f.Clock.Advance(30 * 24 * time.Hour)
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "events of b, archived", told("b"), ofB+", archived ab t, archived bc")
	last, err := messages.LastEvent(t.Context(), f.Ledger)
	want.Equal(t, "the last", fmt.Sprint(last, err), f.Rows(`SELECT max(id) FROM message_trace`)[0]+" <nil>")
}
