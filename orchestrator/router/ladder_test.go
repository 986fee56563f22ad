package router_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/reading"
)

// The ladder to the second: attempts at once, then 30, 60 and 120 s after the failure before, then a dead letter.
func TestLadderToTheSecond(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "architect")
	f.addWired("builder")
	f.wire.set(failing("no answer"))
	id := f.send("architect", "builder")
	for i, wait := range []time.Duration{0, 30 * time.Second, 60 * time.Second, 120 * time.Second} {
		if wait > 0 {
			f.clock.advance(wait - time.Millisecond)
			want(t, "attempts a millisecond early", f.deliver().Failed, 0)
			f.clock.advance(time.Millisecond)
		}
		d := f.deliver()
		want(t, fmt.Sprintf("failed attempts at rung %d", i), d.Failed, 1)
		e := d.Errors[0]
		want(t, "code", e.Code, orchestrator.DeliveryFailed)
		want(t, "retry_count", e.RetryCount, i)
		want(t, "retry_count in the table", f.message(id).RetryCount, i)
		want(t, "will_retry_at is set", e.RetryAt != "", i < 3)
	}
	m := f.message(id)
	want(t, "status", m.Status, orchestrator.Failed)
	want(t, "error_message", m.Error, "no answer")
	wantRows(t, f.rows(`SELECT event, attempt, (julianday(at) - julianday('2026-01-02T03:04:05.000Z')) * 86400 + 0.5 | 0 AS second
		FROM message_trace WHERE message_id = ? AND event IN ('attempt_failed','failed') ORDER BY id`, id),
		"attempt_failed 1 0", "attempt_failed 2 30", "attempt_failed 3 90", "attempt_failed 4 210", "failed 4 210")
	f.clock.advance(time.Hour)
	want(t, "attempts after the end", f.deliver().Failed, 0)
}

func TestMaxRetriesOfTheRow(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "architect")
	f.addWired("builder")
	f.wire.set(failing("no"))
	five := 5
	id := f.send("architect", "builder", func(d *orchestrator.Draft) { d.MaxRetries = &five })
	zero := 0
	once := f.send("architect", "builder", func(d *orchestrator.Draft) { d.MaxRetries = &zero })
	f.deliver()
	want(t, "status with no retries", f.message(once).Status, orchestrator.Failed)
	for _, wait := range []int{30, 60, 120, 120, 120} { // the last rung repeats
		f.clock.advance(time.Duration(wait)*time.Second - time.Millisecond)
		want(t, "early", f.deliver().Failed, 0)
		f.clock.advance(time.Millisecond)
		want(t, "due", f.deliver().Failed, 1)
	}
	m := f.message(id)
	want(t, "status", m.Status, orchestrator.Failed)
	want(t, "retry_count", m.RetryCount, 5)
}

func TestRetrySucceeds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "architect")
	f.addWired("builder")
	f.wire.set(failing("down"))
	id := f.send("architect", "builder")
	f.deliver()
	f.wire.set(nil)
	f.clock.advance(30 * time.Second)
	want(t, "delivered", f.deliver().Delivered, 1)
	m := f.message(id)
	want(t, "status", m.Status, orchestrator.Delivered)
	want(t, "retry_count", m.RetryCount, 1)
	want(t, "error_message", m.Error, "")
}

// A transport that does not come back within the delivery timeout has failed, with the code of the document.
func TestDeliveryTimeout(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "architect")
	f.addWired("builder")
	f.wire.set(func(ctx context.Context, a orchestrator.Attempt) []error {
		<-ctx.Done()
		return []error{ctx.Err()}
	})
	f.send("architect", "builder")
	d, err := f.DeliverAll(t.Context(), delivery.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "failed", d.Failed, 1)
	want(t, "code", d.Errors[0].Code, orchestrator.DeliveryTimeout)
}

func TestUndecidableFailsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "architect")
	f.addWired("builder")
	f.wire.set(func(_ context.Context, a orchestrator.Attempt) []error {
		return []error{fmt.Errorf("rotated: %w", orchestrator.ErrUndecidable)}
	})
	id := f.send("architect", "builder")
	f.deliver()
	m := f.message(id)
	want(t, "status", m.Status, orchestrator.Failed)
	if !strings.Contains(m.Error, "cannot tell") {
		t.Errorf("error %q does not say so", m.Error)
	}
}

// A message to a name that nobody has, written by hand, climbs the ladder and then fails.
func TestUnknownRecipientByHandClimbs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "architect")
	f.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('m1', 'architect', 'nobody', '1')`)
	for _, wait := range []int{0, 30, 60, 120} {
		f.clock.advance(time.Duration(wait) * time.Second)
		want(t, "failed", f.deliver().Failed, 1)
	}
	want(t, "status", f.message("m1").Status, orchestrator.Failed)
}

// Each message that fails sends one report to its sender, and a report never does.
func TestBounce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addWired("architect") // its own transport fails too
	f.addWired("builder")
	f.wire.set(failing("down"))
	f.setting("retry.max_retries", "0")
	id := f.send("architect", "builder")
	f.deliver()
	f.deliver()
	f.deliver()
	wantRows(t, f.rows(`SELECT sender, recipient, message_type, status, reply_to = ?, json_extract(payload, '$.error') FROM agent_message ORDER BY seq`, id),
		"architect builder note failed <nil> <nil>", "system architect error_report failed 1 delivery_failed")
}

// A lease that runs out costs no rung; every third does, so that a message which kills its process ends.
func TestPoisonEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "architect")
	f.addWired("builder")
	id := f.send("architect", "builder")
	crash := func() {
		f.sql(`UPDATE agent_message SET lease_token = 'dead', lease_owner = 'gone', lease_until = ? WHERE message_id = ?`,
			f.clock.now().Add(time.Second).Format("2006-01-02T15:04:05.000Z"), id)
		f.clock.advance(time.Second)
	}
	f.wire.set(func(context.Context, orchestrator.Attempt) []error { return []error{errors.New("must not be reached")} })
	attempts := 0
	for i := 1; f.message(id).Status != orchestrator.Failed; i++ {
		if i > 20 {
			t.Fatal("it never ends")
		}
		crash()
		// The row is due again at once; take it away from the next delivery by another crash, until a rung is spent.
		if _, err := delivery.Poll(t.Context(), f.Ledger, "builder", 1); err != nil {
			t.Fatal(err)
		}
		if _, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "architect", Limit: 1}); err != nil {
			t.Fatal(err)
		}
		f.deliverNothing(id)
		attempts = i
	}
	want(t, "crashes until it failed", attempts, 12)
	want(t, "crashes", f.message(id).Crashes, 12)
}

// deliverNothing runs what a delivery run does before it claims, by delivering to somebody else.
func (f *fixture) deliverNothing(id string) {
	f.t.Helper()
	if _, err := f.DeliverAll(f.t.Context(), delivery.Options{Recipient: "architect"}); err != nil {
		f.t.Fatal(err)
	}
	if m := f.message(id); m.Status == orchestrator.Retry {
		f.clock.advance(2 * time.Minute) // over the rung
	}
}

// A clock set forward and back strands nothing: rungs and leases are brought back to what they can be at most.
func TestClockForwardAndBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "architect")
	f.addWired("builder")
	f.wire.set(failing("down"))
	f.clock.advance(5 * time.Hour)
	id := f.send("architect", "builder")
	f.deliver()
	f.clock.advance(-5 * time.Hour)
	f.wire.set(nil)
	f.deliver() // brings the rung down
	f.clock.advance(2 * time.Minute)
	f.deliver()
	want(t, "status", f.message(id).Status, orchestrator.Delivered)
	second := f.send("architect", "builder") // pending is due now, whatever the clock did
	f.deliver()
	want(t, "status of a send after the set-back", f.message(second).Status, orchestrator.Delivered)
	if bad := f.rows(`SELECT a.id FROM message_trace a JOIN message_trace b ON b.id = a.id + 1 WHERE b.at < a.at`); len(bad) > 0 {
		t.Errorf("times in the trace go backwards after rows %v", bad)
	}
}
