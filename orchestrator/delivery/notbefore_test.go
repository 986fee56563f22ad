package delivery_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
)

// in delays a message by a duration.
func in(d time.Duration) func(*orchestrator.Draft) {
	return func(draft *orchestrator.Draft) { draft.Delay = d }
}

// TestNotBefore checks that a message is delivered no earlier than its sender requested, by a run and to a waiter,
// through a table and through a worker. It does not block later messages, and is not overdue before.
func TestNotBefore(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"inbox", "wire:b"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			f := enginetest.New(t, "a")
			f.Add(agents.Update{Name: "b", Deliver: &target})
			const due = "2026-01-02T05:04:05.000Z"
			late := f.Send("a", "b", in(2*time.Hour))
			soon := f.Send("a", "b")
			m := f.Message(late)
			want.Equal(t, "not_before", m.NotBefore, due)
			want.Equal(t, "next attempt", m.NextAttemptAt, due)
			want.Equal(t, "expiry", m.ExpiresAt, "2026-01-09T05:04:05.000Z")
			want.Equal(t, "next run, since a message is due", f.NextDue(), f.Stamp())
			f.Deliver()
			want.Equal(t, "status of what was sent later", f.Message(soon).Status, orchestrator.Delivered)
			want.Equal(t, "status", f.Message(late).Status, orchestrator.Pending)
			f.Clock.Advance(time.Hour)
			f.Deliver() // reviews
			want.Equal(t, "why", f.Why(late).Rule, "a requested delivery no earlier than "+due)
			want.Equal(t, "overdue", f.Why(late).Overdue, false)
			want.Equal(t, "the doctor on what is overdue", finding(f, "overdue").Level, "ok")
			state, err := overview.Status(t.Context(), f.Ledger)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range state.Recipients {
				if b.Recipient == "b" && (b.Pending != 1 || b.Later != 1 || b.NextAt != due || b.OldestAt != "") {
					t.Errorf("status: %+v", b)
				}
			}
			want.Equal(t, "overdue", state.Overdue, int64(0))
			want.Equal(t, "next run", f.NextDue(), "2026-01-02T05:04:05.000Z")
			f.Clock.Advance(time.Hour - time.Millisecond)
			if ms, _, err := reading.Wait(t.Context(), f.Ledger,
				reading.Options{Recipient: "b", Limit: 10}); err != nil || len(ms) > 0 && ms[0].ID == late {
				t.Errorf("a reader gets it too early: %v, %v", ms, err)
			}
			f.Deliver()
			want.Equal(t, "status a moment before", f.Message(late).Status, orchestrator.Pending)
			f.Clock.Advance(time.Millisecond)
			f.Deliver()
			want.Equal(t, "status", f.Message(late).Status, orchestrator.Delivered)
			want.Equal(t, "overdue events", len(f.Rows(`SELECT 1 FROM message_trace WHERE event = 'overdue'`)), 0)
		})
	}
}

// TestNotBeforeIsOverdueLater checks that an undelivered message is overdue some minutes after it was due.
func TestNotBeforeIsOverdueLater(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	f.Wire.Set(enginetest.Failing("no"))
	f.Send("a", "b", in(time.Hour))
	f.Clock.Advance(time.Hour)
	f.Deliver()
	want.Equal(t, "overdue", finding(f, "overdue").Level, "ok")
	f.Clock.Advance(5*time.Minute + time.Millisecond)
	f.Deliver()
	want.Equal(t, "overdue", finding(f, "overdue").Level, "problem")
	want.Rows(t, f.Rows(`SELECT error FROM message_trace WHERE event = 'overdue'`),
		"undelivered since 2026-01-02T04:04:05.000Z")
}

// TestNotBeforeBounds checks the limits: thirty days, and before the end of a TTL. A past time means at once.
func TestNotBeforeBounds(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	at := func(d time.Duration) func(*orchestrator.Draft) {
		return func(draft *orchestrator.Draft) { draft.NotBefore = f.Clock.Now().Add(d) }
	}
	for name, c := range map[string]struct {
		change  func(*orchestrator.Draft)
		ttl     time.Duration
		refused string
		want    string
	}{
		"thirty days":          {in(30 * 24 * time.Hour), 0, "", "2026-02-01T03:04:05.000Z"},
		"a time in 30 days":    {at(30 * 24 * time.Hour), 0, "", "2026-02-01T03:04:05.000Z"},
		"more":                 {in(30*24*time.Hour + time.Second), 0, "0s to 30d", ""},
		"a time beyond":        {at(30*24*time.Hour + time.Second), 0, "at most 30d in the future", ""},
		"a past time":          {at(-time.Hour), 0, "", ""},
		"negative":             {in(-time.Second), 0, "0s to 30d", ""},
		"within its ttl":       {in(time.Hour), time.Hour + time.Second, "", "2026-01-02T04:04:05.000Z"},
		"when its ttl is over": {in(time.Hour), time.Hour, "before the message expires", ""},
	} {
		d := orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note", TTL: c.ttl}
		c.change(&d)
		sent, err := messages.Send(t.Context(), f.Ledger, d)
		if c.refused == "" && (err != nil || sent.NotBefore != c.want) {
			t.Errorf("%s: %q, %v", name, sent.NotBefore, err)
		}
		if c.refused != "" &&
			(orchestrator.CodeOf(err) != orchestrator.InvalidParams || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNotBeforeByHand checks that a not_before that somebody wrote is converted and limited, or removed.
func TestNotBeforeByHand(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	for id, value := range map[string]string{
		"our form": `'2026-01-02T05:00:00.000Z'`, "another form": `'2026-01-02 06:00:00+01:00'`,
		"a BLOB": `x'32303236'`, "a number": `7`,
		"nonsense": `'tomorrow'`, "far": `'9999-01-01'`, "past": `'2025-01-01'`,
	} {
		f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, not_before)
			VALUES (?, 'a', 'b', 'null', `+value+`)`, id)
	}
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, not_before, ttl_seconds)
		VALUES ('behind its ttl', 'a', 'b', '2026-01-02T05:00:00.000Z', 60)`)
	f.Deliver()
	const far = "2026-02-01T03:04:05.000Z"
	want.Rows(t, f.Rows(`SELECT message_id, status, not_before, next_attempt_at, expires_at FROM agent_message
		ORDER BY message_id`),
		"a BLOB delivered   2026-01-09T03:04:05.000Z",
		"a number delivered   2026-01-09T03:04:05.000Z",
		"another form pending 2026-01-02T05:00:00.000Z 2026-01-02T05:00:00.000Z 2026-01-09T05:00:00.000Z",
		"behind its ttl delivered   2026-01-02T03:05:05.000Z",
		"far pending "+far+" "+far+" 2026-02-08T03:04:05.000Z",
		"nonsense delivered   2026-01-09T03:04:05.000Z",
		"our form pending 2026-01-02T05:00:00.000Z 2026-01-02T05:00:00.000Z 2026-01-09T05:00:00.000Z",
		"past delivered 2025-01-01T00:00:00.000Z  2026-01-09T03:04:05.000Z",
	)
	// Both columns written by hand, in a row that the engine already manages.
	f.SQL(`UPDATE agent_message SET not_before = '9999', next_attempt_at = '9999' WHERE message_id = 'our form'`)
	f.Deliver()
	want.Equal(t, "not_before", f.Message("our form").NotBefore, far)
	// A clock that was set back.
	f.Clock.Advance(-24 * time.Hour)
	f.Deliver()
	want.Equal(t, "next attempt", f.Message("far").NextAttemptAt, "2026-01-31T03:04:05.000Z")
}

// TestNotBeforeAndItsEnds checks that a delayed message can be cancelled, that a failed one waits for its time when
// it is replayed, and that a recipient that reads its messages itself does not get it early.
func TestNotBeforeAndItsEnds(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	id := f.Send("a", "b", in(time.Hour))
	if _, err := messages.Cancel(t.Context(), f.Ledger, id, "a"); err != nil {
		t.Fatal(err)
	}
	_, err := messages.Send(t.Context(), f.Ledger,
		orchestrator.Draft{Sender: "a", Recipient: "c", Type: "note", Delay: time.Hour})
	want.Code(t, err, orchestrator.UnknownRecipient)
	letter := f.Rows(`SELECT message_id FROM agent_message WHERE status = 'failed'`)[0]
	f.AddWired("c")
	if _, err := messages.Replay(t.Context(), f.Ledger, letter, ""); err != nil {
		t.Fatal(err)
	}
	f.Deliver()
	want.Equal(t, "arrived", len(f.Wire.IDs()), 0)
	m := f.Message(letter)
	want.Equal(t, "next attempt", m.NextAttemptAt, "2026-01-02T04:04:05.000Z")
	want.Equal(t, "expiry", m.ExpiresAt, "2026-01-09T04:04:05.000Z")
	if ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "c", Limit: 1}); err != nil ||
		len(ms) > 0 {
		t.Errorf("a reader got %v, %v", ms, err)
	}
	f.Clock.Advance(time.Hour)
	f.Deliver()
	want.Equal(t, "arrived", strings.Join(f.Wire.IDs(), " "), letter)
}

// TestNotBeforeThenPutOff checks that a message that its recipient postpones after it was due blocks later messages.
func TestNotBeforeThenPutOff(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	f.Wire.Set(enginetest.Refusing(enginetest.ErrLater))
	first := f.Send("a", "b", in(time.Hour))
	f.Clock.Advance(time.Hour)
	f.Deliver()
	f.Wire.Set(nil)
	second := f.Send("a", "b")
	f.Deliver()
	want.Equal(t, "arrived", len(f.Wire.IDs()), 0)
	f.Clock.Advance(30 * time.Second)
	f.Deliver()
	want.Equal(t, "arrived", strings.Join(f.Wire.IDs(), " "), first+" "+second)
}

// TestNotBeforeIsRepeatable checks that a repetition of an idempotency key with the same delay is the same send at
// any time.
func TestNotBeforeIsRepeatable(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	d := orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note", Delay: time.Hour, IdempotencyKey: "k"}
	first, err := messages.Send(t.Context(), f.Ledger, d)
	if err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(2 * time.Hour)
	again, err := messages.Send(t.Context(), f.Ledger, d)
	if err != nil || !again.Idempotent || again.NotBefore != first.NotBefore || first.NotBefore == "" {
		t.Errorf("%+v, %v", again, err)
	}
	d.Delay = time.Minute
	_, err = messages.Send(t.Context(), f.Ledger, d)
	want.Code(t, err, orchestrator.Conflict)
}

// TestNotBeforeAcknowledged checks that the time for an acknowledgement starts when the message is due.
func TestNotBeforeAcknowledged(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.Send("a", "b", in(30*24*time.Hour), func(d *orchestrator.Draft) { d.AckWithin = 30 * 24 * time.Hour })
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT due_at FROM acknowledgement_due`), "2026-03-03T03:04:05.000Z")
}

// TestManyAreWantedLater checks that any number of delayed messages does not block due ones, and that no statement
// that looks for due times walks through them.
func TestManyAreWantedLater(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	drafts := make([]orchestrator.Draft, 2000)
	for i := range drafts {
		drafts[i] = orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note", Payload: fmt.Append(nil, i),
			Delay: time.Hour}
	}
	if outs := messages.SendBatch(t.Context(), f.Ledger, drafts, true); outs[0].Refused != nil {
		t.Fatal(outs[0].Refused)
	}
	id := f.Send("a", "b")
	f.Deliver()
	want.Equal(t, "arrived", strings.Join(f.Wire.IDs(), " "), id)
	want.Equal(t, "in the index of what was put off",
		len(f.Rows(`SELECT 1 FROM agent_message INDEXED BY agent_message_put_off
		WHERE status = 'pending' AND next_attempt_at <> '' AND next_attempt_at <> not_before`)), 0)
}

// TestNotBeforeWakesTheDaemon checks that the timers of a daemon and of a waiter end when a message is due.
func TestNotBeforeWakesTheDaemon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := enginetest.NewBubble(t)
		defer f.Close()
		f.Add(agents.Update{Name: "a"})
		id := f.Send("a", "a", in(time.Minute))
		began := time.Now()
		ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "a", Limit: 1, Timeout: time.Hour})
		if err != nil || len(ms) != 1 || ms[0].ID != id {
			t.Fatalf("%v, %v", ms, err)
		}
		if took := time.Since(began).Round(time.Second); took != time.Minute {
			t.Errorf("a waiter got it after %s", took)
		}
		f.Send("a", "a", in(30*time.Second))
		wakeups, stop, err := delivery.Wakeups(t.Context(), f.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		began = time.Now()
		<-wakeups
		if took := time.Since(began).Round(time.Second); took != 30*time.Second {
			t.Errorf("a daemon was woken after %s", took)
		}
	})
}

// TestNotBeforeOfAnswers checks that a delayed answer goes directly to its recipient, because posts in a thread
// appear at once. An answer that decides a team's request cannot be delayed.
func TestNotBeforeOfAnswers(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.MustPost(f.Thread("a", "b").ID, "a", "b")
	sent, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{
		Sender: "b", Recipient: "a", Type: "note", Delay: time.Hour,
		ReplyTo: f.Rows(`SELECT message_id FROM agent_message WHERE recipient = 'b'`)[0],
	})
	if err != nil || sent.Joined != "" || !strings.Contains(sent.Outside, "scheduled for later") {
		t.Errorf("%+v, %v", sent, err)
	}
	asked := f.MustAsk(orchestrator.PlanApproval, "b", "a")
	_, err = messages.Send(t.Context(), f.Ledger, orchestrator.Draft{
		Sender: "a", Recipient: "b", Type: "note", Delay: time.Hour, ReplyTo: asked.MessageID,
		SessionID: enginetest.Room, Verdict: enginetest.Verdict(true),
	})
	want.Code(t, err, orchestrator.InvalidParams)
}
