package web_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/time/rate"

	"mailroom/commands/surface/web"
	"mailroom/orchestrator/store/postgres"
)

// TestTooManyRequests checks that excess requests are refused, with separate limits, so that clients without a token
// take no capacity from those with one.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	bounds := web.UsualBounds
	bounds.Requests = 8
	f := newFort(t, web.Options{}.Within(bounds), "ann", "bob", "cid", "dan", "eve")
	f.web.LimitFailures(0) // independent of the speed of this machine
	ann := f.Token("ann", false)
	bounded := false
	for range 200 {
		status, header, body := f.Request("POST", "/v1/commands/send", `{}`, bearer(ann+"x"))
		if code, _ := failure(body); status == 429 && code == "busy" && header.Get("Retry-After") != "" {
			bounded = true
		} else if status != 401 {
			t.Fatalf("a wrong token: %d %s", status, body)
		}
		if status, body := f.Run(ann, "get_messages", `{}`); status != 200 {
			t.Fatalf("the right token meanwhile: %d %s", status, body)
		}
	}
	if !bounded {
		t.Error("200 wrong tokens in a row are not bounded")
	}
	f.until(func() bool { return f.web.UnderWay() == 0 })
	tokens, answers := map[string]string{}, make(chan int, bounds.Requests)
	for i, name := range []string{"ann", "bob", "cid", "dan"} { // each of whom may use a quarter
		tokens[name] = f.Token(name, false)
		for range 2 {
			go func() {
				status := 0
				defer func() { answers <- status }()
				status, _ = f.Run(tokens[name], "wait", `{"timeout":300,"batch_size":1}`)
			}()
		}
		f.until(func() bool { return f.web.UnderWay() == 2*i+2 })
		refused(f, tokens[name], 429)
	}
	refused(f, f.Token("eve", false), 503)
	if status, _, _ := f.Request("GET", "/healthz", "", nil); status != 200 {
		t.Errorf("/healthz meanwhile: %d", status)
	}
	for name := range tokens {
		f.send("eve", name)
		f.send("eve", name)
	}
	for range bounds.Requests {
		if status := <-answers; status != 200 {
			t.Errorf("a wait under way: %d", status)
		}
	}
}

// refused sends a request with a token and checks that it is refused for lack of capacity.
func refused(f *fort, token string, want int) {
	f.T.Helper()
	status, header, body := f.Request("POST", "/v1/commands/agent_list", `{}`, bearer(token))
	if code, hint := failure(body); status != want || code != "busy" || header.Get("Retry-After") == "" || hint == "" {
		f.T.Errorf("one request more than the limit: %d %s; want %d", status, body, want)
	}
}

// TestQueriesOneAfterTheOther checks that a query releases its slot after its answer was written.
func TestQueriesOneAfterTheOther(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann")
	ann := f.Token("ann", true)
	for range 6 {
		if status, body := f.Run(ann, "sql", `{"query":"SELECT 1 AS n"}`); status != 200 ||
			!strings.Contains(body, `"rows":[{"n":1}]`) {
			t.Fatalf("%d %s", status, body)
		}
		if status, body := f.tool(ann, "/mcp", "sql", `{"query":"SELECT 1 AS n"}`); status != 200 ||
			strings.Contains(body, `"isError":true`) {
			t.Fatalf("as a tool: %d %s", status, body)
		}
	}
}

// TestRateOfAToken checks that a token with too many requests must wait, and that others need not.
func TestRateOfAToken(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{RatePerSecond: 1}, "ann", "bob")
	ann, bob := f.Token("ann", false), f.Token("bob", false)
	var last int
	for range 50 {
		status, header, body := f.Request("POST", "/v1/commands/agent_list", `{}`, bearer(ann))
		if last = status; status == 429 {
			if code, hint := failure(body); code != "busy" || hint == "" || header.Get("Retry-After") == "" {
				t.Errorf("429 without a code, a hint and Retry-After: %s", body)
			}
			break
		}
	}
	if last != 429 {
		t.Errorf("50 requests with one token in a row end with %d; want 429", last)
	}
	if status, body := f.Run(bob, "agent_list", `{}`); status != 200 {
		t.Errorf("another token: %d %s", status, body)
	}
}

// TestTokensLeakNowhere checks that a token appears in no answer, log or file.
func TestTokensLeakNowhere(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann", "bob")
	f.web.LimitFailures(rate.Inf)
	ann, boss := f.Token("ann", false), f.Token("bob", true)
	var seen strings.Builder
	for _, token := range []string{ann, boss} {
		wrong := token[:len(token)-3] + "xyz"
		for _, change := range []func(*http.Request){
			bearer(token), bearer(wrong), set("Authorization", "Basic "+token), both(bearer(token), bearer(token)),
			set("Authorization", "Bearer "+token, "Authorization", token),
			both(bearer(token),
				set("Traceparent", "00-"+token+"-"+token+"-01", "Last-Event-ID", "x", "Content-Encoding", "x")),
		} {
			for _, path := range []string{"/v1/commands/send", "/v1/commands/nosuch", "/v1/commands/status",
				"/v1/commands/why", "/mcp", "/mcp/team", "/v1/events?after=x", "/metrics"} {
				for _, body := range []string{"", "{", `{"message_id":"msg-1"}`,
					`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
					`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"x"}}`} {
					for _, method := range []string{"GET", "POST"} {
						_, header, answer := f.Request(method, path, body, mcpClient(change))
						fmt.Fprintln(&seen, header, answer)
					}
				}
			}
		}
	}
	f.web.Close()
	seen.WriteString(f.Logged())
	if err := f.Router.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(f.Folder + "/*")
	if err != nil || len(files) == 0 && !postgres.IsAddress(f.Router.Path()) {
		t.Fatal(files, err)
	}
	for _, path := range files {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(&seen, file)
		file.Close()
	}
	for _, token := range []string{ann, boss} {
		for _, part := range []string{token, token[9:33], token[33:], token[:len(token)-3]} {
			if at := strings.Index(seen.String(), part); at >= 0 {
				t.Errorf("%q of a token stands in %.300q", part, seen.String()[max(0, at-200):])
			}
		}
	}
	if !strings.Contains(seen.String(), "ann") {
		t.Error("nothing was searched")
	}
}
