package reading_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/reading"
)

// TestWaitSaysThatThereIsMore checks that more is correct, whether the limit or the size cuts an answer short, and
// whichever path the messages take. Repeated waits return every message once.
func TestWaitSaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	const small, large = 10, 1_000_000 // bytes; an answer has room for four large messages
	for name, c := range map[string]struct {
		messages, size, limit int
		delivered, byHand     bool
		answers               []int
	}{
		"the limit":                    {messages: 12, size: small, limit: 5, answers: []int{5, 5, 2}},
		"exactly the limit":            {messages: 5, size: small, limit: 5, answers: []int{5}},
		"exactly the limit, delivered": {messages: 5, size: small, limit: 5, delivered: true, answers: []int{5}},
		"the size of a few":            {messages: 6, size: large, limit: 100, answers: []int{4, 2}},
		"the size of many":             {messages: 12, size: large, limit: 100, answers: []int{4, 4, 4}},
		"the size of what was delivered": {messages: 6, size: large, limit: 100, delivered: true,
			answers: []int{4, 2}},
		"the size of what stands by hand": {messages: 6, size: large, limit: 100, byHand: true, answers: []int{4, 2}},
		"the limit of what was by hand":   {messages: 6, size: small, limit: 4, byHand: true, answers: []int{4, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := enginetest.New(t, "a", "b")
			payload, _ := json.Marshal(strings.Repeat("x", c.size))
			for i := range c.messages {
				if c.byHand {
					f.SQL(`INSERT INTO agent_inbox (recipient, message_id, payload) VALUES ('b', ?, ?)`,
						fmt.Sprint("by-hand-", i), string(payload))
				} else {
					f.Send("a", "b", func(d *orchestrator.Draft) { d.Payload = payload })
				}
			}
			if c.delivered {
				f.Deliver()
			}
			var answers []int
			seen := map[string]bool{}
			for more := true; more && len(answers) <= c.messages; {
				var ms []orchestrator.Message
				var err error
				if ms, more, err = reading.Wait(t.Context(), f.Ledger,
					reading.Options{Recipient: "b", Limit: c.limit}); err != nil {
					t.Fatal(err)
				}
				answers = append(answers, len(ms))
				for _, m := range ms {
					seen[m.ID] = true
				}
			}
			if !slices.Equal(answers, c.answers) || len(seen) != c.messages {
				t.Errorf("%d different messages came in %v; want %d in %v", len(seen), answers, c.messages, c.answers)
			}
		})
	}
}

// TestWaitReadsInOrderFromALongBacklog checks that a reader gets the matching messages in order: interrupts, then
// priority, then age, however many messages are due. A read delivers at most the usual share and the messages that it
// returns.
func TestWaitReadsInOrderFromALongBacklog(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	readers := 0
	rapid.Check(t, func(rt *rapid.T) {
		readers++
		reader := fmt.Sprint("b", readers)
		f.Add(agents.Update{Name: reader})
		share := rapid.IntRange(1, 5).Draw(rt, "share")
		f.Set("delivery.claim_size", fmt.Sprint(share))
		type row struct {
			id   string
			kind string
			rank int
		}
		var rows []row
		for range rapid.IntRange(0, 25).Draw(rt, "messages") {
			kind, action := rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "type"),
				rapid.SampledFrom([]string{"", "", "queue", "interrupt"}).Draw(rt, "action")
			priority := rapid.IntRange(-1, 1).Draw(rt, "priority")
			id := f.Send("a", reader,
				func(d *orchestrator.Draft) { d.Type, d.Action, d.Priority = kind, action, priority })
			rank := -priority
			if action == "interrupt" {
				rank -= 10
			}
			rows = append(rows, row{id, kind, rank})
		}
		slices.SortStableFunc(rows, func(a, b row) int { return a.rank - b.rank })
		for len(rows) > 0 {
			kind, limit := rapid.SampledFrom([]string{"", "x", "y"}).Draw(rt, "asked"),
				rapid.IntRange(1, 6).Draw(rt, "limit")
			peek := rapid.Bool().Draw(rt, "peek")
			var want, got []string
			more := false
			rows = slices.DeleteFunc(rows, func(r row) bool {
				switch {
				case kind != "" && r.kind != kind:
					return false
				case len(want) == limit:
					more = true
					return false
				}
				want = append(want, r.id)
				return !peek
			})
			before := f.Rows(`SELECT count(*) FROM agent_message WHERE status = 'pending' AND recipient = ?`, reader)[0]
			ms, gotMore, err := reading.Wait(t.Context(), f.Ledger,
				reading.Options{Recipient: reader, Limit: limit, Peek: peek, Filter: reading.Filter{Type: kind}})
			if err != nil {
				rt.Fatal(err)
			}
			for _, m := range ms {
				got = append(got, m.ID)
			}
			if !slices.Equal(got, want) || gotMore != more {
				rt.Fatalf("of type %q, at most %d: got %v, more %v; want %v, more %v", kind, limit, got, gotMore, want,
					more)
			}
			if n := f.Rows(`SELECT ? - count(*) > ? FROM agent_message WHERE status = 'pending' AND recipient = ?`,
				before, max(8, share+limit+1), reader)[0]; n != "0" {
				rt.Fatalf("more was delivered than a share of %d and what was read", share)
			}
			if kind == "" && len(want) == 0 {
				break
			}
		}
	})
}

// TestUnreadOfNothing checks that Unread without messages writes nothing and wakes nobody, as after a wait that timed
// out.
func TestUnreadOfNothing(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	ended, end := context.WithCancel(t.Context())
	end()
	if err := reading.Unread(ended, f.Ledger, nil); err != nil { // a write would need a context that has not ended
		t.Error(err)
	}
}
