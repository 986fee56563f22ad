package router_test

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
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
)

// refusing is a delivery that answers with this error for everybody.
func refusing(err error) func(context.Context, orchestrator.Attempt) []error {
	return func(_ context.Context, a orchestrator.Attempt) []error {
		errs := make([]error, len(a.Messages))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
}

// errLater is what a program answers that ends with 75.
var errLater = fmt.Errorf("exit status 75: %w", orchestrator.ErrTryLater)

// A recipient may ask for another time for as long as it likes: no rung is spent, nothing fails, and the message arrives
// when it is taken. Until then it is tried after the waits of the ladder, and the last of them again and again.
func TestPostponedForAnHour(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	f.addWired("b")
	attempts := 0
	f.wire.set(func(_ context.Context, a orchestrator.Attempt) []error {
		attempts++
		return []error{errLater}
	})
	id := f.send("a", "b")
	for range 3600 {
		d := f.deliver()
		want(t, "failed", d.Failed, 0)
		f.clock.advance(time.Second)
	}
	want(t, "attempts in an hour", attempts, 32) // 0, 30, 90, 210, and every 120 s
	m := f.message(id)
	want(t, "status", m.Status, orchestrator.Pending)
	want(t, "retry_count", m.RetryCount, 0)
	want(t, "max_retries", m.MaxRetries, 3)
	want(t, "crashes", m.Crashes, 0)
	if !strings.Contains(m.Error, "75") {
		t.Errorf("error_message %q does not say what the recipient answered", m.Error)
	}
	f.wire.set(nil)
	f.clock.advance(90 * time.Second)
	want(t, "delivered", f.deliver().Delivered, 1)
	m = f.message(id)
	want(t, "status", m.Status, orchestrator.Delivered)
	want(t, "retry_count", m.RetryCount, 0)
	want(t, "error_message", m.Error, "")
	wantRows(t, f.rows(`SELECT event, count(*), max(attempt) FROM message_trace WHERE message_id = ? GROUP BY event ORDER BY event`, id),
		"claimed 33 1", "created 1 0", "delivered 1 1", "overdue 1 0", "released 32 1")
}

// What a failure has cost stays, and what is put off on the ladder costs no further rung.
func TestPostponedOnTheLadder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	f.addWired("b")
	id := f.send("a", "b")
	step := func(answer error, wait time.Duration) {
		t.Helper()
		f.wire.set(refusing(answer))
		f.deliver()
		if wait > 0 {
			f.clock.advance(wait - time.Millisecond)
			before := f.message(id)
			f.deliver()
			want(t, "error_message a millisecond early", f.message(id).Error, before.Error)
			f.clock.advance(time.Millisecond)
		}
	}
	down := errors.New("down")
	step(down, 30*time.Second)
	for i := range 10 {
		step(errLater, []time.Duration{30 * time.Second, 60 * time.Second, 120 * time.Second}[min(i, 2)])
	}
	want(t, "retry_count", f.message(id).RetryCount, 0)
	want(t, "status", f.message(id).Status, orchestrator.Retry)
	step(down, 60*time.Second)
	step(errLater, 120*time.Second)
	step(down, 120*time.Second)
	step(errLater, 120*time.Second)
	want(t, "retry_count", f.message(id).RetryCount, 2)
	step(down, 0)
	m := f.message(id)
	want(t, "status", m.Status, orchestrator.Failed)
	want(t, "retry_count", m.RetryCount, 3)
}

// Being put off keeps the order: what is sent meanwhile does not overtake it. Other senders go on.
func TestPostponedKeepsOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "c")
	f.addWired("b")
	var sent []string
	f.wire.set(func(_ context.Context, a orchestrator.Attempt) []error {
		if a.Messages[0].Sender == "a" {
			return []error{errLater}
		}
		return []error{nil}
	})
	for range 3 {
		sent = append(sent, f.send("a", "b"))
	}
	f.deliver()
	for i, says := range []string{"asked to be tried later", "which a sent before it, is put off until"} {
		reasons, err := overview.Why(t.Context(), f.Ledger, sent[i])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(reasons[0].Rule, says) {
			t.Errorf("of message %d it is said that %s", i, reasons[0].Rule)
		}
	}
	f.clock.advance(10 * time.Second)
	other := f.send("c", "b")
	f.deliver()
	want(t, "status of what another sent", f.message(other).Status, orchestrator.Delivered)
	f.wire.set(nil)
	for range 3 { // now it would take them
		sent = append(sent, f.send("a", "b"))
		f.clock.advance(10 * time.Second)
		f.deliver()
	}
	f.clock.advance(30 * time.Second)
	f.deliver()
	if got := f.wire.ids()[1:]; !slices.Equal(got, sent) {
		t.Errorf("arrived as %v; want %v", got, sent)
	}
}

// A message that is put off ends with its time like any other.
func TestPostponedExpires(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	f.addWired("b")
	f.wire.set(refusing(errLater))
	id := f.send("a", "b", func(d *orchestrator.Draft) { d.TTL = 95 * time.Second })
	forever := f.send("a", "b")
	for range 95 {
		f.deliver()
		f.clock.advance(time.Second)
	}
	f.deliver()
	want(t, "status after its time", f.message(id).Status, orchestrator.Lapsed)
	wantRows(t, f.rows(`SELECT message_type, json_extract(payload, '$.error') FROM agent_message WHERE reply_to = ?`, id), "error_report expired")
	for range 7*24 + 1 { // a week, in steps of an hour
		f.clock.advance(time.Hour)
		f.deliver()
	}
	want(t, "status after a week", f.message(forever).Status, orchestrator.Lapsed)
	want(t, "retry_count", f.message(forever).RetryCount, 0)
	f.wire.set(nil)
	want(t, "delivered after its time", f.deliver().Delivered, 0)
}

// A part of a batch may be put off; the rest is settled as it went.
func TestPostponedPartOfABatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "c", "d")
	f.wire.batch = 10
	f.addWired("b")
	first, second, third := f.send("a", "b"), f.send("c", "b"), f.send("d", "b")
	f.wire.set(func(_ context.Context, a orchestrator.Attempt) []error {
		return []error{nil, errLater, errors.New("no")}[:len(a.Messages)]
	})
	d := f.deliver()
	want(t, "delivered", d.Delivered, 1)
	want(t, "failed", d.Failed, 1)
	want(t, "put off", d.PutOff, 1)
	wantRows(t, f.rows(`SELECT status, retry_count, lease_token FROM agent_message WHERE message_id IN (?, ?, ?) ORDER BY seq`, first, second, third),
		"delivered 0 ", "pending 0 ", "retry 0 ")
}

// A server may ask for a longer wait than the next rung, up to the highest one, and never for a shorter.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		asks  time.Duration
		waits []int // seconds before each retry
	}{
		{-time.Hour, []int{30, 60, 120}},
		{0, []int{30, 60, 120}},
		{10 * time.Second, []int{30, 60, 120}},
		{45 * time.Second, []int{45, 60, 120}},
		{90 * time.Second, []int{90, 90, 120}},
		{120 * time.Second, []int{120, 120, 120}},
		{time.Hour, []int{120, 120, 120}},
		{1<<63 - 1, []int{120, 120, 120}},
	} {
		t.Run(test.asks.String(), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "a")
			f.addWired("b")
			f.wire.set(refusing(fmt.Errorf("503: %w", &orchestrator.RetryAfter{Wait: test.asks, Err: errors.New("overloaded")})))
			id := f.send("a", "b")
			want(t, "failed", f.deliver().Failed, 1)
			said := "503: overloaded"
			if wait := test.waits[0]; wait > 30 {
				said += "; its recipient asks for no other attempt within " + orchestrator.FormatDuration(time.Duration(wait)*time.Second)
			}
			want(t, "error_message on the ladder", f.message(id).Error, said)
			for i, seconds := range test.waits {
				want(t, "retry_count", f.message(id).RetryCount, i)
				f.clock.advance(time.Duration(seconds)*time.Second - time.Millisecond)
				want(t, fmt.Sprintf("attempts a millisecond before %d s", seconds), f.deliver().Failed, 0)
				f.clock.advance(time.Millisecond)
				want(t, fmt.Sprintf("attempts after %d s", seconds), f.deliver().Failed, 1)
			}
			m := f.message(id)
			want(t, "status", m.Status, orchestrator.Failed)
			want(t, "error_message", m.Error, "503: overloaded")
		})
	}
}

// A fallback is for failures: what is put off waits for the recipient.
func TestPostponedIsNotForTheFallback(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	target, fallback := "wire:b", "jsonl:"+filepath.Join(t.TempDir(), "b.jsonl")
	f.add(agents.Update{Name: "b", Deliver: &target, Fallback: &fallback})
	id := f.send("a", "b")
	f.wire.set(refusing(errLater))
	want(t, "delivered", f.deliver().Delivered, 0)
	want(t, "status", f.message(id).Status, orchestrator.Pending)
	f.wire.set(nil)
	f.clock.advance(30 * time.Second)
	f.deliver()
	if got := f.wire.ids(); !slices.Equal(got, []string{id}) {
		t.Errorf("the recipient got %v; want %s", got, id)
	}
}

// Another transport need not wait for what the last one put off, nor does an agent that comes and reads. Either gets what it
// is due in order.
func TestPostponedIsDueElsewhere(t *testing.T) {
	t.Parallel()
	for how, test := range map[string]struct {
		inbox string
		more  bool // messages that nobody put off
	}{"another transport": {"inbox", false}, "and more": {"inbox", true}, "the agent reads": {"", false}, "the agent reads more": {"", true}} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "a", "c")
			f.addWired("b")
			f.wire.set(refusing(errLater))
			sent := []string{f.send("a", "b"), f.send("c", "b")}
			f.deliver()
			if test.inbox != "" {
				f.add(agents.Update{Name: "b", Deliver: &test.inbox})
			}
			if test.more {
				sent = append(sent, f.send("a", "b"), f.send("c", "b"))
			}
			ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range ms {
				got = append(got, m.ID)
			}
			if !slices.Equal(got, sent) {
				t.Errorf("read %v; want %v", got, sent)
			}
		})
	}
}

// What is more urgent does not wait behind what was put off, nor does what is less.
func TestPostponedHoldsBackItsPriorityOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	f.addWired("b")
	f.wire.set(refusing(errLater))
	f.send("a", "b")
	f.deliver()
	f.wire.set(nil)
	level := func(n int) string { return f.send("a", "b", func(d *orchestrator.Draft) { d.Priority = n }) }
	f.send("a", "b")
	urgent, low := level(2), level(-1)
	f.deliver()
	if got := f.wire.ids(); !slices.Equal(got, []string{urgent, low}) {
		t.Errorf("arrived: %v; want %v and %v", got, urgent, low)
	}
}
