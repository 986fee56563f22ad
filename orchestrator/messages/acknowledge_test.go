package messages_test

import (
	"encoding/json"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
)

// wantsToBeTold requests a notification if nobody acknowledges a message in time.
func wantsToBeTold(within time.Duration) func(*orchestrator.Draft) {
	return func(d *orchestrator.Draft) { d.AckWithin = within }
}

// TestUnacknowledgedIsToldOnce checks that the sender is notified once if nobody acknowledged in time, whatever
// happened to the message before. The sender is not notified if the message was acknowledged, or if its end was
// already reported. A restart changes nothing.
func TestUnacknowledgedIsToldOnce(t *testing.T) {
	t.Parallel()
	const within = 10 * time.Minute
	for name, c := range map[string]struct {
		before func(f *enginetest.Fixture, id string)
		notes  int
	}{
		"undelivered": {func(f *enginetest.Fixture, id string) {}, 1},
		"delivered":   {func(f *enginetest.Fixture, id string) { f.Deliver() }, 1},
		"read":        {func(f *enginetest.Fixture, id string) { f.Take("b") }, 1},
		"archived": {func(f *enginetest.Fixture, id string) {
			f.Take("b")
			f.Clock.Advance(within / 2)
			if c, err := retention.ClearOld(f.T.Context(), f.Ledger,
				retention.ClearOptions{OlderThan: time.Second}); err != nil || c.Deleted != 1 {
				f.T.Fatalf("%+v, %v", c, err)
			}
		}, 1},
		"acknowledged": {func(f *enginetest.Fixture, id string) {
			f.Deliver()
			if _, err := messages.Acknowledge(f.T.Context(), f.Ledger, id, "b"); err != nil {
				f.T.Fatal(err)
			}
		}, 0},
		"answered": {func(f *enginetest.Fixture, id string) {
			f.Take("b")
			f.Send("b", "a", func(d *orchestrator.Draft) { d.ReplyTo = id })
		}, 0},
		"answered by somebody else": {func(f *enginetest.Fixture, id string) {
			f.Send("a", "b", func(d *orchestrator.Draft) { d.ReplyTo = id })
		}, 1},
		"confirmed": {func(f *enginetest.Fixture, id string) {
			f.Take("b")
			f.Send("b", "a", func(d *orchestrator.Draft) { d.ReplyTo, d.Acknowledges = id, true })
		}, 0},
		"cancelled": {func(f *enginetest.Fixture, id string) {
			if _, err := messages.Cancel(f.T.Context(), f.Ledger, id, "a"); err != nil {
				f.T.Fatal(err)
			}
		}, 0},
		"expired": {func(f *enginetest.Fixture, id string) {
			f.SQL(`UPDATE agent_message SET expires_at = created_at, review_at = created_at`)
		}, 0},
		"failed": {func(f *enginetest.Fixture, id string) { f.SQL(`UPDATE agent_message SET status = 'failed'`) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := enginetest.New(t, "a", "b")
			id := f.Send("a", "b", wantsToBeTold(within))
			c.before(f, id)
			notes := func() int {
				f.Deliver()
				return len(f.Rows(`SELECT 1 FROM agent_message WHERE message_type = 'acknowledgement_overdue'
					AND recipient = 'a' AND reply_to = ?1`, id))
			}
			f.Clock.Set(enginetest.Start.Add(within - time.Millisecond))
			want.Equal(t, "notes before it is due", notes(), 0)
			f.Clock.Advance(time.Millisecond)
			var done []chan struct{}
			for _, r := range f.OpenAll(3) { // three daemons at once
				ended := make(chan struct{})
				done = append(done, ended)
				go func() {
					defer close(ended)
					if _, err := r.DeliverAll(t.Context(), delivery.Options{}); err != nil {
						t.Error(err)
					}
				}()
			}
			for _, ended := range done {
				<-ended
			}
			want.Equal(t, "notes", notes(), c.notes)
			f.Clock.Advance(100 * within)
			f.Engine = f.Open() // after a restart
			want.Equal(t, "notes after a restart", notes(), c.notes)
			want.Equal(t, "what is still expected", f.Rows(`SELECT count(*) FROM acknowledgement_due`)[0], "0")
			if c.notes == 1 {
				wantNote(f, id)
			}
		})
	}
}

func wantNote(f *enginetest.Fixture, id string) {
	f.T.Helper()
	ms, _, err := reading.Wait(f.T.Context(), f.Ledger, reading.Options{Recipient: "a", Limit: 9})
	if err != nil || len(ms) != 1 {
		f.T.Fatalf("the sender got %v, %v", ms, err)
	}
	var note struct {
		Payload struct{ Message_id, Recipient string }
	}
	if err := json.Unmarshal(ms[0].Payload, &note); err != nil || note.Payload.Message_id != id ||
		note.Payload.Recipient != "b" {
		f.T.Errorf("the note says %s, %v", ms[0].Payload, err)
	}
}

// TestSendAcknowledges checks that a send that acknowledges a message does so once, with the send, and only for a
// message that its sender received.
func TestSendAcknowledges(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	acknowledged := func() []string {
		return f.Rows(`SELECT recipient FROM agent_message WHERE acknowledged_at <> '' AND read_at <> '' ORDER BY seq`)
	}
	confirm := func(sender, id string) orchestrator.Sent {
		t.Helper()
		sent, err := messages.Send(t.Context(), f.Ledger,
			orchestrator.Draft{Sender: sender, Recipient: "a", ReplyTo: id, Acknowledges: true,
				IdempotencyKey: "of " + sender})
		if err != nil {
			t.Fatal(err)
		}
		return sent
	}
	id := f.Send("a", "b")
	confirm("b", id) // not delivered yet
	f.Deliver()
	confirm("c", id)
	want.Equal(t, "repeated", confirm("b", id).Idempotent, true)
	want.Rows(t, acknowledged())
	f.SQL(`DELETE FROM idempotency`)
	confirm("b", id)
	want.Rows(t, acknowledged(), "b")
	at := f.Message(id).AcknowledgedAt
	f.Clock.Advance(time.Minute)
	f.SQL(`DELETE FROM idempotency`)
	confirm("b", id)
	want.Equal(t, "the time of the first", f.Message(id).AcknowledgedAt, at)
	want.Rows(t, f.Rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id`, id), "created", "delivered",
		"read", "acknowledged")
	_, err := messages.Send(t.Context(), f.Ledger,
		orchestrator.Draft{Sender: "b", Recipient: "nobody", ReplyTo: f.Send("a", "b"), Acknowledges: true})
	want.Code(t, err, orchestrator.UnknownRecipient)
	want.Rows(t, acknowledged(), "b")

	th := f.Thread("a", "b", "c")
	post := f.MustPost(th.ID, "a", "b", "c").MessageID
	f.Deliver()
	f.SQL(`DELETE FROM idempotency`)
	confirm("b", post)
	want.Rows(t, f.Rows(`SELECT recipient FROM agent_message WHERE multicast_id = ? AND acknowledged_at <> ''`, post),
		"b")
}

// TestUnacknowledgedByAGroup checks that in a group, each member acknowledges for itself, and the sender is notified
// about each member that does not.
func TestUnacknowledgedByAGroup(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c", "d")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "team", []string{"b", "c", "d"}); err != nil {
		t.Fatal(err)
	}
	sent, err := messages.Send(t.Context(), f.Ledger,
		orchestrator.Draft{Sender: "a", Recipient: "team", Type: "note", AckWithin: time.Minute, IdempotencyKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := messages.Send(t.Context(), f.Ledger,
		orchestrator.Draft{Sender: "a", Recipient: "team", Type: "note", AckWithin: time.Minute,
			IdempotencyKey: "k"}); err != nil || !again.Idempotent {
		t.Fatalf("%+v, %v", again, err)
	}
	f.Deliver()
	if _, err := messages.Acknowledge(t.Context(), f.Ledger, sent.MessageIDs[1], "c"); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(time.Hour)
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT m.recipient FROM agent_message n JOIN agent_message m ON n.reply_to = m.message_id
		WHERE n.message_type = 'acknowledgement_overdue' AND n.recipient = 'a' ORDER BY m.recipient`), "b", "d")
}

// TestUnacknowledgedAndUndelivered checks that a missing acknowledgement of an undelivered message does not hide that
// the message is overdue: the trace reports both, each once.
func TestUnacknowledgedAndUndelivered(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	f.Wire.Set(enginetest.Failing("no"))
	f.Send("a", "b", wantsToBeTold(time.Minute))
	for range 20 {
		f.Clock.Advance(2 * time.Minute)
		f.Deliver()
	}
	want.Rows(t, f.Rows(`SELECT substr(error, 1, 17) FROM message_trace WHERE event = 'overdue' ORDER BY id`),
		"b did not acknowl", "undelivered since")
}

// TestUnacknowledgedWhenTheClockIsSetBack checks that for a message that was sent while the clock was ahead, the time
// for the acknowledgement starts again when the clock is set back.
func TestUnacknowledgedWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	const within = 10 * time.Minute
	f := enginetest.New(t, "a", "b")
	f.Clock.Advance(365 * 24 * time.Hour)
	id := f.Send("a", "b", wantsToBeTold(within))
	f.Clock.Advance(-365 * 24 * time.Hour)
	f.Deliver()
	notes := func() int {
		f.Deliver()
		return len(f.Rows(`SELECT 1 FROM agent_message WHERE message_type = 'acknowledgement_overdue'
			AND reply_to = ?1`, id))
	}
	f.Clock.Advance(within - time.Millisecond)
	want.Equal(t, "notes a moment before", notes(), 0)
	f.Clock.Advance(time.Millisecond)
	want.Equal(t, "notes in time", notes(), 1)
}
