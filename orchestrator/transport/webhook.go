package transport

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"mailroom/orchestrator"
)

// Webhook posts each message to an address of the agent's, as a CloudEvents 1.0 event with the signature of Standard
// Webhooks 1.0. Its address is an http or https URL: `--deliver webhook:URL`.
//
// An answer of 200 to 299 is a delivery. 410 is orchestrator.ErrGone, and a Retry-After of 429 and 503 an
// orchestrator.RetryAfter; whatever else is an error. Redirects are not followed, and proxies not used. A message that
// was being delivered when its process was killed is posted again, with the same webhook-id and the same body (but for
// retry_count, when a rung of the ladder was spent meanwhile), by which the receiver knows it.
//
// Without Attempt.AllowPrivate only public addresses are dialled. The check is on the address that is dialled.
//
// The zero value is ready for use, and must not be copied after the first.
type Webhook struct {
	mu      sync.Mutex
	public  *http.Transport // made when they are first needed
	private *http.Transport

	// For tests. Their zero values are what is used otherwise.
	resolver *net.Resolver
	tls      *tls.Config
	dialling func(address string) error // called with the address of every connection that the check lets pass
	idle     time.Duration              // in place of idleTimeout
	patience time.Duration              // in place of answerTime
}

const (
	maxAddress = 2048    // bytes of a URL
	maxAnswer  = 4 << 10 // bytes of an answer that are kept in the trace
	maxQuoted  = 200     // bytes of it, or of another text of the receiver's, in an error

	// answerTime is how long the rest of an answer may take once its status is known: it changes nothing any more.
	answerTime = 2 * time.Second

	// longestWait keeps what a receiver asks for within what a Duration can hold. The ladder's bound is far below.
	longestWait = 30 * 24 * time.Hour
)

// Check accepts an absolute URL of http or https and returns it in canonical form: scheme and host in lower case, a port
// only where it is not the scheme's own. Where the name leads is checked at every delivery. Errors are invalid_params.
func (*Webhook) Check(address string) (string, error) {
	refuse := func(hint, format string, args ...any) (string, error) {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, format, args...).WithHint("%s", hint)
	}
	if address == "" {
		return refuse("Write webhook:URL", "an address is missing")
	}
	u, err := url.Parse(address)
	if err != nil || !utf8.ValidString(address) {
		return refuse("Write it as in https://example.com/hooks/builder", "the address is not a URL")
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	defaultPort := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if defaultPort == "" {
		return refuse("Write http:// or https://", "the address is no URL of http or https")
	}
	if u.User != nil {
		return refuse("The receiver knows its messages by their signature; if it asks for a key, put that into the path",
			"the address has a user name or password in it, which would be shown wherever the agent is")
	}
	if u.Fragment != "" {
		return refuse("Leave out # and what follows it", "the address has a fragment, which is never sent")
	}
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return refuse("Write it as in https://example.com/hooks/builder", "%v", err)
	}
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return refuse("A port is 1 to 65535", "port %.20s does not exist", port)
		}
		if port = strconv.FormatUint(n, 10); port != defaultPort {
			host += ":" + port
		}
	}
	u.Host = host
	if u.Path == "" {
		u.Path = "/"
	}
	if strings.ContainsFunc(u.RawQuery, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return refuse("Percent-encode it, a space as %20", "the address has a character after ? that cannot stand there")
	}
	if canonical := u.String(); len(canonical) <= maxAddress {
		return canonical, nil
	}
	return refuse("Use a shorter path", "the address is longer than %d bytes", maxAddress)
}

// canonicalHost checks a host of a URL, without its port and brackets, and returns it as it stands in one.
func canonicalHost(host string) (string, error) {
	switch {
	case host == "":
		return "", errors.New("the address has no host")
	case strings.Contains(host, "%"):
		return "", errors.New("the address names a network interface (%), which only this machine would understand")
	case strings.Contains(host, ":"):
		ip, err := netip.ParseAddr(host)
		if err != nil {
			return "", errors.New("the host is no IPv6 address")
		}
		return "[" + ip.String() + "]", nil
	case !utf8.ValidString(host) || strings.ContainsFunc(host, func(r rune) bool {
		return r < utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._", r)
	}):
		return "", fmt.Errorf("%.100q is no name of a host", host)
	}
	return host, nil
}

// MaxBatch is 1: a receiver knows and answers one message at a time.
func (*Webhook) MaxBatch() int { return 1 }

// Deliver posts the messages one after the other.
func (w *Webhook) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	errs := make([]error, len(a.Messages))
	for i := range a.Messages {
		errs[i] = w.deliver(ctx, &a, &a.Messages[i])
	}
	return errs
}

func (w *Webhook) deliver(ctx context.Context, a *orchestrator.Attempt, m *orchestrator.Message) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	body, err := encodeEvent(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.Address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the address of %s is not a URL", a.Recipient)
	}
	if err := sign(r.Header, a, m.ID, time.Now(), body); err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/cloudevents+json")
	r.Header.Set("User-Agent", "mailroom")
	answer, err := w.connections(a.AllowPrivate).RoundTrip(r) // in place of a Client, which follows redirects
	if err != nil {
		return unanswered(ctx, a.Recipient, r.URL.Host, err)
	}
	defer answer.Body.Close()
	patience := time.AfterFunc(cmp.Or(w.patience, answerTime), cancel)
	defer patience.Stop()
	return judge(a, answer)
}

// connections returns the pool of connections for an attempt.
func (w *Webhook) connections(allowPrivate bool) *http.Transport {
	w.mu.Lock()
	defer w.mu.Unlock()
	pool := &w.public
	if allowPrivate {
		pool = &w.private
	}
	if *pool == nil {
		*pool = w.newConnections(allowPrivate)
	}
	return *pool
}

// unanswered is the error of a request that no answer came to. The receiver may have read it all the same.
func unanswered(ctx context.Context, recipient, host string, err error) error {
	var refused *orchestrator.Error
	if errors.As(err, &refused) && refused.Code == orchestrator.PermissionDenied {
		own := *refused // of a connection that others may wait for
		return fmt.Errorf("%s was not asked: %w", host, own.WithHint("If that is meant: mailroom agent add %s --allow-private", recipient))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("no answer from %s: %w", host, context.Cause(ctx))
	}
	if text := err.Error(); len(text) > 2*maxQuoted { // it can hold what the receiver sent
		return fmt.Errorf("no answer from %s: %s", host, quote(text, 2*maxQuoted))
	}
	return fmt.Errorf("no answer from %s: %w", host, err)
}

// judge reports an answer and returns what it means.
func judge(a *orchestrator.Attempt, answer *http.Response) error {
	var text []byte
	if answer.StatusCode != http.StatusSwitchingProtocols { // its body is the connection, and does not end with the context
		// What is missing of it when it ends early, or in an error, changes nothing.
		text, _ = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	}
	status := strings.TrimSpace(fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode)))
	if a.Report != nil {
		a.Report(strings.TrimSpace("HTTP " + status + "\n" + printable(string(text))))
	}
	err := fmt.Errorf("%s answered %s", answer.Request.URL.Host, status)
	if start := quote(string(text), maxQuoted); start != "" {
		err = fmt.Errorf("%w: %s", err, start)
	}
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400 && answer.Header.Get("Location") != "":
		return fmt.Errorf("%s answered %s to %s, and redirects are not followed; if that is right, make it the agent's address",
			answer.Request.URL.Host, status, quote(answer.Header.Get("Location"), maxQuoted))
	case code == http.StatusGone:
		return fmt.Errorf("%w: %w", orchestrator.ErrGone, err)
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		if wait := retryAfter(answer.Header, time.Now()); wait > 0 {
			return &orchestrator.RetryAfter{Wait: wait, Err: err}
		}
	}
	return err
}

// retryAfter returns how long a receiver asks to be left alone, seconds or until a date, at most longestWait. 0: it does
// not say, or nothing that makes sense. A date counts from the receiver's own clock where the answer shows it.
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

// printable is a text of the receiver's without what could not be stored or would move the cursor of a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			return r
		}
		return utf8.RuneError
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

// quote is the start of a text of the receiver's, on one line, of at most n bytes.
func quote(text string, n int) string {
	text = strings.Join(strings.Fields(printable(text)), " ")
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "..."
}
