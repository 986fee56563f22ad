package messages_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
)

// commanded sends a message as a command that was started for other messages.
func commanded(t *testing.T, f *enginetest.Fixture, sender, recipient string, handed ...string) (orchestrator.Message,
	error) {
	t.Helper()
	ctx := messages.WithCause(t.Context(), messages.NewCause(handed))
	sent, err := messages.Send(ctx, f.Ledger, orchestrator.Draft{Sender: sender, Recipient: recipient})
	if err != nil {
		return orchestrator.Message{}, err
	}
	return f.Message(sent.MessageID), nil
}

// TestCommandsInheritHops checks that commands that send new messages to each other are stopped like a loop of
// answers if they are fast; slow ones continue.
func TestCommandsInheritHops(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.Set("hops.inherited", "5")
	ids := []string{f.Send("a", "b")}
	for hops := 1; hops <= 5; hops++ {
		f.Clock.Advance(time.Second)
		m, err := commanded(t, f, "a", "b", ids[len(ids)-1])
		if err != nil {
			t.Fatal(err)
		}
		want.Equal(t, "hops", m.Hops, hops)
		ids = append(ids, m.ID)
	}
	_, err := commanded(t, f, "a", "b", ids[5])
	want.Code(t, err, orchestrator.Unavailable)
	want.Equal(t, "messages", f.Count("agent_message"), fmt.Sprint(len(ids)))
	if m, err := commanded(t, f, "a", "b", ids[0], ids[5]); err != nil || m.Hops != 6 {
		// the other message is not part of the loop
		t.Errorf("handed one within the limit, too: %d hops, %v", m.Hops, err)
	}
	if _, err := commanded(t, f, "a", orchestrator.Operator, ids[5]); err != nil { // which ends a loop
		t.Errorf("to a person: %v", err)
	}
	m, err := commanded(t, f, "a", "b", ids[1], ids[2]) // of several messages, the one with the most hops counts
	if err != nil || m.Hops != 3 {
		t.Errorf("%d hops, %v", m.Hops, err)
	}
	f.Clock.Advance(11 * time.Minute)
	if m, err := commanded(t, f, "a", "b", ids...); err != nil || m.Hops != 0 {
		t.Errorf("long afterwards: %d hops, %v", m.Hops, err)
	}
}

// TestSlowChainGoesOn checks that a chain beyond the limit that took ten minutes since its first message is counted
// again from the start, with the same limit. The same holds for a chain that was stopped.
func TestSlowChainGoesOn(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.Set("hops.inherited", "3")
	last := f.Send("a", "b")
	next := func(hops int) {
		t.Helper()
		m, err := commanded(t, f, "a", "b", last)
		if err != nil {
			t.Fatal(err)
		}
		want.Equal(t, "hops", m.Hops, hops)
		last = m.ID
	}
	for i := range 6 {
		f.Clock.Advance(4 * time.Minute)
		next((i + 1) % 4)
	}
	next(3)
	_, err := commanded(t, f, "a", "b", last)
	want.Equal(t, "a chain that began eight minutes ago", orchestrator.CodeOf(err), orchestrator.Unavailable)
	f.Clock.Advance(9 * time.Minute)
	next(0)
	for hops := 1; hops <= 3; hops++ {
		next(hops)
	}
	_, err = commanded(t, f, "a", "b", last)
	want.Code(t, err, orchestrator.Unavailable)
}

// TestAnswersAreCountedApart checks that hops that are not answers do not count towards the limit of answers.
func TestAnswersAreCountedApart(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.Set("hops.inherited", "20")
	f.Set("hops.limit", "3")
	last := f.Send("a", "b")
	for range 9 {
		m, err := commanded(t, f, "a", "b", last)
		if err != nil {
			t.Fatal(err)
		}
		last = m.ID
	}
	for range 3 {
		sent, err := messages.Send(t.Context(), f.Ledger,
			orchestrator.Draft{Sender: "b", Recipient: "a", ReplyTo: last})
		if err != nil {
			t.Fatal(err)
		}
		last = sent.MessageID
	}
	_, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "b", Recipient: "a", ReplyTo: last})
	want.Code(t, err, orchestrator.Conflict)
}

// TestSessionsInheritHops checks that a message of a session has one hop more than the newest message shown to the
// session, until a person types something. The session gets a remark about a long chain, and is never refused.
func TestSessionsInheritHops(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.Set("hops.inherited", "2")
	ctx := map[string]context.Context{}
	for _, name := range []string{"a", "b"} {
		ctx[name] = messages.WithCause(t.Context(), messages.NewCause(nil))
	}
	turn := func(sender, recipient string) orchestrator.Sent {
		t.Helper()
		sent, err := messages.Send(ctx[sender], f.Ledger, orchestrator.Draft{Sender: sender, Recipient: recipient})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := reading.Wait(ctx[recipient], f.Ledger, reading.Options{
			Recipient: recipient, Limit: 9, Lease: messages.ReadingLease{For: time.Minute, Holder: "get_messages"},
		}); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(2 * time.Second)
		return sent
	}
	for hops := range 5 {
		sender, recipient := "a", "b"
		if hops%2 == 1 {
			sender, recipient = recipient, sender
		}
		sent := turn(sender, recipient)
		want.Equal(t, "hops", f.Message(sent.MessageID).Hops, min(hops, 2))
		want.Equal(t, fmt.Sprint("it is told of the chain at ", hops), sent.Note != "", hops > 2)
	}
	f.Clock.Advance(11 * time.Minute)
	want.Equal(t, "hops after a pause", f.Message(turn("b", "a").MessageID).Hops, 0)
}

// TestReportsCarryHops checks that the report of a failure has the hops of the failed message.
func TestReportsCarryHops(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.AddWired("w")
	f.Wire.Set(enginetest.Failing("no"))
	f.Set("retry.max_retries", "0")
	first := f.Send("a", "b")
	m, err := commanded(t, f, "a", "w", first)
	if err != nil {
		t.Fatal(err)
	}
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT hops FROM agent_message WHERE message_type = 'error_report' AND reply_to = '`+m.ID+`'`),
		"1")
}
