package messages_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/retention"
)

// refused sends a draft that must be refused, and returns its dead letter.
func refused(t *testing.T, f *enginetest.Fixture, d orchestrator.Draft, code orchestrator.Code) string {
	t.Helper()
	_, err := messages.Send(t.Context(), f.Ledger, d)
	want.Code(t, err, code)
	e, ok := errors.AsType[*orchestrator.Error](err)
	if !ok || e.MessageID == "" {
		t.Fatalf("%v names no dead letter", err)
	}
	return e.MessageID
}

// TestRefusedSendArrivesOnce checks that a refused send has one dead letter, however often it is repeated with its
// key. Once the name exists, the message arrives once: by a repetition, by a replay, or by both in any order.
func TestRefusedSendArrivesOnce(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	const sends, replays, delivers = "send", "replay", "deliver"
	for i, then := range [][]string{
		{sends}, {replays}, {sends, replays}, {replays, sends}, {sends, delivers, replays, sends},
		{replays, delivers, sends, replays}, {sends, sends, replays, replays},
	} {
		for _, unknown := range []orchestrator.Code{orchestrator.UnknownRecipient, orchestrator.UnknownSender} {
			name := string(rune('b'+i)) + string(unknown[8:])
			d := orchestrator.Draft{Sender: "a", Recipient: name, Payload: []byte(`1`), IdempotencyKey: "k" + name}
			if unknown == orchestrator.UnknownSender {
				d.Sender, d.Recipient = name, "a"
			}
			letter := refused(t, f, d, unknown)
			for range 2 {
				want.Equal(t, "dead letter of a repeat", refused(t, f, d, unknown), letter)
			}
			f.Add(agents.Update{Name: name})
			first := ""
			for _, does := range then {
				switch does {
				case delivers:
					f.Deliver()
				case replays:
					_, err := messages.Replay(t.Context(), f.Ledger, letter, "")
					if first == "" {
						if first = letter; err != nil {
							t.Fatal(err)
						}
					} else {
						want.Code(t, err, orchestrator.Conflict)
					}
				case sends:
					sent, err := messages.Send(t.Context(), f.Ledger, d)
					if err != nil || sent.Idempotent != (first != "") || first != "" && sent.MessageID != first {
						t.Fatalf("%v of %s: %+v, %v; the first was %q", then, name, sent, err, first)
					}
					first = sent.MessageID
				}
			}
			f.Deliver()
			if unknown == orchestrator.UnknownRecipient {
				want.IDs(t, f.TakeFor(name, 0), first)
			} else {
				want.IDs(t, f.TakeFor("a", 0), first)
			}
			want.Equal(t, "dead letters", f.Count("dead_letter"), "0")
			why, err := overview.Why(t.Context(), f.Ledger, letter)
			if err != nil || first != letter &&
				why[0].Rule != "it was canceled: the sender sent the message again with the same idempotency key" {
				t.Errorf("%+v, %v", why, err)
			}
		}
	}
}

// TestRefusedSendToAGroup checks that each member gets a message if the name turns out to be that of a group.
func TestRefusedSendToAGroup(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	d := orchestrator.Draft{Sender: "a", Recipient: "crew", IdempotencyKey: "k"}
	letter := refused(t, f, d, orchestrator.UnknownRecipient)
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "crew", []string{"b", "c"}); err != nil {
		t.Fatal(err)
	}
	for _, repeated := range []bool{false, true} {
		if sent, err := messages.Send(t.Context(), f.Ledger, d); err != nil || len(sent.MessageIDs) != 2 ||
			sent.Idempotent != repeated {
			t.Errorf("%+v, %v", sent, err)
		}
	}
	_, err := messages.Replay(t.Context(), f.Ledger, letter, "")
	want.Code(t, err, orchestrator.Conflict)
	f.Deliver()
	want.Equal(t, "messages of b", len(f.TakeFor("b", 0)), 1)
	want.Equal(t, "messages of c", len(f.TakeFor("c", 0)), 1)
}

// TestRefusedSendCorrected checks that after a refusal, the sender may correct the recipient, or wait for it, with
// the same key. Anything else is a different message.
func TestRefusedSendCorrected(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "builder")
	d := orchestrator.Draft{Sender: "a", Recipient: "bilder", Payload: []byte(`1`), IdempotencyKey: "k"}
	first := refused(t, f, d, orchestrator.UnknownRecipient)
	other := d
	other.Payload = []byte(`2`)
	_, err := messages.Send(t.Context(), f.Ledger, other)
	want.Code(t, err, orchestrator.Conflict)
	d.Recipient = "buildr"
	second := refused(t, f, d, orchestrator.UnknownRecipient)
	if second == first {
		t.Error("the dead letter is that of another recipient")
	}
	want.Equal(t, "repeated", refused(t, f, d, orchestrator.UnknownRecipient), second)
	d.Recipient = "builder"
	if sent, err := messages.Send(t.Context(), f.Ledger, d); err != nil || sent.Idempotent {
		t.Errorf("%+v, %v", sent, err)
	}
	want.Equal(t, "dead letters", f.Count("dead_letter"), "0")
	d.Recipient = "buildr"
	_, err = messages.Send(t.Context(), f.Ledger, d)
	want.Code(t, err, orchestrator.Conflict)

	d = orchestrator.Draft{Sender: "a", Recipient: "later", IdempotencyKey: "held"}
	refused(t, f, d, orchestrator.UnknownRecipient)
	d.HoldUnknown = true
	for _, repeated := range []bool{false, true} {
		if sent, err := messages.Send(t.Context(), f.Ledger, d); err != nil || !sent.Held ||
			sent.Idempotent != repeated {
			t.Errorf("held: %+v, %v", sent, err)
		}
	}
	f.Add(agents.Update{Name: "later"})
	f.Deliver()
	want.Equal(t, "messages held", len(f.TakeFor("later", 0)), 1)
}

// TestRefusedSendCorrectedInItsBatch checks that the trace of a dead letter begins with its creation, even if the
// corrected send in the same transaction has cancelled it.
func TestRefusedSendCorrectedInItsBatch(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "builder")
	outs := messages.SendBatch(t.Context(), f.Ledger, []orchestrator.Draft{
		{Sender: "a", Recipient: "bilder", IdempotencyKey: "k"},
		{Sender: "a", Recipient: "builder", IdempotencyKey: "k"},
	}, false)
	want.Code(t, outs[0].Refused, orchestrator.UnknownRecipient)
	if outs[1].Refused != nil {
		t.Fatal(outs[1].Refused)
	}
	want.Rows(t, f.Rows(`SELECT event, new_status FROM message_trace ORDER BY id`), "created failed",
		"cancelled cancelled", "created pending")
}

// TestRefusedSendWithAnIDOfItsOwn checks that an id that a sender provides is also a key, and the message that is
// finally sent has this id.
func TestRefusedSendWithAnIDOfItsOwn(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	d := orchestrator.Draft{Sender: "a", Recipient: "b", ID: "own"}
	letter := refused(t, f, d, orchestrator.UnknownRecipient)
	want.Equal(t, "repeated", refused(t, f, d, orchestrator.UnknownRecipient), letter)
	f.Add(agents.Update{Name: "b"})
	for range 2 {
		if sent, err := messages.Send(t.Context(), f.Ledger, d); err != nil || sent.MessageID != "own" {
			t.Errorf("%+v, %v", sent, err)
		}
	}
	f.Deliver()
	want.IDs(t, f.TakeFor("b", 0), "own")
}

// TestRefusedSendInABatch checks that in a batch, a repetition has the dead letter of the earlier line. An atomic
// batch leaves neither dead letter nor key.
func TestRefusedSendInABatch(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	d := orchestrator.Draft{Sender: "a", Recipient: "nobody", IdempotencyKey: "k"}
	lines := []orchestrator.Draft{{Sender: "a", Recipient: "b"}, d, d}
	for range 2 {
		if outs := messages.SendBatch(t.Context(), f.Ledger, lines,
			true); orchestrator.CodeOf(outs[1].Refused) != orchestrator.UnknownRecipient {
			t.Error(outs)
		}
	}
	want.Equal(t, "rows", f.Count("agent_message"), "0")
	want.Equal(t, "keys", f.Count("idempotency"), "0")
	outs := messages.SendBatch(t.Context(), f.Ledger, lines, false)
	if outs[0].Refused != nil || outs[1].Refused == nil || outs[2].Refused == nil ||
		outs[1].Refused.Error() != outs[2].Refused.Error() {
		t.Error(outs)
	}
	want.Equal(t, "dead letters", f.Count("dead_letter"), "1")
	f.Add(agents.Update{Name: "nobody"})
	outs = messages.SendBatch(t.Context(), f.Ledger, lines, false)
	if outs[0].Refused != nil || outs[1].Refused != nil || outs[2].Refused != nil || outs[1].Sent.Idempotent ||
		!outs[2].Sent.Idempotent {
		t.Error(outs)
	}
	f.Deliver()
	want.Equal(t, "messages", len(f.TakeFor("nobody", 0)), 1)
}

// TestKeyGoesWithItsDeadLetter checks that a key is deleted with its dead letter, whether retention or a person
// deletes it.
func TestKeyGoesWithItsDeadLetter(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	d := orchestrator.Draft{Sender: "a", Recipient: "nobody", IdempotencyKey: "k"}
	first := refused(t, f, d, orchestrator.UnknownRecipient)
	f.Clock.Advance(8 * 24 * time.Hour)
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "keys", f.Count("idempotency"), "0")
	second := refused(t, f, d, orchestrator.UnknownRecipient)
	f.SQL(`DELETE FROM agent_message`)
	third := refused(t, f, d, orchestrator.UnknownRecipient)
	if slices.Contains([]string{"", first, second}, third) {
		t.Error(first, second, third)
	}
	want.Equal(t, "dead letters", f.Count("dead_letter"), "1")
}

// TestRefusedSendAtOnce checks that concurrent sends over two connections leave one dead letter, and one message once
// it can be sent, even if the dead letter is replayed meanwhile.
func TestRefusedSendAtOnce(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	routers := []*delivery.Engine{f.Engine, f.Open()}
	d := orchestrator.Draft{Sender: "a", Recipient: "b", IdempotencyKey: "k"}
	atOnce := func(code orchestrator.Code, also func(l *delivery.Engine)) {
		t.Helper()
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				_, err := messages.Send(t.Context(), routers[i%2].Ledger, d)
				if (err != nil || code != "") && orchestrator.CodeOf(err) != code {
					t.Error(err)
				}
			})
			if also != nil {
				wg.Go(func() { also(routers[i%2]) })
			}
		}
		wg.Wait()
	}
	atOnce(orchestrator.UnknownRecipient, nil)
	letters := f.Rows(`SELECT message_id FROM dead_letter`)
	want.Equal(t, "dead letters", len(letters), 1)
	f.Add(agents.Update{Name: "b"})
	atOnce("", func(e *delivery.Engine) {
		if _, err := messages.Replay(t.Context(), e.Ledger, letters[0], ""); err != nil &&
			orchestrator.CodeOf(err) != orchestrator.Conflict {
			t.Error(err)
		}
	})
	f.Deliver()
	want.Equal(t, "messages", len(f.TakeFor("b", 0)), 1)
}
