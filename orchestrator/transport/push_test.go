package transport_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/transport"
)

func TestPush(t *testing.T) {
	t.Parallel()
	orchestratortest.ExerciseTransport(t, func(t *testing.T) orchestratortest.Fixture {
		p, s := newPushService(t, nil), new(shelf)
		asIs := func(payload string) string { return payload }
		return orchestratortest.Fixture{
			Transport: asQuestions{p.push(transport.Surroundings{}), asIs, s.keep},
			Address:   "d-01KDYAK348A7QTJ5MXMEX7CXND",
			Refused: []string{"", "x", "d-", "D-1", "d-a/b", "d-a b", "d-ä", "d-\x00", "ntfy",
				"https://fcm.googleapis.com/x", "d-" + strings.Repeat("x", 65)},
			Prepare: p.prepare,
			Arrived: func(t *testing.T) []orchestratortest.Arrival { return p.arrived(t, s) },
			Block:   func(*testing.T) func() { return p.names.block() },
			Fail:    p.fail,
			Says:    "the shelf is full",
		}
	})
}

// The request is the contract with push services. Every test verifies the sender, and that the browser can decrypt
// the request.
func TestPushRequest(t *testing.T) {
	t.Parallel()
	p := newPushService(t, nil)
	a, report := p.attempt(pushing(t, question("q-1", 100)), pushing(t, question("q-2", 3000)),
		pushing(t, push.Message{Kind: push.Ended, ID: "q-1", Status: "answered"}))
	must(t, errors.Join(p.push(transport.Surroundings{}).Deliver(t.Context(), a)...))
	all := p.all()
	first := all[0]
	if len(all) != 3 || first.protocol != 2 || first.target != "POST "+pushPath {
		t.Errorf("%d requests; %s over HTTP/%d", len(all), first.target, first.protocol)
	}
	topics := []string{}
	for _, q := range all {
		if len(q.body) != 4096 {
			t.Errorf("a body of %d bytes tells how long the message is", len(q.body))
		}
		topic := q.header.Get("Topic")
		if len(topic) != 32 ||
			strings.Trim(topic, "-_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("topic %q", topic)
		}
		topics = append(topics, topic)
	}
	if topics[0] != topics[2] || topics[0] == topics[1] {
		t.Errorf("the end of a question must take its place, and no other's: %q", topics)
	}
	for _, name := range []string{"Authorization", "Topic"} {
		first.header.Del(name)
	}
	headers := map[string]string{}
	for name := range first.header {
		headers[name] = first.header.Get(name)
	}
	if want := map[string]string{
		"Content-Type": "application/octet-stream", "Content-Encoding": "aes128gcm", "Content-Length": "4096",
		"Ttl":     "2419200",
		"Urgency": "normal", "User-Agent": "mailroom",
	}; !maps.Equal(headers, want) {
		t.Errorf("headers: %v", headers)
	}
	if *report != "HTTP 201 Created" {
		t.Errorf("reported: %q", *report)
	}
}

// The exact bytes that reach the service worker.
func TestPushPayloads(t *testing.T) {
	t.Parallel()
	const around = len(`{"kind":"question","id":"q-1","ciphertext":""}`)
	fits := 4 * ((3993 - around) / 4)
	clear := func(n int) push.Message {
		return push.Message{Kind: push.Question, ID: "q-1", Body: `"` + strings.Repeat("x", n) + `"`}
	}
	const aroundClear = len(`{"kind":"question","id":"q-1","text":""}`)
	p := newPushService(t, nil)
	for name, test := range map[string]struct {
		push push.Message
		want string // "" is an error, and no request
	}{
		"encrypted": {question("q-1", 8), `{"kind":"question","id":"q-1","ciphertext":"AAAAAAAA"}`},
		"encrypted, fits": {question("q-1", fits), `{"kind":"question","id":"q-1","ciphertext":"` +
			strings.Repeat("A", fits) + `"}`},
		"encrypted, too long": {question("q-1", fits+4), `{"kind":"question","id":"q-1"}`},
		"not for this device": {question("q-1", 0), `{"kind":"question","id":"q-1"}`},
		"clear": {push.Message{Kind: push.Alert, ID: "a-1",
			Body: ` {"v": 1, "message": "<b>&ä\u2028"} `},
			`{"kind":"alert","id":"a-1","text":{"v":1,"message":"<b>&ä\u2028"}}`},
		"clear, fits": {clear(3993 - aroundClear), `{"kind":"question","id":"q-1","text":"` +
			strings.Repeat("x", 3993-aroundClear) + `"}`},
		"clear, too long": {clear(3994 - aroundClear), `{"kind":"question","id":"q-1"}`},
		"ended": {push.Message{Kind: push.Ended, ID: "q-1", Status: "expired", Body: "x"},
			`{"kind":"ended","id":"q-1","status":"expired"}`},
		"test": {push.Message{Kind: push.Test, ID: "t-1", Status: "x"}, `{"kind":"test","id":"t-1"}`},
		"said to be encrypted": {push.Message{Kind: push.Question, ID: "q-1", Encrypted: true,
			Body: `{"question":"canary"}`}, ""},
		"no JSON":      {push.Message{Kind: push.Question, ID: "q-1", Body: `{"question":`}, ""},
		"no text":      {push.Message{Kind: push.Alert, ID: "q-1"}, ""},
		"no id":        {push.Message{Kind: push.Test}, ""},
		"no kind":      {push.Message{ID: "q-1"}, ""},
		"another kind": {push.Message{Kind: "canary", ID: "q-1"}, ""},
	} {
		before := len(p.all())
		a, _ := p.attempt(pushing(t, test.push))
		err := errors.Join(p.push(transport.Surroundings{}).Deliver(t.Context(), a)...)
		after := p.all()[before:]
		switch {
		case test.want == "" && (err == nil || len(after) != 0 || strings.Contains(err.Error(), "question")):
			t.Errorf("%s: %v, %d requests", name, err, len(after))
		case test.want != "" && (err != nil || len(after) != 1 || after[0].payload != test.want):
			t.Errorf("%s: %v, %d requests", name, err, len(after))
		}
	}
	for _, payload := range []string{``, `null`, `[]`, `{"kind":1}`, `{"kind":"test","id":"` + "\xff" + `"}`} {
		m := note("m", payload)
		a, _ := p.attempt(m)
		if err := errors.Join(p.push(transport.Surroundings{}).Deliver(t.Context(), a)...); err == nil {
			t.Errorf("%q was sent", payload)
		}
	}
}

// The message determines how long a push service keeps it and how urgent it is.
func TestPushLifeAndUrgency(t *testing.T) {
	t.Parallel()
	p := newPushService(t, nil)
	at := time.Date(2025, 10, 26, 10, 30, 0, 0, time.UTC)
	for _, test := range []struct {
		expires  string
		at       time.Time
		priority int
		ttl      string // "" is not sent
		urgency  string
	}{
		{"", at, 0, "2419200", "normal"},
		{"2025-10-26T10:31:00.000Z", at, -1, "60", "low"},
		{"2025-10-26T10:31:00.999Z", at, -9, "60", "low"},
		{"2025-10-26T10:30:00.001Z", at, 1, "0", "high"},
		{"2025-11-23T10:30:00.000Z", at, 9, "2419200", "high"},
		{"2025-11-23T10:30:01.000Z", at, 0, "2419200", "normal"},
		{"9999-12-31T23:59:59.999Z", time.Time{}, 0, "2419200", "normal"},
		{"2025-10-26T10:30:00.000Z", at, 0, "", ""},
		{"2025-10-26T10:29:59.999Z", at, 0, "", ""},
		{"2025-10-26T10:31:00.000Z", time.Time{}, 0, "", ""}, // without the router's clock, the current time counts
		{"tomorrow", at, 0, "", ""},
	} {
		before := len(p.all())
		m := pushing(t, question("q-1", 8))
		m.ExpiresAt, m.Priority = test.expires, test.priority
		a, _ := p.attempt(m)
		a.At = test.at
		err := errors.Join(p.push(transport.Surroundings{}).Deliver(t.Context(), a)...)
		after := p.all()[before:]
		if test.ttl == "" {
			if err == nil || len(after) != 0 {
				t.Errorf("until %s: %v, %d requests", test.expires, err, len(after))
			}
			continue
		}
		must(t, err)
		if h := after[0].header; h.Get("TTL") != test.ttl || h.Get("Urgency") != test.urgency {
			t.Errorf("until %s, priority %d: %s s, %s", test.expires, test.priority, h.Get("TTL"), h.Get("Urgency"))
		}
	}
}

// The push service's status decides. Neither the error nor the trace shows anything with which somebody could push.
func TestPushStatuses(t *testing.T) {
	t.Parallel()
	elsewhere := newPushService(t, nil)
	soon := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for _, test := range []struct {
		status     int
		retryAfter string
		want       string // "" is delivered
	}{
		{200, "", ""}, {201, "", ""}, {202, "60", ""}, {204, "", ""},
		{301, "", "answered 301 Moved Permanently with a redirect to https"}, {302, "", "redirects are not followed"},
		{307, "", "redirects are not followed"},
		{308, "", "redirects are not followed"}, {400, "", "answered 400 Bad Request: over"}, {401, "", "answered 401"},
		{403, "", "answered 403"},
		{404, "60", "no longer exists: example.com"}, {410, "", "no longer exists: example.com"},
		{413, "60", "answered 413 Request Entity Too Large: over"},
		{429, "", "answered 429 Too Many Requests: over"}, {429, "7", "retry after 7s: example.com"},
		{429, soon, "retry after"},
		{500, "60", "answered 500 Internal Server Error: over"}, {502, "", "answered 502"},
		{503, "120", "retry after 2m0s: example.com"}, {503, "", "answered 503"},
	} {
		t.Run(fmt.Sprint(test.status, test.retryAfter), func(t *testing.T) {
			t.Parallel()
			var p *pushService
			p = newPushService(t, func(w http.ResponseWriter, r *http.Request, _ *pushRequest) {
				w.Header().Set("Location", elsewhere.server.URL+pushPath)
				if test.retryAfter != "" {
					w.Header().Set("Retry-After", test.retryAfter)
				}
				w.WriteHeader(test.status)
				if test.status != 204 {
					fmt.Fprint(w, "over\x1b[31m ", r.URL, " ", r.URL.Path, " ", r.URL.Query().Get("key"),
						p.secret.P256dh, p.secret.Auth, strings.Repeat("x", 10_000))
				}
			})
			a, report := p.attempt(pushing(t, question("q-1", 8)))
			err := errors.Join(p.push(transport.Surroundings{}).Deliver(t.Context(), a)...)
			got := fmt.Sprint(err)
			if wait := new(orchestrator.RetryAfter); errors.As(err, &wait) {
				got = "retry after " + wait.Wait.String() + ": " + got
			}
			if test.want == "" && err != nil || test.want != "" && !strings.Contains(got, test.want) || len(got) > 500 {
				t.Errorf("%q; want %q", got, test.want)
			}
			if strings.HasPrefix(got, "retry after") != strings.HasPrefix(test.want, "retry after") {
				t.Errorf("asks for time: %q", got)
			}
			if errors.Is(err, orchestrator.ErrGone) != (test.status == 404 || test.status == 410) {
				t.Errorf("gone: %v", err)
			}
			for _, text := range []string{got, *report} {
				if strings.Contains(text, "the-secret") || strings.Contains(text, "the-key") ||
					strings.Contains(text, p.secret.Auth) ||
					strings.Contains(text, p.secret.P256dh) || strings.ContainsAny(text, "\x1b") || len(text) > 6<<10 {
					t.Errorf("shows too much: %q", text)
				}
			}
			if !strings.HasPrefix(*report, fmt.Sprintf("HTTP %d", test.status)) {
				t.Errorf("reported: %.100q", *report)
			}
			if want := map[bool]int{true: 2, false: 1}[test.status == 413]; len(p.all()) != want {
				t.Errorf("%d requests; want %d", len(p.all()), want)
			}
		})
	}
	t.Cleanup(func() {
		if got := elsewhere.all(); len(got) != 0 {
			t.Errorf("%d redirects were followed", len(got))
		}
	})
}

// A payload that is too long is sent again at once, with the ID alone and in a small record. The second response
// counts.
func TestPushTooLarge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		push   push.Message
		second int
		want   string // of the second request
	}{
		{question("q-1", 8), 201, `{"kind":"question","id":"q-1"}`},
		{question("q-1", 8000), 201, `{"kind":"question","id":"q-1"}`},
		{push.Message{Kind: push.Ended, ID: "q-1", Status: "expired"}, 201,
			`{"kind":"ended","id":"q-1","status":"expired"}`},
		{question("q-1", 8), 410, `{"kind":"question","id":"q-1"}`},
		{question("q-1", 8), 413, `{"kind":"question","id":"q-1"}`},
	} {
		p := newPushService(t, func(w http.ResponseWriter, _ *http.Request, q *pushRequest) {
			w.WriteHeader(map[bool]int{true: 413, false: test.second}[len(q.body) == 4096])
		})
		a, report := p.attempt(pushing(t, test.push))
		err := errors.Join(p.push(transport.Surroundings{}).Deliver(t.Context(), a)...)
		if (err == nil) != (test.second == 201) || errors.Is(err, orchestrator.ErrGone) != (test.second == 410) {
			t.Errorf("%d: %v", test.second, err)
		}
		all := p.all()
		if len(all) != 2 || all[1].payload != test.want || len(all[1].body) != 1024 ||
			all[0].header.Get("Topic") != all[1].header.Get("Topic") {
			t.Errorf("%d requests, the last one with %q", len(all), all[len(all)-1].payload)
		}
		if !strings.HasPrefix(*report, fmt.Sprintf("HTTP %d", test.second)) {
			t.Errorf("reported: %q", *report)
		}
	}
}
