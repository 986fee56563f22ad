package letters_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/retention"
)

// arrival returns a file for an agent behind the scripted transport.
func arrival(id, from, to string) letters.TakenIn {
	return letters.TakenIn{
		ID: id, Path: "/messages/" + id, Target: "wire:" + to, Mark: "noted",
		Draft: orchestrator.Draft{Sender: from, Recipient: to, Type: "note", Payload: []byte(`{"n": 1}`)},
	}
}

// TestTakeInOnce checks that many processes that import the same file make one message.
func TestTakeInOnce(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	routers := []*delivery.Engine{f.Engine, f.Open(), f.Open()}
	var all sync.WaitGroup
	var mu sync.Mutex
	stored := 0
	for i := range 30 {
		all.Go(func() {
			got, err := letters.TakeIn(context.Background(), routers[i%3].Ledger, arrival("m1", "A", "b"))
			mu.Lock()
			defer mu.Unlock()
			if err != nil || !got.Placed {
				t.Errorf("%+v, %v", got, err)
			}
			if !got.Known {
				stored++
			}
		})
	}
	all.Wait()
	want.Equal(t, "stored", stored, 1)
	want.Rows(t, f.Rows(`SELECT message_id, sender, status, payload FROM agent_message`), `m1 a delivered {"n":1}`)
	want.Rows(t, f.Rows(`SELECT event, error FROM message_trace ORDER BY id`), "created taken in from /messages/m1",
		"delivered taken in from /messages/m1")
}

// TestTakeInRefusals checks that files are subject to the same limits as sent messages.
func TestTakeInRefusals(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	f.Set("hops.limit", "1")
	take := func(change func(*letters.TakenIn)) error {
		in := arrival("m2", "a", "b")
		change(&in)
		_, err := letters.TakeIn(t.Context(), f.Ledger, in)
		return err
	}
	if err := take(func(in *letters.TakenIn) { in.ID = "m1" }); err != nil {
		t.Fatal(err)
	}
	if err := take(func(in *letters.TakenIn) { in.ID, in.ReplyTo = "r1", "m1" }); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*letters.TakenIn)
		code   orchestrator.Code
	}{
		"no id":      {func(in *letters.TakenIn) { in.ID = "" }, orchestrator.InvalidParams},
		"a long id":  {func(in *letters.TakenIn) { in.ID = strings.Repeat("x", 257) }, orchestrator.InvalidParams},
		"a bad name": {func(in *letters.TakenIn) { in.Sender = "a b" }, orchestrator.InvalidParams},
		"a fault": {func(in *letters.TakenIn) {
			in.Fault = orchestrator.Errorf(orchestrator.InvalidParams,
				"no")
		}, orchestrator.InvalidParams},
		"no such sender": {func(in *letters.TakenIn) { in.Sender = "x" }, orchestrator.UnknownSender},
		"no such agent":  {func(in *letters.TakenIn) { in.Recipient = "x" }, orchestrator.UnknownRecipient},
		"a group":        {func(in *letters.TakenIn) { in.Recipient = "all" }, orchestrator.UnknownRecipient},
		"a loop":         {func(in *letters.TakenIn) { in.ReplyTo = "r1" }, orchestrator.Conflict},
		"another payload": {func(in *letters.TakenIn) { in.ID, in.Payload = "m1", []byte(`{"n":2}`) },
			orchestrator.Conflict},
		"another sender": {func(in *letters.TakenIn) { in.ID, in.Sender = "m1", "b" }, orchestrator.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			want.Code(t, take(c.change), c.code)
		})
	}
	if err := take(func(in *letters.TakenIn) {
		in.ID, in.Fault = "m1", orchestrator.Errorf(orchestrator.InvalidParams, "no")
	}); err != nil {
		t.Errorf("what speaks against a message that is there already: %v", err)
	}
	want.Rows(t, f.Rows(`SELECT message_id FROM agent_message ORDER BY 1`), "m1", "r1")
}

// TestEachPlaced checks that EachPlaced returns each message once, over several pages and the archive, and that a
// message that changed meanwhile is not acknowledged.
func TestEachPlaced(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	const n = 1203
	for i := range n {
		if _, err := letters.TakeIn(t.Context(), f.Ledger, arrival(fmt.Sprint("m", i), "a", "b")); err != nil {
			t.Fatal(err)
		}
		if i == 600 { // the first 600 go to the archive
			f.Clock.Advance(8 * 24 * 3600e9)
			if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
				t.Fatal(err)
			}
			f.Clock.Advance(8 * 24 * 3600e9)
		}
	}
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := letters.TakeIn(t.Context(), f.Ledger, arrival("fallen back", "a", "b")); err != nil {
		t.Fatal(err)
	}
	f.SQL(`UPDATE agent_message SET delivery_marks = '{"wire:b":"noted","jsonl:/lines":"there"}'
		WHERE message_id = 'fallen back'`)
	archived := f.Rows(`SELECT count(*) FROM agent_message_archive`)
	want.Rows(t, archived, "601")
	seen, acknowledged := map[string]int{}, 0
	err := letters.EachPlaced(t.Context(), f.Ledger, "b", "wire:b", func(page []letters.Placed) error {
		for _, p := range page {
			seen[p.ID]++
			want.Equal(t, "mark", p.Mark, "noted")
			if p.ID == "m700" {
				f.SQL(`UPDATE agent_message SET delivery_marks = '{"wire:b":"another"}' WHERE message_id = 'm700'`)
			}
		}
		done, err := letters.AcknowledgeRemoved(t.Context(), f.Ledger, page)
		acknowledged += done
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "seen", len(seen), n)
	want.Equal(t, "acknowledged", acknowledged, n-1)
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s was seen %d times", id, times)
		}
	}
	want.Rows(t, f.Rows(`SELECT message_id FROM agent_message WHERE acknowledged_at = '' ORDER BY seq`), "m700",
		"fallen back")
	want.Rows(t, f.Rows(`SELECT count(*) FROM agent_message_archive WHERE acknowledged_at = ''`), "0")
}

// TestEachPlacedElsewhere checks that messages delivered elsewhere are not found.
func TestEachPlacedElsewhere(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	if _, err := letters.TakeIn(t.Context(), f.Ledger, arrival("m1", "a", "b")); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"wire:c", "dir:b"} {
		err := letters.EachPlaced(t.Context(), f.Ledger, "b", target, func(page []letters.Placed) error {
			t.Errorf("%d messages were put into %s", len(page), target)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestTakeInDuringDelivery checks an import while a transport is about to write the file, or has written it but not
// settled the delivery. The file belongs to the recipient, whatever the note contains.
func TestTakeInDuringDelivery(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	id := f.Send("a", "b", func(d *orchestrator.Draft) { d.Payload = []byte(`{"n":1}`) })
	look := func() {
		t.Helper()
		got, err := letters.TakeIn(t.Context(), f.Ledger, arrival(id, "a", "b"))
		if err != nil || !got.Known || !got.Placed {
			t.Errorf("%+v, %v", got, err)
		}
	}
	look()
	f.Wire.Set(func(ctx context.Context, a orchestrator.Attempt) []error {
		look()
		if err := a.Mark(ctx, "by the transport"); err != nil {
			t.Error(err)
		}
		look()
		return make([]error, len(a.Messages))
	})
	want.Equal(t, "delivered", f.Deliver().Delivered, 1)
	look()
	want.Rows(t, f.Rows(`SELECT status, delivery_marks FROM agent_message`), `delivered {"wire:b":"by the transport"}`)
	want.Rows(t, f.Rows(`SELECT count(*) FROM message_trace WHERE event = 'delivered'`), "1")
}
