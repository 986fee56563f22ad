package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
)

// TestLadderToTheSecond checks the retry schedule: an attempt at once, then 30, 60 and 120 s after each failure, then
// a dead letter.
func TestLadderToTheSecond(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect")
	f.AddWired("builder")
	f.Wire.Set(enginetest.Failing("no answer"))
	id := f.Send("architect", "builder")
	for i, wait := range []time.Duration{0, 30 * time.Second, 60 * time.Second, 120 * time.Second} {
		if wait > 0 {
			f.Clock.Advance(wait - time.Millisecond)
			want.Equal(t, "attempts a millisecond early", f.Deliver().Failed, 0)
			f.Clock.Advance(time.Millisecond)
		}
		d := f.Deliver()
		want.Equal(t, fmt.Sprintf("failed attempts at rung %d", i), d.Failed, 1)
		e := d.Errors[0]
		want.Equal(t, "code", e.Code, orchestrator.DeliveryFailed)
		want.Equal(t, "retry_count", e.RetryCount, i)
		want.Equal(t, "retry_count in the table", f.Message(id).RetryCount, i)
		want.Equal(t, "will_retry_at is set", e.RetryAt != "", i < 3)
	}
	m := f.Message(id)
	want.Equal(t, "status", m.Status, orchestrator.Failed)
	want.Equal(t, "error_message", m.Error, "no answer")
	want.Rows(t, f.Rows(`SELECT event, attempt, CAST(round((julianday(at) - julianday('2026-01-02T03:04:05.000Z')) * 86400) AS INTEGER) AS second
		FROM message_trace WHERE message_id = ? AND event IN ('attempt_failed','failed') ORDER BY id`, id),
		"attempt_failed 1 0", "attempt_failed 2 30", "attempt_failed 3 90", "attempt_failed 4 210", "failed 4 210")
	f.Clock.Advance(time.Hour)
	want.Equal(t, "attempts after the end", f.Deliver().Failed, 0)
}

func TestMaxRetriesOfTheRow(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect")
	f.AddWired("builder")
	f.Wire.Set(enginetest.Failing("no"))
	five := 5
	id := f.Send("architect", "builder", func(d *orchestrator.Draft) { d.MaxRetries = &five })
	zero := 0
	once := f.Send("architect", "builder", func(d *orchestrator.Draft) { d.MaxRetries = &zero })
	f.Deliver()
	want.Equal(t, "status with no retries", f.Message(once).Status, orchestrator.Failed)
	for _, wait := range []int{30, 60, 120, 120, 120} { // the last wait repeats
		f.Clock.Advance(time.Duration(wait)*time.Second - time.Millisecond)
		want.Equal(t, "early", f.Deliver().Failed, 0)
		f.Clock.Advance(time.Millisecond)
		want.Equal(t, "due", f.Deliver().Failed, 1)
	}
	m := f.Message(id)
	want.Equal(t, "status", m.Status, orchestrator.Failed)
	want.Equal(t, "retry_count", m.RetryCount, 5)
}

func TestRetrySucceeds(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect")
	f.AddWired("builder")
	f.Wire.Set(enginetest.Failing("down"))
	id := f.Send("architect", "builder")
	f.Deliver()
	f.Wire.Set(nil)
	f.Clock.Advance(30 * time.Second)
	want.Equal(t, "delivered", f.Deliver().Delivered, 1)
	m := f.Message(id)
	want.Equal(t, "status", m.Status, orchestrator.Delivered)
	want.Equal(t, "retry_count", m.RetryCount, 1)
	want.Equal(t, "error_message", m.Error, "")
}

// TestDeliveryTimeout checks that a transport that does not return within the delivery timeout has failed, with the
// error code of the document.
func TestDeliveryTimeout(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect")
	f.AddWired("builder")
	f.Wire.Set(func(ctx context.Context, a orchestrator.Attempt) []error {
		<-ctx.Done()
		return []error{ctx.Err()}
	})
	f.Send("architect", "builder")
	d, err := f.DeliverAll(t.Context(), delivery.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "failed", d.Failed, 1)
	want.Equal(t, "code", d.Errors[0].Code, orchestrator.DeliveryTimeout)
}

func TestUndecidableFailsAtOnce(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect")
	f.AddWired("builder")
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		return []error{fmt.Errorf("rotated: %w", orchestrator.ErrUndecidable)}
	})
	id := f.Send("architect", "builder")
	f.Deliver()
	m := f.Message(id)
	want.Equal(t, "status", m.Status, orchestrator.Failed)
	if !strings.Contains(m.Error, "cannot tell") {
		t.Errorf("error %q does not say so", m.Error)
	}
}

// TestUnknownRecipientByHandClimbs checks that a message written by hand to an unknown name is retried according to
// the schedule and then fails.
func TestUnknownRecipientByHandClimbs(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect")
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload)
		VALUES ('m1', 'architect', 'nobody', '1')`)
	for _, wait := range []int{0, 30, 60, 120} {
		f.Clock.Advance(time.Duration(wait) * time.Second)
		want.Equal(t, "failed", f.Deliver().Failed, 1)
	}
	want.Equal(t, "status", f.Message("m1").Status, orchestrator.Failed)
}

// TestBounce checks that each failed message causes one report to its sender, and a report causes none.
func TestBounce(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	f.AddWired("architect") // its own transport fails, too
	f.AddWired("builder")
	f.Wire.Set(enginetest.Failing("down"))
	f.Set("retry.max_retries", "0")
	id := f.Send("architect", "builder")
	f.Deliver()
	f.Deliver()
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT sender, recipient, message_type, status, reply_to = ?, json_extract(payload, '$.error')
		FROM agent_message ORDER BY seq`, id),
		"architect builder note failed <nil> <nil>", "system architect error_report failed 1 delivery_failed")
}

// TestPoisonEnds checks that an expired lease uses up no retry, but every third one does, so that a message that
// kills its process is given up.
func TestPoisonEnds(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect")
	f.AddWired("builder")
	id := f.Send("architect", "builder")
	crash := func() {
		f.SQL(`UPDATE agent_message SET lease_token = 'dead', lease_owner = 'gone', lease_until = ?
			WHERE message_id = ?`,
			f.Clock.Now().Add(time.Second).Format("2006-01-02T15:04:05.000Z"), id)
		f.Clock.Advance(time.Second)
	}
	f.Wire.Set(func(context.Context, orchestrator.Attempt) []error { return []error{errors.New("must not be reached")} })
	attempts := 0
	for i := 1; f.Message(id).Status != orchestrator.Failed; i++ {
		if i > 20 {
			t.Fatal("it never ends")
		}
		crash()
		// The row is due again at once; another crash takes it away from the next delivery until a retry is used up.
		if _, err := delivery.Poll(t.Context(), f.Ledger, "builder", 1); err != nil {
			t.Fatal(err)
		}
		if _, _, err := reading.Wait(t.Context(), f.Ledger,
			reading.Options{Recipient: "architect", Limit: 1}); err != nil {
			t.Fatal(err)
		}
		deliverNothing(f, id)
		attempts = i
	}
	want.Equal(t, "crashes until it failed", attempts, 12)
	want.Equal(t, "crashes", f.Message(id).Crashes, 12)
}

// deliverNothing runs the steps of a delivery run before the claim, by delivering to another recipient.
func deliverNothing(f *enginetest.Fixture, id string) {
	f.T.Helper()
	if _, err := f.DeliverAll(f.T.Context(), delivery.Options{Recipient: "architect"}); err != nil {
		f.T.Fatal(err)
	}
	if m := f.Message(id); m.Status == orchestrator.Retry {
		f.Clock.Advance(2 * time.Minute) // past the wait for the retry
	}
}

// TestClockForwardAndBack checks that a clock that is set forward and back strands nothing: retry times and leases
// are moved back to their latest possible time.
func TestClockForwardAndBack(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect")
	f.AddWired("builder")
	f.Wire.Set(enginetest.Failing("down"))
	f.Clock.Advance(5 * time.Hour)
	id := f.Send("architect", "builder")
	f.Deliver()
	f.Clock.Advance(-5 * time.Hour)
	f.Wire.Set(nil)
	f.Deliver() // moves the retry time back
	f.Clock.Advance(2 * time.Minute)
	f.Deliver()
	want.Equal(t, "status", f.Message(id).Status, orchestrator.Delivered)
	second := f.Send("architect", "builder") // a pending message is due now, whatever the clock did
	f.Deliver()
	want.Equal(t, "status of a send after the set-back", f.Message(second).Status, orchestrator.Delivered)
	if bad := f.Rows(`SELECT a.id FROM message_trace a JOIN message_trace b ON b.id = a.id + 1
		WHERE b.at < a.at`); len(bad) > 0 {
		t.Errorf("times in the trace go backwards after rows %v", bad)
	}
}

// TestRefusedForGood checks that a message that its recipient refuses permanently is a dead letter at once, without a
// retry and without the fallback, and its sender is notified. Later messages continue.
func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	target, fallback := "wire:b", "jsonl:"+filepath.Join(t.TempDir(), "b.jsonl")
	f.Add(agents.Update{Name: "b", Deliver: &target, Fallback: &fallback})
	id := f.Send("a", "b")
	f.Wire.Set(enginetest.Refusing(fmt.Errorf("exit status 65: %w", orchestrator.ErrRefused)))
	d := f.Deliver()
	want.Equal(t, "failed attempts", d.Failed, 1)
	m := f.Message(id)
	want.Equal(t, "status", m.Status, orchestrator.Failed)
	want.Equal(t, "retry_count", m.RetryCount, 0)
	if !strings.Contains(m.Error, "exit status 65") {
		t.Errorf("error_message %q does not say what the recipient answered", m.Error)
	}
	want.Rows(t, f.Rows(`SELECT event, attempt FROM message_trace WHERE message_id = ? ORDER BY id`, id),
		"created 0", "claimed 1", "attempt_failed 1", "failed 1")
	want.Rows(t, f.Rows(`SELECT message_type, json_extract(payload, '$.message_id') FROM agent_message
		WHERE recipient = 'a'`), "error_report "+id)
	f.Wire.Set(nil)
	next := f.Send("a", "b")
	want.Equal(t, "delivered", f.Deliver().Delivered >= 1, true)
	want.Equal(t, "the next one", f.Message(next).Status, orchestrator.Delivered)
}

// TestRetryStorm makes a transport fail for 500 messages of five senders until their last attempt, as when the
// service behind it is down for three minutes. Then each message arrives once, none is a dead letter, and the trace
// contains each attempt.
func TestRetryStorm(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "s1", "s2", "s3", "s4", "s5")
	f.AddWired("w")
	f.Wire.Batch = 100
	const each = 100
	for n := range each * 5 {
		f.Send(fmt.Sprintf("s%d", n%5+1), "w")
	}
	f.Wire.Set(enginetest.Failing("down"))
	for _, wait := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
		if did := f.Deliver(); did.Delivered != 0 || did.Failed != each*5 {
			t.Fatalf("while it is down: %+v", did)
		}
		f.Clock.Advance(wait)
	}
	f.Wire.Set(nil)
	if did := f.Deliver(); did.Delivered != each*5 || did.Failed != 0 {
		t.Errorf("when it is up again: %+v", did)
	}
	want.Rows(t, f.Rows(`SELECT event, count(*), count(DISTINCT message_id) FROM message_trace
		GROUP BY event ORDER BY event`), "attempt_failed 1500 500", "claimed 2000 500", "created 500 500", "delivered 500 500")
	ids := f.Wire.IDs()
	slices.Sort(ids)
	want.Equal(t, "arrivals", len(ids), each*5)
	want.Equal(t, "messages that arrived", len(slices.Compact(ids)), each*5)
}
