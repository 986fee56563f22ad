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
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
)

// TestPostponedForAnHour checks that a recipient may request a later attempt as often as it likes: no retry is used
// up, nothing fails, and the message arrives when it is accepted. Until then the attempts follow the retry schedule,
// whose last wait repeats.
func TestPostponedForAnHour(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	attempts := 0
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		attempts++
		return []error{enginetest.ErrLater}
	})
	id := f.Send("a", "b")
	deliver := func() int {
		want.Equal(t, "failed", f.Deliver().Failed, 0)
		return attempts
	}
	for range 120 { // every attempt is due at a multiple of 30 s
		tried := deliver()
		f.Clock.Advance(29 * time.Second)
		want.Equal(t, "attempts a second early", deliver(), tried)
		f.Clock.Advance(time.Second)
	}
	want.Equal(t, "attempts in an hour", attempts, 32) // at 0, 30, 90, 210 s, and then every 120 s
	m := f.Message(id)
	want.Equal(t, "status", m.Status, orchestrator.Pending)
	want.Equal(t, "retry_count", m.RetryCount, 0)
	want.Equal(t, "max_retries", m.MaxRetries, 3)
	want.Equal(t, "crashes", m.Crashes, 0)
	if !strings.Contains(m.Error, "75") {
		t.Errorf("error_message %q does not say what the recipient answered", m.Error)
	}
	f.Wire.Set(nil)
	f.Clock.Advance(90 * time.Second)
	want.Equal(t, "delivered", f.Deliver().Delivered, 1)
	m = f.Message(id)
	want.Equal(t, "status", m.Status, orchestrator.Delivered)
	want.Equal(t, "retry_count", m.RetryCount, 0)
	want.Equal(t, "error_message", m.Error, "")
	want.Rows(t, f.Rows(`SELECT event, count(*), max(attempt) FROM message_trace WHERE message_id = ? GROUP BY event
		ORDER BY event`, id),
		"claimed 33 1", "created 1 0", "delivered 1 1", "overdue 1 0", "released 32 1")
}

// TestPostponedOnTheLadder checks that retries used up by failures remain used up, and postponing a message that is
// being retried uses up no further retry.
func TestPostponedOnTheLadder(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	id := f.Send("a", "b")
	step := func(answer error, wait time.Duration) {
		t.Helper()
		f.Wire.Set(enginetest.Refusing(answer))
		f.Deliver()
		if wait > 0 {
			f.Clock.Advance(wait - time.Millisecond)
			before := f.Message(id)
			f.Deliver()
			want.Equal(t, "error_message a millisecond early", f.Message(id).Error, before.Error)
			f.Clock.Advance(time.Millisecond)
		}
	}
	down := errors.New("down")
	step(down, 30*time.Second)
	for i := range 10 {
		step(enginetest.ErrLater, []time.Duration{30 * time.Second, 60 * time.Second, 120 * time.Second}[min(i, 2)])
	}
	want.Equal(t, "retry_count", f.Message(id).RetryCount, 0)
	want.Equal(t, "status", f.Message(id).Status, orchestrator.Retry)
	step(down, 60*time.Second)
	step(enginetest.ErrLater, 120*time.Second)
	step(down, 120*time.Second)
	step(enginetest.ErrLater, 120*time.Second)
	want.Equal(t, "retry_count", f.Message(id).RetryCount, 2)
	step(down, 0)
	m := f.Message(id)
	want.Equal(t, "status", m.Status, orchestrator.Failed)
	want.Equal(t, "retry_count", m.RetryCount, 3)
}

// TestPostponedKeepsOrder checks that postponing keeps the order: later messages do not overtake the postponed one.
// Messages of other senders continue.
func TestPostponedKeepsOrder(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "c")
	f.AddWired("b")
	var sent []string
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		if a.Messages[0].Sender == "a" {
			return []error{enginetest.ErrLater}
		}
		return []error{nil}
	})
	for range 3 {
		sent = append(sent, f.Send("a", "b"))
	}
	f.Deliver()
	for i, says := range []string{"asked Mailroom to try again later", "before it, and that message is deferred until"} {
		reasons, err := overview.Why(t.Context(), f.Ledger, sent[i])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(reasons[0].Rule, says) {
			t.Errorf("of message %d it is said that %s", i, reasons[0].Rule)
		}
	}
	f.Clock.Advance(10 * time.Second)
	other := f.Send("c", "b")
	f.Deliver()
	want.Equal(t, "status of what another sent", f.Message(other).Status, orchestrator.Delivered)
	f.Wire.Set(nil)
	for range 3 { // now the recipient would accept them
		sent = append(sent, f.Send("a", "b"))
		f.Clock.Advance(10 * time.Second)
		f.Deliver()
	}
	f.Clock.Advance(30 * time.Second)
	f.Deliver()
	if got := f.Wire.IDs()[1:]; !slices.Equal(got, sent) {
		t.Errorf("arrived as %v; want %v", got, sent)
	}
}

// TestPostponedExpires checks that a postponed message expires like any other.
func TestPostponedExpires(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	f.Wire.Set(enginetest.Refusing(enginetest.ErrLater))
	id := f.Send("a", "b", func(d *orchestrator.Draft) { d.TTL = 95 * time.Second })
	forever := f.Send("a", "b")
	for range 95 {
		f.Deliver()
		f.Clock.Advance(time.Second)
	}
	f.Deliver()
	want.Equal(t, "status after its time", f.Message(id).Status, orchestrator.Expired)
	want.Rows(t, f.Rows(`SELECT message_type, json_extract(payload, '$.error') FROM agent_message WHERE reply_to = ?`,
		id), "error_report expired")
	for range 7*24 + 1 { // a week, in steps of an hour
		f.Clock.Advance(time.Hour)
		f.Deliver()
	}
	want.Equal(t, "status after a week", f.Message(forever).Status, orchestrator.Expired)
	want.Equal(t, "retry_count", f.Message(forever).RetryCount, 0)
	f.Wire.Set(nil)
	want.Equal(t, "delivered after its time", f.Deliver().Delivered, 0)
}

// TestPostponedPartOfABatch checks that some messages of a batch may be postponed; the others are settled by their
// results.
func TestPostponedPartOfABatch(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "c", "d")
	f.Wire.Batch = 10
	f.AddWired("b")
	first, second, third := f.Send("a", "b"), f.Send("c", "b"), f.Send("d", "b")
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		return []error{nil, enginetest.ErrLater, errors.New("no")}[:len(a.Messages)]
	})
	d := f.Deliver()
	want.Equal(t, "delivered", d.Delivered, 1)
	want.Equal(t, "failed", d.Failed, 1)
	want.Equal(t, "put off", d.PutOff, 1)
	want.Rows(t, f.Rows(`SELECT status, retry_count, lease_token FROM agent_message WHERE message_id IN (?, ?, ?)
		ORDER BY seq`, first, second, third),
		"delivered 0 ", "pending 0 ", "retry 0 ")
}

// TestRetryAfter checks that a server may request a longer wait than the next one of the schedule, up to the longest
// one, but not a shorter wait.
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
			f := enginetest.New(t, "a")
			f.AddWired("b")
			f.Wire.Set(enginetest.Refusing(fmt.Errorf("503: %w",
				&orchestrator.RetryAfter{Wait: test.asks, Err: errors.New("overloaded")})))
			id := f.Send("a", "b")
			want.Equal(t, "failed", f.Deliver().Failed, 1)
			said := "503: overloaded"
			if wait := test.waits[0]; wait > 30 {
				said += "; the recipient asked for no further attempt within " +
					orchestrator.FormatDuration(time.Duration(wait)*time.Second)
			}
			want.Equal(t, "error_message on the ladder", f.Message(id).Error, said)
			for i, seconds := range test.waits {
				want.Equal(t, "retry_count", f.Message(id).RetryCount, i)
				f.Clock.Advance(time.Duration(seconds)*time.Second - time.Millisecond)
				want.Equal(t, fmt.Sprintf("attempts a millisecond before %d s", seconds), f.Deliver().Failed, 0)
				f.Clock.Advance(time.Millisecond)
				want.Equal(t, fmt.Sprintf("attempts after %d s", seconds), f.Deliver().Failed, 1)
			}
			m := f.Message(id)
			want.Equal(t, "status", m.Status, orchestrator.Failed)
			want.Equal(t, "error_message", m.Error, "503: overloaded")
		})
	}
}

// TestPostponedIsNotForTheFallback checks that a fallback is for failures: postponed messages wait for the recipient.
func TestPostponedIsNotForTheFallback(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	target, fallback := "wire:b", "jsonl:"+filepath.Join(t.TempDir(), "b.jsonl")
	f.Add(agents.Update{Name: "b", Deliver: &target, Fallback: &fallback})
	id := f.Send("a", "b")
	f.Wire.Set(enginetest.Refusing(enginetest.ErrLater))
	want.Equal(t, "delivered", f.Deliver().Delivered, 0)
	want.Equal(t, "status", f.Message(id).Status, orchestrator.Pending)
	f.Wire.Set(nil)
	f.Clock.Advance(30 * time.Second)
	f.Deliver()
	if got := f.Wire.IDs(); !slices.Equal(got, []string{id}) {
		t.Errorf("the recipient got %v; want %s", got, id)
	}
}

// TestPostponedIsDueElsewhere checks that another transport need not wait for messages that the previous one
// postponed, and neither must an agent that reads its messages itself. Both get the messages in order.
func TestPostponedIsDueElsewhere(t *testing.T) {
	t.Parallel()
	for how, test := range map[string]struct {
		inbox string
		more  bool // messages that were not postponed
	}{"another transport": {"inbox", false}, "and more": {"inbox", true}, "the agent reads": {"", false},
		"the agent reads more": {"", true}} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := enginetest.New(t, "a", "c")
			f.AddWired("b")
			f.Wire.Set(enginetest.Refusing(enginetest.ErrLater))
			sent := []string{f.Send("a", "b"), f.Send("c", "b")}
			f.Deliver()
			if test.inbox != "" {
				f.Add(agents.Update{Name: "b", Deliver: &test.inbox})
			}
			if test.more {
				sent = append(sent, f.Send("a", "b"), f.Send("c", "b"))
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

// TestPostponedHoldsBackItsPriorityOnly checks that messages of higher or lower priority do not wait behind a
// postponed one.
func TestPostponedHoldsBackItsPriorityOnly(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	f.Wire.Set(enginetest.Refusing(enginetest.ErrLater))
	f.Send("a", "b")
	f.Deliver()
	f.Wire.Set(nil)
	level := func(n int) string { return f.Send("a", "b", func(d *orchestrator.Draft) { d.Priority = n }) }
	f.Send("a", "b")
	urgent, low := level(2), level(-1)
	f.Deliver()
	if got := f.Wire.IDs(); !slices.Equal(got, []string{urgent, low}) {
		t.Errorf("arrived: %v; want %v and %v", got, urgent, low)
	}
}
