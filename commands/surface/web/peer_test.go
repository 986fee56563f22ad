package web_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"mailroom/commands/surface/web"
)

// dial opens a connection and sends a request over it, followed by additional bytes.
func (e *fort) dial(token, path, body, behind string) net.Conn {
	e.T.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(e.Address, "http://"))
	if err != nil {
		e.T.Fatal(err)
	}
	e.T.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", path, token, len(body), body)
	if behind != "" {
		e.until(func() bool { return e.web.UnderWay() == 1 })
		io.WriteString(c, behind)
	}
	return c
}

// TestHangingUpBehindAByte checks that a wait ends and takes nothing if its client disconnects after sending a byte
// after its request, which net/http no longer detects.
func TestHangingUpBehindAByte(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"/v1/commands/wait": `{"timeout":3600}`,
		"/mcp/route":        `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{"timeout":50}}}`,
	} {
		bounds := web.UsualBounds
		bounds.Peer = time.Millisecond
		e := newFort(t, web.Options{}.Within(bounds), "a", "b")
		c := e.dial(e.Token("b", false), path, body, "x")
		c.Close()
		e.until(func() bool { return e.web.UnderWay() == 0 })
		if status, answer := e.Run(e.Token("a", false), "send",
			`{"recipient":"b","message_type":"note"}`); status != http.StatusOK {
			t.Fatal(status, answer)
		}
		if _, answer := e.Run(e.Token("b", false), "wait", `{"timeout":0}`); !strings.Contains(answer, `"count":1`) {
			t.Errorf("%s: the message went to nobody: %s", path, answer)
		}
	}
}

// TestStreamsOfAToken checks that each token has its own limit of event streams.
func TestStreamsOfAToken(t *testing.T) {
	t.Parallel()
	e := newFort(t, web.Options{}, "a", "b")
	open := func(token string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.Address+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		bearer(token)(req)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		if res.StatusCode == http.StatusOK {
			bufio.NewReader(res.Body).ReadString('\n') // it has begun
		}
		return res
	}
	token := e.Token("a", false)
	for i := range web.StreamsPerToken {
		if res := open(token); res.StatusCode != http.StatusOK {
			t.Fatalf("stream %d: %d", i, res.StatusCode)
		}
	}
	if res := open(token); res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one more: %d", res.StatusCode)
	}
	if res := open(e.Token("b", false)); res.StatusCode != http.StatusOK {
		t.Errorf("another token's: %d", res.StatusCode)
	}
}

// TestLargeBodiesAreBounded checks the total limit of memory for bodies that are held while their requests wait.
func TestLargeBodiesAreBounded(t *testing.T) {
	t.Parallel()
	e := newFort(t, web.Options{}, "a", "b")
	release, ok := e.web.HoldBodies(web.MaxBodies - web.SmallBody)
	if !ok {
		t.Fatal("something is held already")
	}
	token := e.Token("a", false)
	large := `{"recipient":"b","message_type":"note","payload":"` + strings.Repeat("x", 2*web.SmallBody) + `"}`
	if status, answer := e.Run(token, "send", large); status != http.StatusServiceUnavailable {
		t.Errorf("beyond the bound: %d %s", status, answer)
	}
	if status, answer := e.Run(token, "send", `{"recipient":"b","message_type":"note"}`); status != http.StatusOK {
		t.Errorf("a small one: %d %s", status, answer)
	}
	release()
	for range 2 {
		if status, answer := e.Run(token, "send", large); status != http.StatusOK {
			t.Errorf("with room again: %d %s", status, answer)
		}
	}
}
