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
	maxAnswer = 4 << 10 // bytes of an answer that are kept in the trace
	maxQuoted = 200     // bytes of it, or of another text of the receiver's, in an error

	// answerTime is how long the rest of an answer may take once its status is known: it changes nothing any more.
	answerTime = 2 * time.Second

	// longestWait keeps what a receiver asks for within what a Duration can hold. The ladder's bound is far below.
	longestWait = 30 * 24 * time.Hour
)

// terms are what a transport asks of a request, and makes of its answer.
type terms struct {
	allowPrivate bool              // it may lead into this machine or a private network
	allow        string            // how that is permitted, for the error
	timeout      time.Duration     // until the status is there; 0: as long as the attempt lasts
	gone         []int             // statuses of an address that does not exist any more
	refused      []int             // statuses that say "never again" of this message
	redirected   string            // what to do about a redirect, for the error; "" is nothing
	secrets      []string          // what stands in no error and no trace, though the receiver may say it
	echoes       bool              // an answer of success repeats what was sent, which the trace need not have
	report       func(text string) // Attempt.Report
}

// oneByOne delivers the messages of an attempt one after the other, until ctx ends, and returns one error per message.
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

// do makes a request, without following redirects, and returns the status and what it means: nil for 200 to 299,
// orchestrator.ErrGone or ErrRefused, an orchestrator.RetryAfter for a Retry-After of 429 and 503, or another error. 0:
// no answer came.
func (c *connections) do(ctx context.Context, r *http.Request, t *terms) (status int, err error) {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if t.timeout > 0 {
		bound := cmp.Or(c.bound, t.timeout)
		timer := time.AfterFunc(bound, func() { cancel(fmt.Errorf("the request took longer than %s", bound)) })
		defer timer.Stop()
	}
	r.Header.Set("User-Agent", "mailroom")
	answer, err := c.pool(t.allowPrivate).RoundTrip(r.WithContext(waiting)) // in place of a Client, which follows redirects
	if err != nil {
		return 0, t.unanswered(waiting, r.URL.Host, err)
	}
	defer answer.Body.Close()
	patience := time.AfterFunc(cmp.Or(c.patience, answerTime), func() { cancel(nil) })
	defer patience.Stop()
	return answer.StatusCode, t.judge(answer)
}

// unanswered returns the error for a request without an answer. The receiver may have read the request all the same.
func (t *terms) unanswered(ctx context.Context, host string, err error) error {
	if refused, ok := errors.AsType[*orchestrator.Error](err); ok && refused.Code == orchestrator.PermissionDenied {
		own := *refused // of a connection that others may wait for
		return fmt.Errorf("no request was sent to %s: %w", host, own.WithHint("%s", t.allow))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("no answer from %s: %w", host, context.Cause(ctx))
	}
	if text := t.hide(err.Error()); text != err.Error() || len(text) > 2*maxQuoted {
		// it can hold what the receiver sent
		return fmt.Errorf("no answer from %s: %s", host, quote(text, 2*maxQuoted))
	}
	return fmt.Errorf("no answer from %s: %w", host, err)
}

// judge reports an answer and returns what it means.
func (t *terms) judge(answer *http.Response) error {
	code := answer.StatusCode
	delivered := code >= 200 && code < 300
	var body []byte
	if code != http.StatusSwitchingProtocols { // its body is the connection, and does not end with the context
		// What is missing of it when it ends early, or in an error, changes nothing.
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

// hide returns a text of the receiver without the secrets.
func (t *terms) hide(text string) string {
	for _, secret := range t.secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "...")
		}
	}
	return text
}

// retryAfter returns how long a receiver asks to be left alone, seconds or until a date, at most longestWait. 0: it
// does not say, or nothing that makes sense. A date counts from the receiver's own clock where the answer shows it.
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

// printable returns a text of the receiver without characters that cannot be stored, or that would move the cursor of a
// terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			return r
		}
		return utf8.RuneError
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

// quote returns the start of a text of the receiver, on one line, of at most n bytes.
func quote(text string, n int) string {
	return cut(strings.Join(strings.Fields(printable(text)), " "), n)
}

// cut returns the start of a text, of at most n bytes, with three full stops if something is missing.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "..."
}
