package messages_test

import (
	"fmt"
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
	"mailroom/orchestrator/retention"
)

// numbered returns an id with the recipient, the second and a number.
func numbered(recipient string, at time.Time, sequence int) string {
	return fmt.Sprintf("%s-%s-%03d", recipient, at.UTC().Format("150405"), sequence)
}

func withNumber(d *orchestrator.Draft) { d.MakeID = numbered }

// TestMadeIDs checks that ids that a draft creates are numbered per recipient and second. An id that is taken, even
// by an archived message or by somebody else, is not created again.
func TestMadeIDs(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	want.Equal(t, "first", f.Send("a", "b", withNumber), "b-030405-001")
	want.Equal(t, "second", f.Send("c", "b", withNumber), "b-030405-002")
	want.Equal(t, "to another", f.Send("a", "c", withNumber), "c-030405-001")
	want.Equal(t, "created at", f.Message("b-030405-001").CreatedAt, "2026-01-02T03:04:05.000Z")
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('b-030405-003', 'c', 'a', '1')`)
	want.Equal(t, "after one of another program", f.Send("a", "b", withNumber), "b-030405-004")
	f.Clock.Advance(time.Second)
	want.Equal(t, "in the next second", f.Send("a", "b", withNumber), "b-030406-001")

	f.Deliver()
	f.Clock.Advance(8 * 24 * time.Hour)
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "archived", len(f.Rows(`SELECT 1 FROM agent_message_archive`)), 6)
	want.Equal(t, "at the same time of the day", f.Send("a", "b", withNumber), "b-030406-002")
	f.Clock.Advance(-time.Hour)
	want.Equal(t, "when the clock was set back", f.Send("a", "b", withNumber), "b-030406-003")
}

// TestMadeIDsOfGroupsAndRefusals checks that each message to a group has an id of its own, and so has a refused
// message. A repetition of a key returns the first ids.
func TestMadeIDsOfGroupsAndRefusals(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "crew", []string{"c", "b"}); err != nil {
		t.Fatal(err)
	}
	d := orchestrator.Draft{Sender: "a", Recipient: "crew", MakeID: numbered, IdempotencyKey: "k"}
	for range 2 {
		sent, err := messages.Send(t.Context(), f.Ledger, d)
		if err != nil || !slices.Equal(sent.MessageIDs, []string{"c-030405-001", "b-030405-001"}) {
			t.Errorf("%+v, %v", sent, err)
		}
	}
	_, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "bb", MakeID: numbered})
	want.Code(t, err, orchestrator.UnknownRecipient)
	want.Rows(t, f.Rows(`SELECT message_id FROM dead_letter`), "bb-030405-001")
	outs := messages.SendBatch(t.Context(), f.Ledger, []orchestrator.Draft{
		{Sender: "a", Recipient: "b", MakeID: numbered}, {Sender: "a", Recipient: "nobody-at-all"},
		{Sender: "a", Recipient: "b", MakeID: numbered},
	}, false)
	want.Code(t, outs[1].Refused, orchestrator.UnknownRecipient)
	want.Rows(t, f.Rows(`SELECT message_id FROM agent_message WHERE recipient = 'b' ORDER BY seq`), "b-030405-001",
		"b-030405-002", "b-030405-003")
}

// TestMadeIDsAtOnce sends from many senders over two connections during one second of the fake clock, and checks that
// every number occurs once and none is skipped.
func TestMadeIDsAtOnce(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	const sent = 1200
	routers := []*delivery.Engine{f.Engine, f.Open()}
	ids := make([]string, sent)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < sent; i += 8 {
				sent, err := messages.Send(t.Context(), routers[i%2].Ledger,
					orchestrator.Draft{Sender: "a", Recipient: "b", MakeID: numbered})
				if err != nil {
					t.Error(err)
				}
				ids[i] = sent.MessageID
			}
		})
	}
	wg.Wait()
	slices.Sort(ids)
	var all []string
	for n := range sent {
		all = append(all, fmt.Sprintf("b-030405-%03d", n+1))
	}
	slices.Sort(all)
	if !slices.Equal(ids, all) {
		t.Errorf("ids from %s to %s, %d of them", ids[0], ids[len(ids)-1], len(slices.Compact(ids)))
	}
	want.Equal(t, "the last of them", f.Rows(`SELECT message_id FROM agent_message ORDER BY seq DESC LIMIT 1`)[0],
		"b-030405-1200")
}

// TestSendWithPresence checks that the activity that a sender reports is recorded with its message, in the named
// session, and not without the message.
func TestSendWithPresence(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	status := func() (s orchestrator.PresenceStatus) {
		t.Helper()
		list, err := agents.Presences(t.Context(), f.Ledger, "s")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			if p.Agent != "a" {
				t.Errorf("%+v", p)
			}
			s = p.Status
		}
		return s
	}
	d := orchestrator.Draft{Sender: "a", Recipient: "nobody", SessionID: "S", Presence: orchestrator.Idle,
		IdempotencyKey: "k"}
	_, err := messages.Send(t.Context(), f.Ledger, d)
	want.Code(t, err, orchestrator.UnknownRecipient)
	want.Equal(t, "after a refusal", status(), "")
	d.Recipient = "b"
	send := func(what string, then orchestrator.PresenceStatus) {
		t.Helper()
		if _, err := messages.Send(t.Context(), f.Ledger, d); err != nil {
			t.Fatal(err)
		}
		want.Equal(t, what, status(), then)
	}
	send("after the send", orchestrator.Idle)
	key := d.IdempotencyKey
	d.IdempotencyKey, d.Presence = "", orchestrator.Working
	send("after another", orchestrator.Working)
	d.IdempotencyKey, d.Presence = key, orchestrator.Idle
	send("after a repeat of the first", orchestrator.Working)
	d.SessionID, d.IdempotencyKey = "no name", ""
	_, err = messages.Send(t.Context(), f.Ledger, d)
	want.Code(t, err, orchestrator.InvalidParams)
	d.SessionID = ""
	send("in no session", orchestrator.Working)
	list, err := agents.Presences(t.Context(), f.Ledger, orchestrator.DefaultSession)
	if err != nil || len(list) != 1 || list[0].Status != orchestrator.Idle {
		t.Errorf("%+v, %v", list, err)
	}
	want.Rows(t, f.Rows(`SELECT session_id FROM agent_message WHERE recipient = 'b' ORDER BY seq`), "s", "s", "<nil>")
}

// TestOwnIDAtOnce checks that an id that senders provide identifies one message, however many send it at once. A
// different message with the same id is refused.
func TestOwnIDAtOnce(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	routers := []*delivery.Engine{f.Engine, f.Open()}
	fresh := make([]bool, 20)
	var wg sync.WaitGroup
	for i := range fresh {
		wg.Go(func() {
			sent, err := messages.Send(t.Context(), routers[i%2].Ledger,
				orchestrator.Draft{Sender: "a", Recipient: "b", ID: "own", Type: "x"})
			if err != nil || sent.MessageID != "own" {
				t.Errorf("%q, %v", sent.MessageID, err)
			}
			fresh[i] = !sent.Idempotent
		})
	}
	wg.Wait()
	want.Equal(t, "sent", len(slices.DeleteFunc(fresh, func(sent bool) bool { return !sent })), 1)
	want.Equal(t, "rows", len(f.Rows(`SELECT 1 FROM agent_message`)), 1)
	for _, d := range []orchestrator.Draft{
		{Sender: "a", Recipient: "c", ID: "own", Type: "x"}, {Sender: "c", Recipient: "b", ID: "own", Type: "x"},
		{Sender: "a", Recipient: "b", ID: "own", Type: "y"},
	} {
		_, err := messages.Send(t.Context(), f.Ledger, d)
		want.Code(t, err, orchestrator.Conflict)
	}
}

// TestIDUsedAgain checks that an id of a message that has been archived may be used again. Each of its messages is
// handed out, and reading or acknowledging one of them does not affect the others.
func TestIDUsedAgain(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	const write = `INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('first', 'a', 'b', '1'),
		('second', 'a', 'b', '1'), ('third', 'a', ?, '1')`
	archive := func() {
		t.Helper()
		f.Clock.Advance(8 * 24 * time.Hour)
		if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.SQL(write, "b")
	f.Deliver()
	archive()
	want.IDs(t, f.TakeFor("b", 0), "first", "second", "third") // from the archive; their rows in the inbox remain
	f.SQL(write, "c")
	f.Deliver()
	want.Equal(t, "messages of ids used again", len(f.TakeFor("b", 0)), 2)
	archive()
	if _, err := messages.Acknowledge(t.Context(), f.Ledger, "third", "b"); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT recipient, read_at <> '', acknowledged_at <> '' FROM agent_message_archive
		WHERE message_id = 'third' ORDER BY recipient`), "b 1 1", "c 0 0")
}
