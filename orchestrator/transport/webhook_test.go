package transport_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest"
	"mailroom/orchestrator/transport"
)

func TestWebhook(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"http": false, "https": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			orchestratortest.ExerciseTransport(t, func(t *testing.T) orchestratortest.Fixture {
				r := newReceiver(t, secure, nil)
				return orchestratortest.Fixture{
					Transport: r.webhook(transport.Surroundings{}),
					Address:   r.address,
					Refused:   slices.Collect(maps.Keys(refusedAddresses)),
					Prepare:   r.prepare,
					Arrived:   r.arrived,
					Block:     func(*testing.T) func() { return r.names.block() },
					Fail:      r.fail,
					Says:      "the shelf is full",
				}
			})
		})
	}
}

// refusedAddresses maps addresses that Check refuses to a word of the error.
var refusedAddresses = map[string]string{
	"":                               "webhook:URL",
	"example.com/hook":               "http",
	"//example.com/hook":             "http",
	"ftp://example.com/":             "http",
	"file:///etc/passwd":             "http",
	"gopher://127.0.0.1:6379/_x":     "http",
	"http:example.com":               "no host",
	"http:///hook":                   "no host",
	"http://:80/":                    "no host",
	"https://user:pass@example.com/": "user name or password",
	"https://token@example.com/":     "user name or password",
	"https://@example.com/":          "user name or password",
	"https://example.com/#part":      "fragment",
	"https://example.com:0/":         "port 0",
	"https://example.com:65536/":     "port 65536",
	"https://example.com:99999999999999999999999999/":  "port 9999",
	"https://example.com:x/":                           "must be a URL",
	"https://exa mple.com/":                            "must be a URL",
	"https://example.com/\r\nX-Header: 1":              "must be a URL",
	"https://example.com/?a b":                         "must be percent-encoded",
	"https://example.com/?ä":                           "must be percent-encoded",
	"https://example.com/%zz":                          "must be a URL",
	"https://example.com/\xff":                         "must be a URL",
	"https://<example>/":                               "is not a valid host name",
	"https://a,b/":                                     "is not a valid host name",
	"https://[::1/":                                    "must be a URL",
	"https://[x]/":                                     "must be a URL",
	"http://::1/":                                      "must be a URL",
	"http://[::1.2.3]/":                                "must be a URL",
	"http://[fe80::1%25eth0]/":                         "interface",
	"https://example.com/" + strings.Repeat("x", 2029): "at most 2048",
	"https://example.com/" + strings.Repeat("ä", 400):  "at most 2048",
}

func TestWebhookCheck(t *testing.T) {
	t.Parallel()
	w := new(transport.Webhook)
	for address, want := range refusedAddresses {
		_, err := w.Check(address)
		if orchestrator.CodeOf(err) != orchestrator.InvalidParams || !strings.Contains(err.Error(), want) {
			t.Errorf("Check(%.60q): %v; want %q", address, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "pass@") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
	for address, want := range map[string]string{
		"HTTP://Example.COM":                 "http://example.com/",
		"http://example.com:80/a":            "http://example.com/a",
		"https://example.com:443":            "https://example.com/",
		"https://example.com:0080/?a=1":      "https://example.com:80/?a=1",
		"https://example.com:/":              "https://example.com/",
		"https://example.com./a/../b":        "https://example.com./a/../b",
		"https://bücher.example/ä":           "https://b%C3%BCcher.example/%C3%A4",
		"http://[2001:DB8:0::1]:8080/":       "http://[2001:db8::1]:8080/",
		"http://0x7f.1/":                     "http://0x7f.1/",
		"http://2130706433/":                 "http://2130706433/",
		"http://localhost:8080/hook?a=%20&b": "http://localhost:8080/hook?a=%20&b",
		"https://example.com/a%2Fb":          "https://example.com/a%2Fb",
	} {
		if got, err := w.Check(address); got != want || err != nil {
			t.Errorf("Check(%q) = %q, %v; want %q", address, got, err, want)
		}
	}
}

// FuzzWebhookCheck checks that an accepted address is already canonical and can be used in a request.
func FuzzWebhookCheck(f *testing.F) {
	for address := range refusedAddresses {
		f.Add(address)
	}
	f.Add("https://Bücher.example:0443/a b?%zz#")
	f.Fuzz(func(t *testing.T, address string) {
		w := new(transport.Webhook)
		canonical, err := w.Check(address)
		if err != nil {
			return
		}
		if again, err := w.Check(canonical); again != canonical || err != nil {
			t.Errorf("Check(%q) = %q, of which Check makes %q, %v", address, canonical, again, err)
		}
		if _, err := http.NewRequest(http.MethodPost, canonical, nil); err != nil {
			t.Errorf("%q: %v", canonical, err)
		}
	})
}

// The request is the contract with receivers.
func TestWebhookRequest(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true, nil)
	m := note("msg-01", `{"n":1.10,"text":"<b>&"}`)
	m.TraceID, m.SpanID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	m.Sender, m.Type, m.RetryCount = "lead dev", "plan.review", 1
	a, report := r.attempt(m)
	must(t, errors.Join(r.webhook(transport.Surroundings{}).Deliver(t.Context(), a)...))
	q := r.all()[0]
	const want = `{"specversion":"1.0","id":"msg-01","source":"/mailroom/agents/lead%20dev","type":"mailroom.message.plan%2Ereview",` +
		`"subject":"builder","time":"2025-10-26T10:30:00.000Z","datacontenttype":"application/json",` +
		`"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","data":` +
		`{"message_id":"msg-01","sender":"lead dev","recipient":"builder","message_type":"plan.review","payload":{"n":1.10,"text":"<b>&"},` +
		`"status":"delivered","created_at":"2025-10-26T10:30:00.000Z","retry_count":1,"priority":0,` +
		`"trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"b7ad6b7169203331"}}`
	if string(q.body) != want {
		t.Errorf("the body is\n%s\nwant\n%s", q.body, want)
	}
	if got := q.event.Extensions()["traceparent"]; got != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" {
		t.Errorf("traceparent: %v", got)
	}
	if q.target != "POST /hooks/builder?key=1" || q.protocol != 2 {
		t.Errorf("%s over HTTP/%d", q.target, q.protocol)
	}
	q.header.Del("Webhook-Signature")
	q.header.Del("Webhook-Timestamp")
	headers := map[string]string{}
	for name := range q.header {
		headers[name] = q.header.Get(name)
	}
	if want := map[string]string{
		"Content-Type": "application/cloudevents+json", "Content-Length": fmt.Sprint(len(want)),
		"User-Agent": "mailroom",
		"Webhook-Id": "msg-01",
	}; !maps.Equal(headers, want) {
		t.Errorf("headers: %v", headers)
	}
	if *report != "HTTP 204 No Content" {
		t.Errorf("reported: %q", *report)
	}
}

// IDs and names of every kind reach the receiver, are accepted by its libraries, and stay different.
func TestWebhookStrangeNames(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, false, nil)
	w := r.webhook(transport.Surroundings{})
	ids := []string{
		"a", "A", "a ", " a", "aa", "a.b", "a.1.b", "a%2Eb", "a%b", "a+b", "a~b", "ä", "a\u0308", "a\u2028b", "a\nb",
		"a\r\nX-Header: 1",
		"a\x00b", "a\x7fb", "<a>", "*", ".", "..", `"`, "\\", "\ufffd", "👩‍👩‍👧", strings.Repeat("ä", 1000),
	}
	for _, id := range ids {
		m := note(id, `1`)
		m.Sender, m.Type, m.CreatedAt, m.TraceID = id, id, "yesterday", strings.Repeat("0", 32)
		m.SpanID = "b7ad6b7169203331"
		a, _ := r.attempt(m)
		if err := errors.Join(w.Deliver(t.Context(), a)...); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	requests := r.all()
	if len(requests) != len(ids) {
		t.Fatalf("%d requests for %d messages", len(requests), len(ids))
	}
	seen := map[string]bool{}
	for i, q := range requests {
		if q.messageID != ids[i] || seen[q.id] || seen[q.event.Source()] || strings.Contains(q.id, ".") ||
			len(q.event.Extensions()) != 0 {
			t.Errorf("%q came as %q, %q of %q", ids[i], q.id, q.messageID, q.event.Source())
		}
		seen[q.id], seen[q.event.Source()] = true, true
	}
	a, _ := r.attempt(note("", `1`))
	if err := errors.Join(w.Deliver(t.Context(), a)...); err == nil || len(r.all()) != len(ids) {
		t.Errorf("a message without an id: %v", err)
	}
}

func TestWebhookSecrets(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, false, nil)
	w := r.webhook(transport.Surroundings{})
	key := func(n int) string { return "whsec_" + strings.Repeat("AAAA", n/3) }
	for _, good := range []string{w.NewSecret(), key(24), key(63), "whsec_" + strings.Repeat("AAAA", 21) + "AA=="} {
		if err := w.CheckSecret(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	if one := w.NewSecret(); one == w.NewSecret() {
		t.Error("two secrets are the same")
	}
	for _, bad := range []string{
		"", "secret", strings.Repeat("AAAA", 8), "whsec_", key(21), key(66), "WHSEC_" + strings.Repeat("AAAA", 8),
		"whsec_" + strings.Repeat("AAAA", 8) + "\n", "whsec_" + strings.Repeat("AAAA", 8) + "AA",
		"whsec_" + strings.Repeat("AAAA", 8) + "AB==",
		"whsec_" + strings.Repeat("A-_A", 8), " " + w.NewSecret(), w.NewSecret() + " ",
	} {
		err := w.CheckSecret(bad)
		if orchestrator.CodeOf(err) != orchestrator.InvalidParams ||
			bad != "" && strings.Contains(err.Error(), "AAAA") {
			t.Errorf("CheckSecret(%q): %v", bad, err)
		}
		a, _ := r.attempt(note("m", `1`))
		a.Secret = bad
		want := "the secret"
		if bad == "" {
			want = "agent add builder --secret"
		}
		if err := errors.Join(w.Deliver(t.Context(), a)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("delivered with the secret %q: %v", bad, err)
		}
	}
	if got := r.all(); len(got) != 0 {
		t.Errorf("%d requests went out unsigned", len(got))
	}
}

// An attempt is one request, and only the status of the response decides.
func TestWebhookStatuses(t *testing.T) {
	t.Parallel()
	elsewhere := newReceiver(t, false, nil)
	const longText = "over\x1b[31m quota\x00\n"
	for _, test := range []struct {
		status     int
		retryAfter string
		want       string // "" is delivered
	}{
		{200, "", ""}, {201, "", ""}, {202, "", ""}, {204, "", ""}, {226, "", ""}, {299, "", ""}, {200, "60", ""},
		{300, "", "answered 300 Multiple Choices with a redirect to http"}, {301, "", "answered 301 Moved Permanently with a redirect to http"},
		{302, "", "answered 302 Found with a redirect to http"}, {304, "", "answered 304 Not Modified with a redirect to http"},
		{307, "", "answered 307 Temporary Redirect with a redirect to http"}, {308, "", "answered 308 Permanent Redirect with a redirect to http"},
		{400, "", "answered 400 Bad Request: over"}, {401, "", "answered 401"},
		{404, "60", "answered 404 Not Found: over"},
		{405, "", "answered 405"}, {410, "60", "no longer exists: example.com"}, {413, "", "answered 413"},
		{415, "", "answered 415"},
		{422, "9", "answered 422"}, {429, "", "answered 429 Too Many Requests: over"},
		{429, "7", "retry after 7s: example.com"}, {500, "60", "answered 500 Internal Server Error: over"},
		{503, "120", "retry after 2m0s: example.com"}, {503, "-1", "answered 503"}, {503, "soon", "answered 503"},
		{599, "", "answered 599: over"},
	} {
		t.Run(fmt.Sprint(test.status, test.retryAfter), func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, false, func(w http.ResponseWriter, _ *http.Request, _ *request) {
				w.Header().Set("Location", elsewhere.server.URL)
				if test.retryAfter != "" {
					w.Header().Set("Retry-After", test.retryAfter)
				}
				w.WriteHeader(test.status)
				if test.status != 204 && test.status != 304 {
					fmt.Fprint(w, longText, strings.Repeat("x", 10_000))
				}
			})
			a, report := r.attempt(note("m", `1`))
			err := errors.Join(r.webhook(transport.Surroundings{}).Deliver(t.Context(), a)...)
			got := fmt.Sprint(err)
			if wait := new(orchestrator.RetryAfter); errors.As(err, &wait) {
				got = "retry after " + wait.Wait.String() + ": " + got
			}
			if test.want == "" && err != nil || test.want != "" && !strings.Contains(got, test.want) ||
				len(got) > 500 || strings.ContainsAny(got, "\x1b\x00\n") {
				t.Errorf("%q; want %q", got, test.want)
			}
			if strings.HasPrefix(got, "retry after") != strings.HasPrefix(test.want, "retry after") {
				t.Errorf("asks for time: %q", got)
			}
			if errors.Is(err, orchestrator.ErrGone) != (test.status == 410) {
				t.Errorf("gone: %v", err)
			}
			if refused := slices.Contains([]int{400, 413, 415, 422}, test.status); errors.Is(err,
				orchestrator.ErrRefused) != refused {
				t.Errorf("refused for good: %t; %v", !refused, err)
			}
			if len(r.all()) != 1 || len(*report) > 6<<10 || strings.ContainsAny(*report, "\x1b\x00") ||
				!strings.HasPrefix(*report, fmt.Sprintf("HTTP %d", test.status)) {
				t.Errorf("%d requests; reported: %.100q", len(r.all()), *report)
			}
		})
	}
	t.Cleanup(func() {
		if got := elsewhere.all(); len(got) != 0 {
			t.Errorf("%d redirects were followed", len(got))
		}
	})
}

// Messages are independent: one that another program has broken fails without a request.
func TestWebhookBadMessage(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, false, nil)
	w := r.webhook(transport.Surroundings{})
	a, _ := r.attempt(note("good", `1`), note("bad", `{`), note("better", `2`))
	errs := w.Deliver(t.Context(), a)
	if errs[0] != nil || errs[1] == nil || errs[2] != nil {
		t.Errorf("errors: %v", errs)
	}
	a.Address, a.Report = "http://exa mple/", nil
	for _, err := range w.Deliver(t.Context(), a) {
		if err == nil {
			t.Error("delivered to no address")
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(orchestrator.ErrStopping)
	for _, err := range w.Deliver(ctx, a) {
		if !errors.Is(err, orchestrator.ErrStopping) {
			t.Errorf("after the end: %v", err)
		}
	}
	var payloads []json.RawMessage
	for _, q := range r.all() {
		payloads = append(payloads, q.payload)
	}
	if fmt.Sprintf("%s", payloads) != "[1 2]" {
		t.Errorf("arrived: %s", payloads)
	}
}
