package threads_test

import (
	"encoding/json"
	"fmt"
	"slices"
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

// TestClosingIsTold checks that each participant is notified once that a thread was closed, except the one that
// closed it and removed agents.
func TestClosingIsTold(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c", "gone", "left")
	th := f.Thread("a", "b", "c", "gone", "left")
	f.MustPost(th.ID, "a", "c")
	change := threads.Change{Session: enginetest.Room, Thread: th.ID, By: "B"}
	if _, err := threads.RemoveParticipant(t.Context(), f.Ledger, change, "left"); err != nil {
		t.Fatal(err)
	}
	f.SQL(`DELETE FROM agents WHERE name = 'gone'`)
	f.SQL(`UPDATE settings SET value = 'another' WHERE key = 'config.version'`)
	notice := threads.Closing{Summary: "all is said",
		Notice: threads.Notice{Type: "thread_closed", Payload: json.RawMessage(`"it is over"`)}}
	if _, err := threads.Close(t.Context(), f.Ledger, change, notice); err != nil {
		t.Fatal(err)
	}
	_, err := threads.Close(t.Context(), f.Ledger, change, notice)
	want.Code(t, err, orchestrator.Conflict)
	want.Rows(t, f.Rows(`SELECT recipient, sender, status FROM agent_message WHERE message_type = 'thread_closed'
		ORDER BY seq`),
		"thread:"+th.ID+" system delivered", "a system pending", "c system pending")
	for agent, n := range map[string]int{"a": 1, "b": 0, "c": 2, "left": 0} {
		ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: agent, Limit: 9})
		if err != nil || len(ms) != n {
			t.Errorf("%s got %v, %v, want %d", agent, ms, err, n)
		}
		if again, _, err := reading.Wait(t.Context(), f.Ledger,
			reading.Options{Recipient: agent, Limit: 9}); err != nil || len(again) != 0 {
			t.Errorf("%s got %v again, %v", agent, again, err)
		}
	}
	f.Clock.Advance(8 * 24 * time.Hour)
	f.Clear(retention.ClearOptions{})
	want.Equal(t, "left of the closed thread",
		f.Rows(`SELECT count(*) FROM agent_message WHERE thread_id = ?`, th.ID)[0], "0")
}

// TestPostStandsOnceInHistory checks that a post is in the history of its thread once, archived or not, and that its
// copies show how it reached each agent. A recipient that asks for its copy gets that copy.
func TestPostStandsOnceInHistory(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	th := f.Thread("a", "b", "c")
	first, second := f.MustPost(th.ID, "a", "b", "c"), f.MustPost(th.ID, "b")
	if _, err := messages.Send(t.Context(), f.Ledger,
		orchestrator.Draft{Sender: "c", Recipient: "a", ThreadID: th.ID, ReplyTo: first.MessageID}); err != nil {
		t.Fatal(err)
	}
	f.Take("b")
	found := func(filter messages.HistoryFilter) (names []string) {
		t.Helper()
		filter.ThreadID, filter.Limit, filter.OldestFirst = th.ID, 9, true
		ms, _, err := messages.History(t.Context(), f.Ledger, filter)
		if err != nil {
			t.Fatal(err)
		}
		for i := range ms {
			names = append(names, map[string]string{first.MessageID: "first", second.MessageID: "second"}[ms[i].ID]+
				" to "+ms[i].Recipient)
		}
		return names
	}
	check := func(when string) {
		t.Helper()
		room := "thread:" + th.ID
		for _, c := range []struct {
			f    messages.HistoryFilter
			want []string
		}{
			{messages.HistoryFilter{}, []string{"first to " + room, "second to " + room, " to a"}},
			{messages.HistoryFilter{Sender: "a"}, []string{"first to " + room}},
			{messages.HistoryFilter{Party: "b", Posts: true}, []string{"first to " + room, "second to " + room}},
			{messages.HistoryFilter{Party: "b"}, []string{" to b", "second to " + room}},
			{messages.HistoryFilter{Target: "b"}, []string{" to b"}},
		} {
			if got := found(c.f); !slices.Equal(got, c.want) {
				t.Errorf("%s, %+v: %q, want %q", when, c.f, got, c.want)
			}
		}
		ms, _, err := messages.History(t.Context(), f.Ledger,
			messages.HistoryFilter{ThreadID: th.ID, Limit: 9, OldestFirst: true})
		if err != nil {
			t.Fatal(err)
		}
		copies, err := messages.Copies(t.Context(), f.Ledger, ms)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for i := range copies {
			receipts, err := messages.Receipts(t.Context(), f.Ledger, copies[i])
			if err != nil {
				t.Fatal(err)
			}
			for j, m := range copies[i] {
				got += fmt.Sprint(i, " ", m.Recipient, " ", receipts[j][len(receipts[j])-1].What, "; ")
			}
		}
		want.Equal(t, when+": copies", got, "0 b read; 0 c answered; ")
	}
	check("in the table")
	if got := found(messages.HistoryFilter{Status: orchestrator.Pending}); !slices.Equal(got,
		[]string{" to c", " to a"}) {
		t.Errorf("pending are %q", got)
	}
	f.Deliver()
	f.Clock.Advance(8 * 24 * time.Hour)
	f.Clear(retention.ClearOptions{})
	check("partly in the archive")
	f.CloseThread(th.ID)
	f.Clock.Advance(8 * 24 * time.Hour)
	f.Clear(retention.ClearOptions{})
	check("in the archive")
}
