package mcp

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/orchestrator/agents"
)

// listening returns a request that subscribes to the inbox of an agent.
func listening(id, agent string) string {
	return modernCall(id, newest, listen, `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["`+
		inboxURI+agent+`"]},`)
}

// stream is a subscription over HTTP.
type stream struct {
	t     *testing.T
	res   *http.Response
	lines *bufio.Scanner
	leave context.CancelFunc
}

// listen subscribes to the inbox of an agent and reads the acknowledgement.
func (e *endpoints) listen(t *testing.T, token, id, agent string) *stream {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	res, err := http.DefaultClient.Do(e.modernRequest(token, listening(id, agent), listen, "", nil).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	s := &stream{t, res, bufio.NewScanner(res.Body), leave}
	if got := s.next(); !strings.Contains(got, "notifications/subscriptions/acknowledged") ||
		!strings.Contains(got, inboxURI+agent) ||
		!strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":`+id) || strings.Contains(got, "tools") {
		t.Fatalf("the subscription begins with %s", got)
	}
	if res.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("a proxy may hold the events back: %v", res.Header)
	}
	return s
}

// next returns the next event, or "" at the end.
func (s *stream) next() string {
	for s.lines.Scan() {
		if data, is := strings.CutPrefix(s.lines.Text(), "data: "); is {
			return data
		}
	}
	return ""
}

func (s *stream) hears(what string, parts ...string) {
	s.t.Helper()
	got := s.next()
	for _, part := range append(parts, "notifications/resources/updated") {
		if !strings.Contains(got, part) {
			s.t.Errorf("%s: it hears %q; want %s", what, got, part)
		}
	}
}

// TestListenOverHTTP checks that a subscriber over HTTP, and nobody else, is notified of arrivals in an inbox, until
// the subscriber disconnects or its token is revoked.
func TestListenOverHTTP(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b", "c")
	b := e.tools("/mcp/relay", "b", false, nil)
	send := func(to string) {
		t.Helper()
		done(t, b, "send_message", `{"target":"`+to+`","message_type":"PING","message":"x"}`)
	}
	token := e.Token("a", false)
	first, second, other := e.listen(t, token, `1`, "a"), e.listen(t, token, `"two"`, "a"),
		e.listen(t, e.Token("c", false), `1`, "c")
	send("a")
	first.hears("the first", `"io.modelcontextprotocol/subscriptionId":1`, inboxURI+"a")
	second.hears("the second", `"io.modelcontextprotocol/subscriptionId":"two"`)
	first.leave()
	send("a")
	second.hears("the second, when the first has gone", `"two"`)
	send("c")
	other.hears("another agent, of all this", inboxURI+"c") // its first event
	third := e.listen(t, token, `3`, "a")
	if status, _ := e.post(token, "/mcp/relay",
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`); status != http.StatusAccepted {
		t.Errorf("calling the third off: %d", status)
	}
	for third.next() != "" { // a last answer may report the end
	}
	if _, err := agents.RevokeTokens(t.Context(), e.Router.Ledger, "a"); err != nil {
		t.Fatal(err)
	}
	send("a")
	for got := second.next(); got != ""; got = second.next() {
		if strings.Contains(got, "updated") {
			t.Errorf("whose token was revoked hears %s", got)
		}
	}
}

// TestListensAreBounded checks the limit of concurrent subscriptions per caller.
func TestListensAreBounded(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	token := e.Token("a", false)
	for i := range 32 {
		e.listen(t, token, fmt.Sprint(i), "a")
	}
	if status, got := e.answerTo(e.modernRequest(token, listening("32", "a"), listen, "",
		nil)); status != http.StatusTooManyRequests {
		t.Errorf("one too many: %d %s", status, got)
	}
	e.listen(t, e.Token("b", false), "1", "b")
}

// TestListenIsRefused checks the refusal of subscriptions to another agent's inbox, to a resource that does not
// change, and by clients of another protocol version.
func TestListenIsRefused(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	token := e.Token("a", false)
	for body, want := range map[string]string{
		listening("5", "b"): "cannot act for b",
		strings.Replace(listening("5", "a"), inboxURI+"a", "mailroom://thread/x", 1): "only inboxes",
		modernCall("5", newest, listen, ""):                                          "notifications",
	} {
		status, got := e.answerTo(e.modernRequest(token, body, listen, "", nil))
		if status != http.StatusBadRequest || errorCode(got) != -32602 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s; want %s", body, status, got, want)
		}
	}
	const old = `{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["` + inboxURI + `a"]}}}`
	_, overHTTP := e.post(token, "/mcp/relay", old)
	s := rawly(t, stdioServer(e.Env, "a", "relay"), "a")
	s.say(hello)
	s.next()
	s.say(old)
	for way, got := range map[string]string{"stdio": s.next(), "HTTP": overHTTP} {
		if errorCode(got) != -32601 {
			t.Errorf("in the older protocol, over %s: %s", way, got)
		}
	}
	for i := range maxSubscriptions {
		s.say(listening(fmt.Sprint(100+i), "a"))
		s.next()
	}
	s.say(listening("5", "a"))
	if got := s.next(); !strings.Contains(got, `"id":5`) || !strings.Contains(got, "the limit of 32 subscriptions") {
		t.Errorf("one more than there may be: %s", got)
	}
}

// TestSubscriptionsOfOneClient checks that two subscriptions to the same inbox on one connection, and one of the
// older protocol, each get notifications in their own form, and that each ends independently.
func TestSubscriptionsOfOneClient(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	b := e.tools("/mcp/relay", "b", false, nil)
	s := rawly(t, stdioServer(e.Env, "a", "relay"), "a")
	const updated = "notifications/resources/updated" // several may come for one message
	say := func(line, want string) {
		t.Helper()
		s.say(line)
		got := s.next()
		for strings.Contains(got, updated) {
			got = s.next()
		}
		if !strings.Contains(got, want) {
			t.Fatalf("to %s: %s; want %s", line, got, want)
		}
	}
	say(listening("1", "a"), "acknowledged")
	say(listening("2", "a"), "acknowledged")
	say(hello, "serverInfo")
	say(`{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"`+inboxURI+`a"}}`, `"id":3`)
	hear := func(what string, wants ...string) {
		t.Helper()
		done(t, b, "send_message", `{"target":"a","message_type":"PING","message":"x"}`)
		missing := slices.Clone(wants)
		for len(missing) > 0 {
			line := s.next()
			of := func(want string) bool {
				return strings.Contains(line, updated) &&
					(want != "" && strings.Contains(line, want) || want == "" && !strings.Contains(line, "subscriptionId"))
			}
			if !slices.ContainsFunc(wants, of) {
				t.Errorf("%s: it hears %s; want %q", what, line, missing)
				return
			}
			missing = slices.DeleteFunc(missing, of)
		}
	}
	hear("all three", `"io.modelcontextprotocol/subscriptionId":1`, `"io.modelcontextprotocol/subscriptionId":2`, "")
	s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	hear("without the first", `"io.modelcontextprotocol/subscriptionId":2`, "")
	say(`{"jsonrpc":"2.0","id":4,"method":"resources/unsubscribe","params":{"uri":"`+inboxURI+`a"}}`, `"id":4`)
	hear("the second alone", `"io.modelcontextprotocol/subscriptionId":2`)
	say(listening("2", "a"), "acknowledged") // an ID that is used again ends the older request
	hear("the second anew", `"io.modelcontextprotocol/subscriptionId":2`)
	say(modernCall("9", newest, "tools/list", ""), `"id":9`)
}

// TestComments checks that an idle event stream that has begun gets comments, and that other answers get none.
func TestComments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for kind, comments := range map[string]int{"text/event-stream": 3, "application/json": 0, "": 0} {
			ctx, stop := context.WithTimeout(t.Context(), 3*stillThere+time.Second)
			rec := httptest.NewRecorder()
			w := &watchedWriter{ResponseWriter: rec, x: &exchange{gone: ctx}}
			if kind != "" {
				w.Header().Set("Content-Type", kind)
				w.Write([]byte("data: {}\n\n"))
			}
			w.comment(ctx)
			stop()
			if got := strings.Count(rec.Body.String(), ": still there\n\n"); got != comments {
				t.Errorf("%q: %d comments; want %d: %q", kind, got, comments, rec.Body.String())
			}
		}
	})
}
