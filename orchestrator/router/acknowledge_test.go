package router_test

import (
	"encoding/json"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
)

// wantsToBeTold asks to be told when nobody has acknowledged a message in time.
func wantsToBeTold(within time.Duration) func(*orchestrator.Draft) {
	return func(d *orchestrator.Draft) { d.AckWithin = within }
}

// The sender is told once when nobody acknowledged in time, whatever became of the message before that; and never when it
// was acknowledged, or when its end was told already. A restart changes nothing.
func TestUnacknowledgedIsToldOnce(t *testing.T) {
	t.Parallel()
	const within = 10 * time.Minute
	for name, c := range map[string]struct {
		before func(f *fixture, id string)
		notes  int
	}{
		"undelivered": {func(f *fixture, id string) {}, 1},
		"delivered":   {func(f *fixture, id string) { f.deliver() }, 1},
		"read":        {func(f *fixture, id string) { f.take("b") }, 1},
		"archived": {func(f *fixture, id string) {
			f.take("b")
			f.clock.advance(within / 2)
			if c, err := retention.ClearOld(f.t.Context(), f.Ledger, retention.ClearOptions{OlderThan: time.Second}); err != nil || c.Deleted != 1 {
				f.t.Fatalf("%+v, %v", c, err)
			}
		}, 1},
		"acknowledged": {func(f *fixture, id string) {
			f.deliver()
			if _, err := messages.Acknowledge(f.t.Context(), f.Ledger, id, "b"); err != nil {
				f.t.Fatal(err)
			}
		}, 0},
		"answered": {func(f *fixture, id string) {
			f.take("b")
			f.send("b", "a", func(d *orchestrator.Draft) { d.ReplyTo = id })
		}, 0},
		"answered by somebody else": {func(f *fixture, id string) {
			f.send("a", "b", func(d *orchestrator.Draft) { d.ReplyTo = id })
		}, 1},
		"confirmed": {func(f *fixture, id string) {
			f.take("b")
			f.send("b", "a", func(d *orchestrator.Draft) { d.ReplyTo, d.Acknowledges = id, true })
		}, 0},
		"cancelled": {func(f *fixture, id string) {
			if _, err := messages.Cancel(f.t.Context(), f.Ledger, id, "a"); err != nil {
				f.t.Fatal(err)
			}
		}, 0},
		"expired": {func(f *fixture, id string) {
			f.sql(`UPDATE agent_message SET expires_at = created_at, review_at = created_at`)
		}, 0},
		"failed": {func(f *fixture, id string) { f.sql(`UPDATE agent_message SET status = 'failed'`) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "a", "b")
			id := f.send("a", "b", wantsToBeTold(within))
			c.before(f, id)
			notes := func() int {
				f.deliver()
				return len(f.rows(`SELECT 1 FROM agent_message WHERE message_type = 'acknowledgement_overdue' AND recipient = 'a' AND reply_to = ?1`, id))
			}
			f.clock.at = newClock().at.Add(within - time.Millisecond)
			want(t, "notes before it is due", notes(), 0)
			f.clock.advance(time.Millisecond)
			var done []chan struct{}
			for _, r := range f.openAll(3) { // three daemons at once
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
			want(t, "notes", notes(), c.notes)
			f.clock.advance(100 * within)
			f.Engine = f.open() // after a restart
			want(t, "notes after a restart", notes(), c.notes)
			want(t, "what is still expected", f.rows(`SELECT count(*) FROM acknowledgement_due`)[0], "0")
			if c.notes == 1 {
				wantNote(f, id)
			}
		})
	}
}

func (f *fixture) take(agent string) {
	f.t.Helper()
	if ms, _, err := reading.Wait(f.t.Context(), f.Ledger, reading.Options{Recipient: agent, Limit: 9}); err != nil || len(ms) == 0 {
		f.t.Fatalf("%s got %v, %v", agent, ms, err)
	}
}

func wantNote(f *fixture, id string) {
	f.t.Helper()
	ms, _, err := reading.Wait(f.t.Context(), f.Ledger, reading.Options{Recipient: "a", Limit: 9})
	if err != nil || len(ms) != 1 {
		f.t.Fatalf("the sender got %v, %v", ms, err)
	}
	var note struct {
		Payload struct{ Message_id, Recipient string }
	}
	if err := json.Unmarshal(ms[0].Payload, &note); err != nil || note.Payload.Message_id != id || note.Payload.Recipient != "b" {
		f.t.Errorf("the note says %s, %v", ms[0].Payload, err)
	}
}

// A send that acknowledges does so once, with the send, and only for what its sender got.
func TestSendAcknowledges(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	acknowledged := func() []string {
		return f.rows(`SELECT recipient FROM agent_message WHERE acknowledged_at <> '' AND read_at <> '' ORDER BY seq`)
	}
	confirm := func(sender, id string) orchestrator.Sent {
		t.Helper()
		sent, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: sender, Recipient: "a", ReplyTo: id, Acknowledges: true, IdempotencyKey: "of " + sender})
		if err != nil {
			t.Fatal(err)
		}
		return sent
	}
	id := f.send("a", "b")
	confirm("b", id) // not delivered yet
	f.deliver()
	confirm("c", id)
	want(t, "repeated", confirm("b", id).Idempotent, true)
	wantRows(t, acknowledged())
	f.sql(`DELETE FROM idempotency`)
	confirm("b", id)
	wantRows(t, acknowledged(), "b")
	at := f.message(id).AcknowledgedAt
	f.clock.advance(time.Minute)
	f.sql(`DELETE FROM idempotency`)
	confirm("b", id)
	want(t, "the time of the first", f.message(id).AcknowledgedAt, at)
	wantRows(t, f.rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id`, id), "created", "delivered", "read", "acknowledged")
	_, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "b", Recipient: "nobody", ReplyTo: f.send("a", "b"), Acknowledges: true})
	wantCode(t, err, orchestrator.UnknownRecipient)
	wantRows(t, acknowledged(), "b")

	th := f.thread("a", "b", "c")
	post := f.mustPost(th.ID, "a", "b", "c").MessageID
	f.deliver()
	f.sql(`DELETE FROM idempotency`)
	confirm("b", post)
	wantRows(t, f.rows(`SELECT recipient FROM agent_message WHERE multicast_id = ? AND acknowledged_at <> ''`, post), "b")
}

// Of a group each member acknowledges for itself, and the sender is told of each that does not.
func TestUnacknowledgedByAGroup(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c", "d")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "team", []string{"b", "c", "d"}); err != nil {
		t.Fatal(err)
	}
	sent, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "team", Type: "note", AckWithin: time.Minute, IdempotencyKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "team", Type: "note", AckWithin: time.Minute, IdempotencyKey: "k"}); err != nil || !again.Idempotent {
		t.Fatalf("%+v, %v", again, err)
	}
	f.deliver()
	if _, err := messages.Acknowledge(t.Context(), f.Ledger, sent.MessageIDs[1], "c"); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(time.Hour)
	f.deliver()
	wantRows(t, f.rows(`SELECT m.recipient FROM agent_message n JOIN agent_message m ON n.reply_to = m.message_id
		WHERE n.message_type = 'acknowledgement_overdue' AND n.recipient = 'a' ORDER BY m.recipient`), "b", "d")
}

// That nobody acknowledged an undelivered message in time does not hide that it is undelivered for too long: the trace
// tells both, each once.
func TestUnacknowledgedAndUndelivered(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	f.addWired("b")
	f.wire.set(failing("no"))
	f.send("a", "b", wantsToBeTold(time.Minute))
	for range 20 {
		f.clock.advance(2 * time.Minute)
		f.deliver()
	}
	wantRows(t, f.rows(`SELECT substr(error, 1, 17) FROM message_trace WHERE event = 'overdue' ORDER BY id`), "b has not acknowl", "undelivered since")
}

// A message that was sent while the clock was ahead is reported as long after it was set back as its sender asked for.
func TestUnacknowledgedWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	const within = 10 * time.Minute
	f := newFixture(t, "a", "b")
	f.clock.advance(365 * 24 * time.Hour)
	id := f.send("a", "b", wantsToBeTold(within))
	f.clock.advance(-365 * 24 * time.Hour)
	f.deliver()
	notes := func() int {
		f.deliver()
		return len(f.rows(`SELECT 1 FROM agent_message WHERE message_type = 'acknowledgement_overdue' AND reply_to = ?1`, id))
	}
	f.clock.advance(within - time.Millisecond)
	want(t, "notes a moment before", notes(), 0)
	f.clock.advance(time.Millisecond)
	want(t, "notes in time", notes(), 1)
}
