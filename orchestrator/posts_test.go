package orchestrator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"mailroom/orchestrator"
)

// Who takes part in a thread is told once that it was closed, but for who closed it; so is nobody who is gone.
func TestClosingIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c", "gone", "left")
	th := f.thread("a", "b", "c", "gone", "left")
	f.mustPost(th.ID, "a", "c")
	change := orchestrator.ThreadChange{Session: room, Thread: th.ID, By: "B"}
	if _, err := f.RemoveParticipant(t.Context(), change, "left"); err != nil {
		t.Fatal(err)
	}
	f.sql(`DELETE FROM agents WHERE name = 'gone'`)
	f.sql(`UPDATE settings SET value = 'another' WHERE key = 'config.version'`)
	notice := orchestrator.Closing{Summary: "all is said", Notice: orchestrator.Notice{Type: "thread_closed", Payload: json.RawMessage(`"it is over"`)}}
	if _, err := f.CloseThread(t.Context(), change, notice); err != nil {
		t.Fatal(err)
	}
	_, err := f.CloseThread(t.Context(), change, notice)
	wantCode(t, err, orchestrator.Conflict)
	wantRows(t, f.rows(`SELECT recipient, sender, status FROM agent_message WHERE message_type = 'thread_closed' ORDER BY seq`),
		"thread:"+th.ID+" system delivered", "a system pending", "c system pending")
	for agent, n := range map[string]int{"a": 1, "b": 0, "c": 2, "left": 0} {
		ms, _, err := f.Wait(t.Context(), orchestrator.WaitOptions{Recipient: agent, Limit: 9})
		if err != nil || len(ms) != n {
			t.Errorf("%s got %v, %v, want %d", agent, ms, err, n)
		}
		if again, _, err := f.Wait(t.Context(), orchestrator.WaitOptions{Recipient: agent, Limit: 9}); err != nil || len(again) != 0 {
			t.Errorf("%s got %v again, %v", agent, again, err)
		}
	}
	f.clock.advance(8 * 24 * time.Hour)
	f.clear(orchestrator.ClearOptions{})
	want(t, "left of the closed thread", f.rows(`SELECT count(*) FROM agent_message WHERE thread_id = ?`, th.ID)[0], "0")
}

// A post stands once in its thread's history, archived or not, and its copies say how it got to whom; asked for by its
// recipient, a copy stands for itself.
func TestPostStandsOnceInHistory(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	th := f.thread("a", "b", "c")
	first, second := f.mustPost(th.ID, "a", "b", "c"), f.mustPost(th.ID, "b")
	if _, err := f.Send(t.Context(), orchestrator.Draft{Sender: "c", Recipient: "a", ThreadID: th.ID, ReplyTo: first.MessageID}); err != nil {
		t.Fatal(err)
	}
	f.take("b")
	found := func(filter orchestrator.HistoryFilter) (names []string) {
		t.Helper()
		filter.ThreadID, filter.Limit, filter.OldestFirst = th.ID, 9, true
		ms, _, err := f.History(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		for i := range ms {
			names = append(names, map[string]string{first.MessageID: "first", second.MessageID: "second"}[ms[i].ID]+" to "+ms[i].Recipient)
		}
		return names
	}
	check := func(when string) {
		t.Helper()
		room := "thread:" + th.ID
		for _, c := range []struct {
			f    orchestrator.HistoryFilter
			want []string
		}{
			{orchestrator.HistoryFilter{}, []string{"first to " + room, "second to " + room, " to a"}},
			{orchestrator.HistoryFilter{Sender: "a"}, []string{"first to " + room}},
			{orchestrator.HistoryFilter{Party: "b", Posts: true}, []string{"first to " + room, "second to " + room}},
			{orchestrator.HistoryFilter{Party: "b"}, []string{" to b", "second to " + room}},
			{orchestrator.HistoryFilter{Target: "b"}, []string{" to b"}},
		} {
			if got := found(c.f); !slices.Equal(got, c.want) {
				t.Errorf("%s, %+v: %q, want %q", when, c.f, got, c.want)
			}
		}
		ms, _, err := f.History(t.Context(), orchestrator.HistoryFilter{ThreadID: th.ID, Limit: 9, OldestFirst: true})
		if err != nil {
			t.Fatal(err)
		}
		copies, err := f.Copies(t.Context(), ms)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for i := range copies {
			receipts, err := f.Receipts(t.Context(), copies[i])
			if err != nil {
				t.Fatal(err)
			}
			for j, m := range copies[i] {
				got += fmt.Sprint(i, " ", m.Recipient, " ", receipts[j][len(receipts[j])-1].What, "; ")
			}
		}
		want(t, when+": copies", got, "0 b read; 0 c answered; ")
	}
	check("in the table")
	if got := found(orchestrator.HistoryFilter{Status: orchestrator.Pending}); !slices.Equal(got, []string{" to c", " to a"}) {
		t.Errorf("pending are %q", got)
	}
	f.deliver()
	f.clock.advance(8 * 24 * time.Hour)
	f.clear(orchestrator.ClearOptions{})
	check("partly in the archive")
	f.closeThread(th.ID)
	f.clock.advance(8 * 24 * time.Hour)
	f.clear(orchestrator.ClearOptions{})
	check("in the archive")
}

// fixturePost posts what mentions nobody, through a router of the test's choice.
func (f *fixture) fixturePost(r *orchestrator.Engine, thread string) {
	f.t.Helper()
	if _, err := r.Post(f.t.Context(), orchestrator.PostDraft{Session: room, Thread: thread, Sender: "a", Type: "post",
		Payload: func([]string) (json.RawMessage, error) { return json.RawMessage(`1`), nil }}); err != nil {
		f.t.Fatal(err)
	}
}
