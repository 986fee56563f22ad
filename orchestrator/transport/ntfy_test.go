package transport_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/transport"
)

const (
	ntfyTopic = "mailroom-the-secret-topic"
	ntfyToken = "tk_the-secret-token"
	ntfyKey   = "000102030405060708090a0b0c0d0e0f"
)

// An ntfyServer accepts notifications as ntfy does, and stores those of the topic.
type ntfyServer struct {
	t      *testing.T
	server *httptest.Server
	names  *nameServer
	secret push.NtfySecret
	answer func(w http.ResponseWriter, body []byte) // nil: echo the request, with an ID

	mu     sync.Mutex
	bodies []string
	broken bool
}

func newNtfyServer(t *testing.T, answer func(http.ResponseWriter, []byte)) *ntfyServer {
	t.Helper()
	n := &ntfyServer{t: t, answer: answer}
	n.server = httptest.NewUnstartedServer(n)
	n.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	n.server.StartTLS()
	t.Cleanup(n.server.Close)
	n.names = newNameServer(t, func(name string) []netip.Addr {
		if name == "example.com." || name == "ntfy.sh." {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}
		return nil
	})
	_, port, err := net.SplitHostPort(n.server.Listener.Addr().String())
	must(t, err)
	n.secret = push.NtfySecret{
		URL: "https://example.com:" + port + "/" + ntfyTopic, Token: ntfyToken, Key: ntfyKey,
		SignalURL: "https://phone.example.com",
		Hosts:     []string{"example.com:" + port}, AllowPrivate: true,
	}
	return n
}

func (n *ntfyServer) ntfy(s transport.Surroundings) *transport.Ntfy {
	s.Resolver, s.TLS = n.names.resolver(), trusting(n.server)
	return transport.NewNtfy(s)
}

func (n *ntfyServer) prepare(a *orchestrator.Attempt) { a.Secret = asText(n.t, n.secret) }

func (n *ntfyServer) attempt(ms ...orchestrator.Message) (a orchestrator.Attempt, report *string) {
	report = new(string)
	a = orchestrator.Attempt{
		Recipient: "device:ntfy", Address: "ntfy", Messages: ms, Report: func(text string) { *report = text },
	}
	n.prepare(&a)
	return a, report
}

func (n *ntfyServer) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.bodies...)
}

func (n *ntfyServer) fail(*testing.T) (restore func()) {
	set := func(broken bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.broken = broken
	}
	set(true)
	return func() { set(false) }
}

func (n *ntfyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client aborted the request
	}
	var sent struct{ Topic, Message string }
	if err := json.Unmarshal(body, &sent); err != nil || sent.Topic != ntfyTopic || sent.Message == "" ||
		len(sent.Message) > 4096 || len(body) > 8192 ||
		r.Method+" "+r.URL.RequestURI() != "POST /" || r.Header.Get("Content-Type") != "application/json" {
		n.t.Errorf("%s %s, %v: %d bytes %.300s", r.Method, r.URL, err, len(body), body)
	}
	if token := r.Header.Get("Authorization"); token != "Bearer "+n.secret.Token && token != n.secret.Token {
		n.t.Errorf("token %q", token)
	}
	n.mu.Lock()
	broken := n.broken
	if !broken {
		n.bodies = append(n.bodies, string(body))
	}
	n.mu.Unlock()
	switch {
	case broken:
		http.Error(w, "the shelf is full", http.StatusInternalServerError)
	case n.answer != nil:
		n.answer(w, body)
	default:
		w.Write(body)
	}
}

func TestNtfy(t *testing.T) {
	t.Parallel()
	orchestratortest.ExerciseTransport(t, func(t *testing.T) orchestratortest.Fixture {
		n, s := newNtfyServer(t, nil), new(shelf)
		asked := func(payload string) string { return `{"question":"q","payload":` + payload + `}` }
		return orchestratortest.Fixture{
			Transport: asQuestions{n.ntfy(transport.Surroundings{}), asked, s.keep},
			Address:   "ntfy",
			Refused:   []string{"", "x", "NTFY", "ntfy ", "d-1", "https://ntfy.sh/x"},
			Prepare:   n.prepare,
			Arrived:   func(t *testing.T) []orchestratortest.Arrival { return n.arrived(t, s) },
			Block:     func(*testing.T) func() { return n.names.block() },
			Fail:      n.fail,
			Says:      "the shelf is full",
		}
	})
}

// arrived returns what a person finds in the app after a notification.
func (n *ntfyServer) arrived(t *testing.T, s *shelf) (list []orchestratortest.Arrival) {
	for _, body := range n.all() {
		var got struct {
			Sequence string `json:"sequence_id"`
		}
		must(t, json.Unmarshal([]byte(body), &got))
		for _, id := range s.ids() {
			if transport.Topic(id) == got.Sequence {
				list = append(list, orchestratortest.Arrival{ID: id, Payload: s.fetch(t, id)})
			}
		}
	}
	return list
}

// The bytes that reach the topic reveal nothing encrypted, and otherwise contain what a person needs.
func TestNtfyNotifications(t *testing.T) {
	t.Parallel()
	const start, sequence = `{"topic":"mailroom-the-secret-topic",`, `,"sequence_id":"SEQUENCE"}`
	const click = `,"click":"https://phone.example.com"`
	button := func(label string, option int) string {
		return fmt.Sprintf(`{"action":"http","label":%q,"url":"https://phone.example.com/api/once/q-1/%d/%s","method":"POST","clear":true}`,
			label, option, push.NtfyToken(ntfyKey, "q-1", option))
	}
	clear := func(kind push.Kind, body string) push.Message {
		return push.Message{Kind: kind, ID: "q-1", Body: body}
	}
	ended := func(status string) push.Message {
		return push.Message{Kind: push.Ended, ID: "q-1", Status: status}
	}
	n := newNtfyServer(t, nil)
	for _, test := range []struct {
		push     push.Message
		priority int
		want     string // "" is an error, and no request
	}{
		{question("q-1", 8), 0,
			`"title":"Mailroom","message":"A question is waiting","priority":3,"tags":["question"]` + click},
		{question("q-1", 0), 5,
			`"title":"Mailroom","message":"A question is waiting","priority":4,"tags":["question"]` + click},
		{push.Message{Kind: push.Alert, ID: "q-1", Encrypted: true, Body: "AAAA"}, -1,
			`"title":"Mailroom","message":"An alert is waiting","priority":2` + click},
		{clear("question", `{"from":"builder","question":"Deploy?","options":["Yes","No \"<b>\"","ä"],"context":"to\nprod"}`), 1,
			`"title":"Question from builder","message":"Deploy?\n\nto\nprod","priority":4,"tags":["question"]` + click +
				`,"actions":[` + button("Yes", 0) + `,` + button(`No "<b>"`, 1) + `,` + button("ä", 2) + `]`},
		{clear("question", `{"from":"b","question":"Which?","options":["1","2","3","4"]}`), 0,
			`"title":"Question from b","message":"Which?","priority":3,"tags":["question"]` + click},
		{clear("question", `{"from":"b","question":"What?"}`), -3,
			`"title":"Question from b","message":"What?","priority":2,"tags":["question"]` + click},
		{clear("alert", `{"from":"b","message":"m","alertType":"error"}`), 0,
			`"title":"Error from b","message":"m","priority":4,"tags":["rotating_light"]` + click},
		{clear("alert", `{"from":"b","message":"m","alertType":"warning","context":"c"}`), 0,
			`"title":"Warning from b","message":"m\n\nc","priority":3,"tags":["warning"]` + click},
		{clear("alert", `{"from":"b","message":"m","alertType":"success"}`), 0,
			`"title":"Success from b","message":"m","priority":3,"tags":["white_check_mark"]` + click},
		{clear("alert", `{"from":"b","message":"m","alertType":"info"}`), -1,
			`"title":"Info from b","message":"m","priority":2,"tags":["information_source"]` + click},
		{clear("alert", `{"from":"b\u0000\u001b","message":"m\u0007","alertType":"x"}`), 0,
			`"title":"Alert from b","message":"m","priority":3` + click},
		{ended("answered"), 1, `"title":"Mailroom","message":"The question was answered","priority":1`},
		{ended("expired"), 0, `"title":"Mailroom","message":"The question expired","priority":1`},
		{ended("cancelled"), 0, `"title":"Mailroom","message":"The question was canceled","priority":1`},
		{ended("x"), 0, `"title":"Mailroom","message":"The question has ended","priority":1`},
		{push.Message{Kind: push.Test, ID: "q-1"}, 0, `"title":"Mailroom","message":"This is a test","priority":3` +
			click},
		{push.Message{Kind: push.Question, ID: "q-1", Encrypted: true, Body: `{"question":"canary"}`}, 0, ""},
		{clear("question", `{}`), 0, ""}, {clear("question", `[]`), 0, ""}, {clear("question", ``), 0, ""},
		{clear("question", `{"message":"m"}`), 0, ""},
		{clear("alert", `{"question":"q"}`), 0, ""}, {clear("x", `{"question":"q"}`), 0, ""},
	} {
		before := len(n.all())
		m := pushing(t, test.push)
		m.Priority = test.priority
		a, report := n.attempt(m)
		err := errors.Join(n.ntfy(transport.Surroundings{}).Deliver(t.Context(), a)...)
		after := n.all()[before:]
		if test.want == "" {
			if err == nil || len(after) != 0 || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %v, %d requests", test.push.Body, err, len(after))
			}
			continue
		}
		want := start + test.want + strings.ReplaceAll(sequence, "SEQUENCE", transport.Topic("q-1"))
		if err != nil || len(after) != 1 || after[0] != want {
			t.Errorf("%v\n%s\nwant\n%s", err, after, want)
		}
		if *report != "HTTP 200 OK" { // the response contains the buttons' tokens
			t.Errorf("reported: %q", *report)
		}
	}
}

// Without an app address there is no link, without a key there is no button, and without a token no token is sent.
func TestNtfyWithoutApp(t *testing.T) {
	t.Parallel()
	n := newNtfyServer(t, nil)
	m := pushing(t, push.Message{Kind: push.Question, ID: "q-1",
		Body: `{"from":"b","question":"Deploy?","options":["Yes","No"]}`})
	for i, click := range []string{"", `"click":"https://phone.example.com"`} {
		n.secret.SignalURL, n.secret.Key, n.secret.Token = "", ntfyKey, ""
		if click != "" {
			n.secret.SignalURL, n.secret.Key = "https://phone.example.com", ""
		}
		a, _ := n.attempt(m)
		must(t, errors.Join(n.ntfy(transport.Surroundings{}).Deliver(t.Context(), a)...))
		got := n.all()[i]
		if strings.Contains(got, "click") != (click != "") || !strings.Contains(got, click) ||
			strings.Contains(got, "actions") || !strings.Contains(got, "Deploy?") {
			t.Error(got)
		}
	}
}

// Every question fits into the server's limits, which the fixture checks. The app shows what is missing.
func TestNtfyLimits(t *testing.T) {
	t.Parallel()
	n := newNtfyServer(t, nil)
	for _, c := range []string{`x`, `"`, `\`, "\n", "\x00", "\x1f", "\u0085", "\u2028", "ä", "世", "👩", "\u200d", "<"} {
		text := map[string]any{
			"from": strings.Repeat(c, 256), "question": "?" + strings.Repeat(c, 2000),
			"context": strings.Repeat(c, 500),
			"options": []string{strings.Repeat(c, 100), strings.Repeat(c, 99) + "y", strings.Repeat(c, 99) + "z"},
		}
		m := pushing(t, push.Message{Kind: push.Question, ID: "q-01KDYAK348A7QTJ5MXMEX7CXND", Body: asText(t, text)})
		a, _ := n.attempt(m)
		if err := errors.Join(n.ntfy(transport.Surroundings{}).Deliver(t.Context(), a)...); err != nil {
			t.Errorf("%q: %v", c, err)
		}
	}
}

// The responses have the same meaning as those of a push service. Errors and traces show neither the topic nor the
// tokens.
func TestNtfyStatuses(t *testing.T) {
	t.Parallel()
	elsewhere := newNtfyServer(t, nil)
	for _, test := range []struct {
		status     int
		retryAfter string
		want       string // "" is delivered
		requests   int
	}{
		{200, "", "", 1}, {202, "", "", 1}, {301, "", "redirects are not followed", 1},
		{307, "", "redirects are not followed", 1},
		{401, "", "answered 401", 1}, {403, "", "answered 403 Forbidden: sorry", 1}, {404, "", "no longer exists", 1},
		{410, "60", "no longer exists", 1},
		{413, "", "answered 413", 2}, {429, "", "answered 429", 1}, {429, "60", "retry after 1m0s", 1},
		{503, "7", "retry after 7s", 1},
		{500, "60", "answered 500", 1}, {507, "", "answered 507", 1},
	} {
		t.Run(fmt.Sprint(test.status, test.retryAfter), func(t *testing.T) {
			t.Parallel()
			n := newNtfyServer(t, func(w http.ResponseWriter, body []byte) {
				w.Header().Set("Location", elsewhere.secret.URL)
				if test.retryAfter != "" {
					w.Header().Set("Retry-After", test.retryAfter)
				}
				w.WriteHeader(test.status)
				fmt.Fprintf(w, "sorry: %s %s\x1b", ntfyToken, body)
			})
			m := pushing(t, push.Message{Kind: push.Question, ID: "q-1",
				Body: `{"from":"b","question":"?","options":["Yes","No"]}`})
			a, report := n.attempt(m)
			err := errors.Join(n.ntfy(transport.Surroundings{}).Deliver(t.Context(), a)...)
			got := fmt.Sprint(err)
			if wait := new(orchestrator.RetryAfter); errors.As(err, &wait) {
				got = "retry after " + wait.Wait.String() + ": " + got
			}
			if test.want == "" && err != nil || test.want != "" && !strings.Contains(got, test.want) {
				t.Errorf("%q; want %q", got, test.want)
			}
			if errors.Is(err, orchestrator.ErrGone) != (test.status == 404 || test.status == 410) {
				t.Errorf("gone: %v", err)
			}
			for _, text := range []string{got, *report} {
				for _, secret := range []string{"the-secret", push.NtfyToken(ntfyKey, "q-1", 0),
					push.NtfyToken(ntfyKey, "q-1", 1), "\x1b"} {
					if strings.Contains(text, secret) {
						t.Errorf("shows %q: %q", secret, text)
					}
				}
			}
			if all := n.all(); len(all) != test.requests || test.requests == 2 &&
				(!strings.Contains(all[1], "A question is waiting") || strings.Contains(all[1], "actions")) {
				t.Errorf("requests: %q", all)
			}
		})
	}
	t.Cleanup(func() {
		if got := elsewhere.all(); len(got) != 0 {
			t.Errorf("%d redirects were followed", len(got))
		}
	})
}

// Topics are at ntfy.sh, which is never private, or at a server added by hand, which may be private.
func TestNtfyAddresses(t *testing.T) {
	t.Parallel()
	n := newNtfyServer(t, nil)
	plain := httptest.NewServer(n)
	t.Cleanup(plain.Close)
	own := strings.TrimPrefix(plain.URL, "http://")
	var dialled atomic.Int32
	ntfy := n.ntfy(transport.Surroundings{Dialling: func(string) error {
		dialled.Add(1)
		return nil
	}})
	for _, test := range []struct {
		url   string
		allow bool
		host  string
		want  orchestrator.Code // "" is delivered
	}{
		{plain.URL + "/" + ntfyTopic, true, own, ""},
		{plain.URL + "/" + ntfyTopic, false, own, orchestrator.InvalidParams},
		{plain.URL + "/" + ntfyTopic, true, "", orchestrator.InvalidParams},
		{plain.URL + "/" + ntfyTopic, true, "127.0.0.1", orchestrator.InvalidParams},
		{n.secret.URL, true, n.secret.Hosts[0], ""},
		{n.secret.URL, false, n.secret.Hosts[0], orchestrator.PermissionDenied},
		{n.secret.URL, true, "", orchestrator.InvalidParams},
		{"https://ntfy.sh/" + ntfyTopic, true, "", orchestrator.PermissionDenied},
		{"https://ntfy.sh/" + ntfyTopic, true, "ntfy.sh", orchestrator.PermissionDenied},
		{"http://ntfy.sh/" + ntfyTopic, true, "", orchestrator.InvalidParams},
		{"https://127.0.0.1/" + ntfyTopic, true, "", orchestrator.InvalidParams},
		{"https://the-secret@ntfy.sh/" + ntfyTopic, true, "", orchestrator.InvalidParams},
		{"https://ntfy.sh/", true, "", orchestrator.InvalidParams},
	} {
		m := pushing(t, push.Message{Kind: push.Test, ID: "t-1"})
		a, _ := n.attempt(m)
		s := n.secret
		s.URL, s.AllowPrivate, s.Hosts = test.url, test.allow, []string{test.host}
		a.Secret, a.AllowPrivate = asText(t, s), true
		before := dialled.Load()
		err := errors.Join(ntfy.Deliver(t.Context(), a)...)
		if test.want == "" && err != nil || test.want != "" &&
			(orchestrator.CodeOf(err) != test.want || dialled.Load() != before ||
				strings.Contains(err.Error(), "the-secret")) {
			t.Errorf("%s, private %v, %q: %v", test.url, test.allow, test.host, err)
		}
	}
	for _, secret := range []string{"", "{", "{}", `{"url":""}`} {
		m := pushing(t, push.Message{Kind: push.Test, ID: "t-1"})
		a, _ := n.attempt(m)
		a.Secret = secret
		if err := errors.Join(ntfy.Deliver(t.Context(), a)...); err == nil {
			t.Errorf("sent to no topic: %q", secret)
		}
	}
	if n := len(n.all()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// An error that quotes an invalid response does not show a token.
func TestNtfyBrokenAnswer(t *testing.T) {
	t.Parallel()
	n := newNtfyServer(t, func(w http.ResponseWriter, _ []byte) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 %s\r\n\r\n", ntfyToken)
	})
	a, _ := n.attempt(pushing(t, push.Message{Kind: push.Test, ID: "t-1"}))
	err := errors.Join(n.ntfy(transport.Surroundings{}).Deliver(t.Context(), a)...)
	if err == nil || !strings.Contains(err.Error(), `malformed HTTP status code "..."`) {
		t.Errorf("%v", err)
	}
}
