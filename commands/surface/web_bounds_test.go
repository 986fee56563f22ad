package surface

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/time/rate"
)

// Too many requests are refused, each kind within its own bounds: who has no token takes nothing from those who have one.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	bounds := usualBounds
	bounds.requests = 8
	f := newFort(t, webOptions{bounds: bounds}, "ann", "bob", "cid", "dan", "eve")
	f.web.failures.SetLimit(0) // as if no time went by, however slow this machine is
	ann := f.token("ann", false)
	bounded := false
	for range 200 {
		status, header, body := f.request("POST", "/v1/commands/send", `{}`, bearer(ann+"x"))
		if code, _ := failure(body); status == 429 && code == "busy" && header.Get("Retry-After") != "" {
			bounded = true
		} else if status != 401 {
			t.Fatalf("a wrong token: %d %s", status, body)
		}
		if status, body := f.run(ann, "get_messages", `{}`); status != 200 {
			t.Fatalf("the right token meanwhile: %d %s", status, body)
		}
	}
	if !bounded {
		t.Error("200 wrong tokens in a row are not bounded")
	}
	f.until(func() bool { return len(f.web.slots) == 0 })
	tokens, answers := map[string]string{}, make(chan int, bounds.requests)
	for i, name := range []string{"ann", "bob", "cid", "dan"} { // who have a quarter of all each
		tokens[name] = f.token(name, false)
		for range 2 {
			go func() {
				status := 0
				defer func() { answers <- status }()
				status, _ = f.run(tokens[name], "wait", `{"timeout":300,"batch_size":1}`)
			}()
		}
		f.until(func() bool { return len(f.web.slots) == 2*i+2 })
		refused(f, tokens[name], 429)
	}
	refused(f, f.token("eve", false), 503)
	if status, _, _ := f.request("GET", "/healthz", "", nil); status != 200 {
		t.Errorf("/healthz meanwhile: %d", status)
	}
	for name := range tokens {
		f.send("eve", name)
		f.send("eve", name)
	}
	for range bounds.requests {
		if status := <-answers; status != 200 {
			t.Errorf("a wait under way: %d", status)
		}
	}
}

// refused asks with a token for which there is no room.
func refused(f *fort, token string, want int) {
	f.t.Helper()
	status, header, body := f.request("POST", "/v1/commands/agent_list", `{}`, bearer(token))
	if code, hint := failure(body); status != want || code != "busy" || header.Get("Retry-After") == "" || hint == "" {
		f.t.Errorf("one request more than the limit: %d %s; want %d", status, body, want)
	}
}

// A token that asks too often is told to wait, and the others are not.
func TestRateOfAToken(t *testing.T) {
	t.Parallel()
	f := newFort(t, webOptions{ratePerSecond: 1}, "ann", "bob")
	ann, bob := f.token("ann", false), f.token("bob", false)
	var last int
	for range 50 {
		status, header, body := f.request("POST", "/v1/commands/agent_list", `{}`, bearer(ann))
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
	if status, body := f.run(bob, "agent_list", `{}`); status != 200 {
		t.Errorf("another token: %d %s", status, body)
	}
}

// A token is nowhere but with its holder: in no answer, no log, no metric and no file, whatever was asked with it.
func TestTokensLeakNowhere(t *testing.T) {
	t.Parallel()
	f := newFort(t, webOptions{}, "ann", "bob")
	f.web.failures.SetLimit(rate.Inf)
	ann, boss := f.token("ann", false), f.token("bob", true)
	var seen strings.Builder
	for _, token := range []string{ann, boss} {
		wrong := token[:len(token)-3] + "xyz"
		for _, change := range []func(*http.Request){
			bearer(token), bearer(wrong), set("Authorization", "Basic "+token), both(bearer(token), bearer(token)), set("Authorization", "Bearer "+token, "Authorization", token),
			both(bearer(token), set("Traceparent", "00-"+token+"-"+token+"-01", "Last-Event-ID", "x", "Content-Encoding", "x")),
		} {
			for _, path := range []string{"/v1/commands/send", "/v1/commands/nosuch", "/v1/commands/status", "/v1/commands/why", "/mcp", "/mcp/team", "/v1/events?after=x", "/metrics"} {
				for _, body := range []string{"", "{", `{"message_id":"msg-1"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"x"}}`} {
					for _, method := range []string{"GET", "POST"} {
						_, header, answer := f.request(method, path, body, mcpClient(change))
						fmt.Fprintln(&seen, header, answer)
					}
				}
			}
		}
	}
	f.web.close()
	_, metrics := newEndpoints(t).get("/metrics", "")
	seen.WriteString(metrics)
	seen.WriteString(f.logged())
	if err := f.router.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(f.folder + "/*")
	if err != nil || len(files) == 0 {
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
