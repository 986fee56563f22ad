package delivery_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
)

// reporting returns a delivery function that makes reports and ends with the given error for all messages.
func reporting(err error, texts ...string) func(context.Context, orchestrator.Attempt) []error {
	return func(ctx context.Context, a orchestrator.Attempt) []error {
		for _, text := range texts {
			a.Report(text)
		}
		return enginetest.Refusing(err)(ctx, a)
	}
}

// TestReports checks that the last report that a transport makes of an attempt is in the trace, whatever the result
// of the attempt.
func TestReports(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	id := f.Send("a", "b")
	for _, attempt := range []struct {
		err  error
		said []string
	}{
		{errors.New("down"), []string{"first", "second"}},
		{enginetest.ErrLater, []string{"not now"}},
		{&orchestrator.RetryAfter{Wait: time.Minute, Err: errors.New("busy")}, []string{"503 busy"}},
		{errors.New("silent"), nil},
		{nil, []string{"200 OK\nthanks <b>"}},
	} {
		f.Wire.Set(reporting(attempt.err, attempt.said...))
		f.Deliver()
		f.Clock.Advance(2 * time.Minute)
	}
	const query = `SELECT event, error, detail FROM message_trace WHERE message_id = ?
		AND event NOT IN ('created', 'claimed', 'overdue') ORDER BY id`
	want.Rows(t, f.Rows(query, id), "attempt_failed down second",
		"released put off until 2026-01-02T03:06:35.000Z: exit status 75: "+
			orchestrator.ErrTryLater.Error()+" not now", "attempt_failed busy 503 busy", "attempt_failed silent ",
		"delivered  200 OK\nthanks <b>")
	stories, err := overview.Trace(t.Context(), f.Ledger, id)
	if err != nil {
		t.Fatal(err)
	}
	events := stories[0].Events
	want.Equal(t, "detail in the story", events[len(events)-1].Detail, "200 OK\nthanks <b>")
}

// TestReportsOfTheEnd checks that the report of the last attempt is also kept, and so are the reports for a message
// that fails at once and for one whose address is gone.
func TestReportsOfTheEnd(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	f.Set("retry.max_retries", "0")
	for answer, event := range map[error]string{
		errors.New("down"):           "attempt_failed",
		orchestrator.ErrUndecidable:  "attempt_failed",
		enginetest.ErrGone:           "released",
		context.DeadlineExceeded:     "attempt_failed",
		errors.New("\xff not UTF-8"): "attempt_failed",
	} {
		id := f.Send("a", "b")
		f.Wire.Set(reporting(answer, "what it said"))
		f.Deliver()
		got := f.Rows(`SELECT event FROM message_trace WHERE message_id = ? AND detail = 'what it said'`, id)
		if len(got) != 1 || got[0] != event {
			t.Errorf("after %q the report stands in %q; want %s", answer, got, event)
		}
		f.Wire.Set(nil)
		f.AddWired("b")
		f.Deliver()
	}
}

// TestReportsAreBounded checks that a report is limited in size and valid UTF-8, whatever a program prints.
func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	for _, said := range []string{strings.Repeat("x", 1<<20), strings.Repeat("ä", 8193), "\xff\xfe\x00end",
		strings.Repeat("\xff", 1<<20), strings.Repeat("\xffa", 1<<20)} {
		id := f.Send("a", "b")
		f.Wire.Set(reporting(nil, said))
		want.Equal(t, "delivered", f.Deliver().Delivered, 1)
		stories, err := overview.Trace(t.Context(), f.Ledger, id)
		if err != nil {
			t.Fatal(err)
		}
		events := stories[0].Events
		detail := events[len(events)-1].Detail
		if len(detail) > 16<<10 || len(detail) == 0 || !utf8.ValidString(detail) {
			t.Errorf("of %.10q %d bytes are kept, valid: %t", said, len(detail), utf8.ValidString(detail))
		}
	}
}

// TestReportsComeTooLate checks that the report of an abandoned transport is ignored and does no harm.
func TestReportsComeTooLate(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	id := f.Send("a", "b")
	speak, spoken := make(chan struct{}), make(chan struct{})
	f.Wire.Set(func(ctx context.Context, a orchestrator.Attempt) []error {
		a.Report("in time")
		<-speak
		a.Report("too late")
		close(spoken)
		return []error{nil}
	})
	d, err := f.DeliverAll(t.Context(), delivery.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "failed", d.Failed, 1)
	close(speak)
	<-spoken
	want.Rows(t, f.Rows(`SELECT event, detail FROM message_trace WHERE message_id = ? AND event = 'attempt_failed'`,
		id), "attempt_failed in time")
}
