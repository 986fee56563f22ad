package messages_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// listAll lists to the end and returns the payloads of the messages and the number of calls.
func listAll(f *enginetest.Fixture, filter messages.ListFilter) (says []string, calls int) {
	f.T.Helper()
	for {
		listed, err := messages.List(f.T.Context(), f.Ledger, filter)
		if err != nil {
			f.T.Fatal(err)
		}
		calls++
		for i := range listed.Messages {
			says = append(says, strings.Trim(string(listed.Messages[i].Payload), `"`))
		}
		switch {
		case listed.Complete:
			return says, calls
		case listed.At == "" || listed.Next == filter.Before || listed.Next == filter.After:
			f.T.Fatalf("%+v does not get on", listed)
		case filter.OldestFirst:
			filter.After = listed.Next
		default:
			filter.Before = listed.Next
		}
	}
}

// TestList checks that a list returns the messages that its filter selects, each once and in order, in both
// directions, archived or not, and for any step size.
func TestList(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	th := f.Thread("a", "b")
	var sent []orchestrator.Message
	names, random := []string{"a", "b", "c"}, rand.New(rand.NewPCG(1, 2))
	for n := range 40 {
		f.Clock.Advance(time.Second)
		if n == 20 {
			f.Deliver()
			f.ArchiveAll()
		}
		if n == 30 {
			f.Deliver()
		}
		id := f.Send(names[random.IntN(3)], names[random.IntN(3)], func(d *orchestrator.Draft) {
			d.Payload, d.Type = fmt.Append(nil, n), []string{"x", "y"}[random.IntN(2)]
			if random.IntN(3) == 0 {
				d.ThreadID = th.ID
			}
		})
		sent = append(sent, f.Message(id))
	}
	f.SQL(`UPDATE agent_message SET status = 'failed', traced_status = 'failed' WHERE seq % 3 = 0`)
	for i := range sent {
		sent[i] = f.Message(sent[i].ID)
	}
	middle := sent[25].CreatedAt
	for name, c := range map[string]struct {
		filter messages.ListFilter
		fits   func(m *orchestrator.Message) bool
	}{
		"all": {messages.ListFilter{}, func(*orchestrator.Message) bool { return true }},
		"agent": {messages.ListFilter{Agent: "A"},
			func(m *orchestrator.Message) bool { return m.Sender == "a" || m.Recipient == "a" }},
		"sender": {messages.ListFilter{Sender: "b"}, func(m *orchestrator.Message) bool { return m.Sender == "b" }},
		"recipient": {messages.ListFilter{Recipient: "b"},
			func(m *orchestrator.Message) bool { return m.Recipient == "b" }},
		"pair": {messages.ListFilter{Pair: [2]string{"a", "c"}}, func(m *orchestrator.Message) bool {
			return m.Sender == "a" && m.Recipient == "c" || m.Sender == "c" && m.Recipient == "a"
		}},
		"type": {messages.ListFilter{Type: "y"}, func(m *orchestrator.Message) bool { return m.Type == "y" }},
		"thread": {messages.ListFilter{ThreadID: th.ID, Sender: "a"},
			func(m *orchestrator.Message) bool { return m.ThreadID == th.ID && m.Sender == "a" }},
		"status": {messages.ListFilter{Statuses: []orchestrator.Status{orchestrator.Pending, orchestrator.Retry}},
			func(m *orchestrator.Message) bool { return m.Status == orchestrator.Pending }},
		"dead": {messages.ListFilter{Statuses: []orchestrator.Status{orchestrator.Failed}},
			func(m *orchestrator.Message) bool { return m.Status == orchestrator.Failed }},
		"since": {messages.ListFilter{Since: middle},
			func(m *orchestrator.Message) bool { return m.CreatedAt >= middle }},
		"until": {messages.ListFilter{Until: middle},
			func(m *orchestrator.Message) bool { return m.CreatedAt <= middle }},
		"text": {messages.ListFilter{Says: func(m *orchestrator.Message) bool { return string(m.Payload) == "7" }},
			func(m *orchestrator.Message) bool { return string(m.Payload) == "7" }},
	} {
		for _, archived := range []bool{false, true} {
			for _, limit := range []int{1, 7, 100} {
				var fitting []string
				for i := range sent {
					if c.fits(&sent[i]) && (archived || sent[i].ArchivedAt == "") {
						fitting = append(fitting, string(sent[i].Payload))
					}
				}
				c.filter.Limit, c.filter.Archived, c.filter.OldestFirst = limit, archived, true
				got, _ := listAll(f, c.filter)
				want.Rows(t, got, fitting...)
				slices.Reverse(fitting)
				c.filter.OldestFirst = false
				got, _ = listAll(f, c.filter)
				want.Rows(t, got, fitting...)
				if t.Failed() {
					t.Fatalf("of %s, %d at a time, archived: %v", name, limit, archived)
				}
			}
		}
	}
	found, err := messages.Named(t.Context(), f.Ledger, []string{sent[3].ID, "nosuch", sent[35].ID})
	if err != nil || len(found) != 2 || found[0].ID != sent[3].ID || found[1].ID != sent[35].ID {
		t.Errorf("named: %v, %v", found, err)
	}
	_, err = messages.List(t.Context(), f.Ledger, messages.ListFilter{Until: "tomorrow", Limit: 1})
	want.Code(t, err, orchestrator.InvalidParams)
}

// TestListIsBounded checks that a list does a bounded amount of work, and a list of one thread does not examine other
// messages.
func TestListIsBounded(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c", "d")
	f.Send("b", "a", func(d *orchestrator.Draft) { d.Payload, d.ThreadID = []byte(`1`), "t" })
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, traced_status,
		created_at, delivered_at)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
		SELECT 'x' || i, 'c', 'd', 'note', '"of others"', 'delivered', 'delivered', '2030-01-01T00:00:00.000Z',
			'2030-01-01T00:00:00.000Z' FROM n`)
	for _, c := range []struct {
		filter messages.ListFilter
		calls  int
	}{
		{messages.ListFilter{Agent: "a"}, 60000/searchedAtOnce + 1}, {messages.ListFilter{ThreadID: "t"}, 1},
		{messages.ListFilter{Until: "2029-01-01T00:00:00Z", OldestFirst: true}, 1},
	} {
		c.filter.Limit = 9
		got, calls := listAll(f, c.filter)
		want.Rows(t, got, "1")
		want.Equal(t, fmt.Sprintf("calls of %+v", c.filter), calls, c.calls)
	}
	if got, calls := listAll(f, messages.ListFilter{Since: "2031-01-01T00:00:00Z", Limit: 9}); len(got) > 0 ||
		calls > 1 {
		t.Errorf("since a time that nothing is after: %v after %d calls", got, calls)
	}
}
