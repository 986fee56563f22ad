package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store/storetest"
)

// TestEventsOfABatch checks that every message that is kept has exactly one first event, in the order of sending and
// with the right actor, however many sends share a transaction and whichever of them fail after storing rows.
func TestEventsOfABatch(t *testing.T) {
	t.Parallel()
	for place := range 4 {
		for stored := range 3 {
			for _, instance := range []string{"", "another"} { // an event of another actor is written at once
				t.Run(fmt.Sprintf("place %d, %d messages, by %q", place, stored, instance), func(t *testing.T) {
					t.Parallel()
					eventsOfABatch(t, place, stored, instance)
				})
			}
		}
	}
}

func eventsOfABatch(t *testing.T, place, stored int, instance string) {
	f := enginetest.New(t, "a", "b")
	send := func(instance string, n int, recipients ...string) func(context.Context) error {
		var drafts []orchestrator.Draft
		for range n {
			drafts = append(drafts, orchestrator.Draft{Sender: "a", Recipient: "b"})
		}
		for _, name := range recipients {
			drafts = append(drafts, orchestrator.Draft{Sender: "a", Recipient: name})
		}
		return func(ctx context.Context) error {
			outs := messages.SendBatch(ledger.WithInstance(ctx, instance), f.Ledger, drafts, true)
			return outs[len(outs)-1].Refused
		}
	}
	bad := send(instance, stored, "nobody")
	calls := slices.Insert([]func(context.Context) error{send("", 1), send("", 2), send("third", 1)}, place, bad)
	for i, err := range storetest.Together(t, f.Ledger.Store, calls...) {
		if i == place {
			want.Code(t, err, orchestrator.UnknownRecipient)
		} else if err != nil {
			t.Errorf("send %d: %v", i, err)
		}
	}
	sent := f.Rows(`SELECT message_id FROM agent_message ORDER BY seq`)
	want.Equal(t, "messages", len(sent), 4)
	want.Rows(t, f.Rows(`SELECT message_id FROM message_trace WHERE event = 'created' ORDER BY id`), sent...)
	own := f.Instance()
	want.Rows(t, f.Rows(`SELECT actor FROM message_trace WHERE event = 'created' ORDER BY id`), own, own, own, "third")
}
