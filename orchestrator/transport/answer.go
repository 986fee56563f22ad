package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mailroom/orchestrator"
)

const (
	maxAnswer = 4 << 10 // bytes of a response that are kept in the trace
	maxQuoted = 200     // bytes of a response, or of another text of the receiver, in an error

	// answerTime limits how long the rest of a response may take once its status is known. The rest changes
	// nothing.
	answerTime = 2 * time.Second

	// longestWait keeps the wait that a receiver asks for within a Duration. The limit of the retry schedule is far
	// lower.
	longestWait = 30 * 24 * time.Hour
)

// terms are a transport's settings for a request and for the evaluation of its response.
type terms struct {
	allowPrivate bool              // the address may lead into this machine or a private network
	allow        string            // how to permit that, for the error
	timeout      time.Duration     // until the status arrives; 0: as long as the attempt lasts
	gone         []int             // statuses of an address that no longer exists
	refused      []int             // statuses that refuse this message for good
	redirected   string            // advice about a redirect, for the error; "" is none
	secrets      []string          // texts to hide in errors and traces, though the receiver may send them
	echoes       bool              // a successful response repeats the request, so the trace omits its body
	report       func(text string) // Attempt.Report
}

// oneByOne delivers the messages of an attempt one after another until ctx ends, and returns one error per message.
func oneByOne(ctx context.Context, a *orchestrator.Attempt,
	deliver func(ctx context.Context, a *orchestrator.Attempt, m *orchestrator.Message) error) []error {
	errs := make([]error, len(a.Messages))
	for i := range a.Messages {
		if errs[i] = context.Cause(ctx); errs[i] == nil {
			errs[i] = deliver(ctx, a, &a.Messages[i])
		}
	}
	return errs
}

// do makes a request, without following redirects. It returns the status of the response and an error: nil for 200
// to 299, orchestrator.ErrGone or ErrRefused for the statuses in t, an orchestrator.RetryAfter for 429 and 503 with
// a Retry-After, and another error otherwise. The status is 0 if no response came.
func (c *connections) do(ctx context.Context, r *http.Request, t *terms) (status int, err error) {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if t.timeout > 0 {
		bound := cmp.Or(c.bound, t.timeout)
		timer := time.AfterFunc(bound, func() { cancel(fmt.Errorf("the request took longer than %s", bound)) })
		defer timer.Stop()
	}
	r.Header.Set("User-Agent", "mailroom")
	answer, err := c.pool(t.allowPrivate).RoundTrip(r.WithContext(waiting)) // not a Client, which follows redirects
	if err != nil {
		return 0, t.unanswered(waiting, r.URL.Host, err)
	}
	defer answer.Body.Close()
	patience := time.AfterFunc(cmp.Or(c.patience, answerTime), func() { cancel(nil) })
	defer patience.Stop()
	return answer.StatusCode, t.judge(answer)
}

// unanswered returns the error for a request without a response. The receiver may have read the request all the
// same.
func (t *terms) unanswered(ctx context.Context, host string, err error) error {
	if refused, ok := errors.AsType[*orchestrator.Error](err); ok && refused.Code == orchestrator.PermissionDenied {
		own := *refused // a copy: other requests may wait for the same connection
		return fmt.Errorf("no request was sent to %s: %w", host, own.WithHint("%s", t.allow))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("no answer from %s: %w", host, context.Cause(ctx))
	}
	if text := t.hide(err.Error()); text != err.Error() || len(text) > 2*maxQuoted {
		// The error can contain text from the receiver.
		return fmt.Errorf("no answer from %s: %s", host, quote(text, 2*maxQuoted))
	}
	return fmt.Errorf("no answer from %s: %w", host, err)
}

// judge reports a response to the trace and returns the error for its status.
func (t *terms) judge(answer *http.Response) error {
	code := answer.StatusCode
	delivered := code >= 200 && code < 300
	var body []byte
	if code != http.StatusSwitchingProtocols { // the body is the connection and does not end with the context
		// It does not matter if the body ends early or with an error.
		body, _ = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	}
	text := t.hide(string(body))
	if delivered && t.echoes {
		text = ""
	}
	status := strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
	if t.report != nil {
		t.report(strings.TrimSpace("HTTP " + status + "\n" + printable(text)))
	}
	err := fmt.Errorf("%s answered %s", answer.Request.URL.Host, status)
	if start := quote(text, maxQuoted); start != "" {
		err = fmt.Errorf("%w: %s", err, start)
	}
	location := answer.Header.Get("Location")
	switch {
	case delivered:
		return nil
	case code >= 300 && code < 400 && location != "":
		err = fmt.Errorf("%s answered %s with a redirect to %s; redirects are not followed",
			answer.Request.URL.Host, status, quote(t.hide(location), maxQuoted))
		if t.redirected != "" {
			err = fmt.Errorf("%w; %s", err, t.redirected)
		}
	case slices.Contains(t.gone, code):
		return fmt.Errorf("%w: %w", orchestrator.ErrGone, err)
	case slices.Contains(t.refused, code):
		return fmt.Errorf("%w: %w", orchestrator.ErrRefused, err)
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		if wait := retryAfter(answer.Header, time.Now()); wait > 0 {
			return &orchestrator.RetryAfter{Wait: wait, Err: err}
		}
	}
	return err
}

// hide replaces the secrets in a text of the receiver.
func (t *terms) hide(text string) string {
	for _, secret := range t.secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "...")
		}
	}
	return text
}

// retryAfter returns how long the receiver asks to wait, given in seconds or as a date, at most longestWait. It
// returns 0 if the header is missing or invalid. A date is measured from the response's Date header if there is
// one.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > int64(longestWait/time.Second) {
			return longestWait
		}
		return time.Duration(seconds) * time.Second
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(until.Sub(now), 0), longestWait)
}

// printable returns a text of the receiver with every character replaced that cannot be stored or could move a
// terminal's cursor.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			return r
		}
		return utf8.RuneError
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

// quote returns the start of a text of the receiver on one line, of at most n bytes.
func quote(text string, n int) string {
	return cut(strings.Join(strings.Fields(printable(text)), " "), n)
}

// cut returns at most the first n bytes of a text, followed by "..." if something is missing.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "..."
}
