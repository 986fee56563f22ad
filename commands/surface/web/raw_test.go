package web_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mailroom/commands/surface/listener"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/reading"
)

// raw sends the given bytes and returns everything received until the daemon disconnects.
func raw(t testing.TB, address, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go io.WriteString(c, text)
	answer, _ := io.ReadAll(c) // a daemon that disconnects with unread bytes resets the connection
	return string(answer)
}

// TestRawRequests sends requests that only raw bytes can form. The daemon must answer or disconnect, and serve the
// next one.
func TestRawRequests(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann", "bob")
	token := f.Token("ann", false)
	post := func(headers, body string) string {
		return "POST /v1/commands/send HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + "\r\n" + body
	}
	auth := "Authorization: Bearer " + token + "\r\nContent-Type: application/json\r\n"
	const send = `{"recipient":"bob","message_type":"note"}`
	large := strings.Repeat("x", web.MaxBody+1)
	for name, row := range map[string]struct{ request, want string }{
		"in order":       {post(auth+fmt.Sprintf("Content-Length: %d\r\n", len(send)), send), "HTTP/1.1 200 "},
		"two hosts":      {post("Host: evil.example\r\n"+auth, ""), "HTTP/1.1 400 "},
		"no host":        {"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 400 "},
		"no host in 1.0": {"GET /healthz HTTP/1.0\r\n\r\n", "HTTP/1.0 403 "},
		"absolute URL":   {"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "HTTP/1.1 403 "},
		"asterisk": {"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
			"HTTP/1.1 404 "},
		"connect": {"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\nConnection: close\r\n\r\n", "HTTP/1.1 403 "},
		"large header": {post(auth+"X-A: "+strings.Repeat("a", 2*listener.MaxHeader)+"\r\n", ""),
			"HTTP/1.1 431 "},
		"many headers": {post(auth+strings.Repeat("X-A: b\r\n", listener.MaxHeader/4), ""), "HTTP/1.1 431 "},
		"long path": {"GET /" + strings.Repeat("a", 2*listener.MaxHeader) +
			" HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 431 "},
		"two lengths": {post(auth+"Content-Length: 2\r\nContent-Length: 3\r\n", "{}"), "HTTP/1.1 400 "},
		"length and chunks": {post(auth+"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n{}"),
			"HTTP/1.1 "},
		"other coding": {post(auth+"Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), "HTTP/1.1 501 "},
		"bad chunks":   {post(auth+"Transfer-Encoding: chunked\r\n", "zz\r\n\r\n"), "HTTP/1.1 408 "},
		"large by length": {post(auth+fmt.Sprintf("Content-Length: %d\r\n", len(large)), large),
			"HTTP/1.1 413 "},
		"said to be large": {post(auth+"Content-Length: 99999999999\r\n", ""), "HTTP/1.1 4"},
		"large in chunks": {post(auth+"Transfer-Encoding: chunked\r\n",
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(large), large)), "HTTP/1.1 413 "},
		"no HTTP":                {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "HTTP/1.1 400 "},
		"a new line in a header": {post("Authorization: Bearer\r\n "+token+"\r\n", ""), "HTTP/1.1 "},
	} {
		answer := raw(t, f.Address, row.request)
		if !strings.HasPrefix(answer, row.want) {
			t.Errorf("%s: %.200q; want %q", name, answer, row.want)
		}
		if strings.Contains(answer, token) || strings.Contains(answer, "goroutine ") {
			t.Errorf("%s: the answer says too much: %q", name, answer)
		}
	}
	if n := f.sent(t); n != 1 {
		t.Errorf("%d messages were sent; want the one that was in order", n)
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	io.CopyN(w, zeros{}, 1<<24)
	w.Close()
	status, _, body := f.Request("POST", "/v1/commands/send", zipped.String(),
		both(bearer(token), set("Content-Encoding", "gzip")))
	if code, _ := failure(body); status != 415 || code != "invalid_params" {
		t.Errorf("a body that unpacks to much more: %d %s", status, body)
	}
	f.until(func() bool { return f.web.UnderWay() == 0 })
}

// TestSlowRequests checks that the daemon disconnects requests that never end.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	bounds := web.UsualBounds
	bounds.Header, bounds.Body = time.Second, time.Second
	f := newFort(t, web.Options{}.Within(bounds), "ann")
	const post = "POST /v1/commands/send HTTP/1.1\r\nHost: localhost\r\n"
	auth := "Authorization: Bearer " + f.Token("ann", false) + "\r\nContent-Type: application/json\r\n"
	for name, row := range map[string]struct{ request, want string }{
		"header":          {"POST /v1/commands/send HTTP/1.1\r\nHost: loc", ""},
		"body":            {post + auth + "Content-Length: 10\r\n\r\n{", "HTTP/1.1 408 "},
		"chunks":          {post + auth + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "HTTP/1.1 408 "},
		"without a token": {post + "Content-Length: 10\r\n\r\n{", "HTTP/1.1 401 "},
	} {
		answer := raw(t, f.Address, row.request)
		if !strings.HasPrefix(answer, row.want) || (row.want == "" && strings.Contains(answer, " 200 ")) {
			t.Errorf("%s: %.200q; want %q", name, answer, row.want)
		}
	}
	if n := f.sent(t); n != 0 {
		t.Errorf("%d messages were sent; want none", n)
	}
	f.until(func() bool { return f.web.UnderWay() == 0 })
}

// zeros is an endless file of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// sent counts the messages in the table.
func (f *fort) sent(t testing.TB) int64 {
	t.Helper()
	return f.number(`SELECT count(*) FROM agent_message`)
}

// firstAnswer reads up to the end of the first line with an answer and returns the messages in it.
func firstAnswer(t *testing.T, body io.Reader) (ids []string) {
	t.Helper()
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		at := strings.IndexByte(line, '{')
		if at < 0 {
			continue
		}
		type messages struct{ Messages []struct{ MessageID string } }
		var answer struct {
			messages
			Result struct{ StructuredContent messages }
		}
		if err := json.Unmarshal([]byte(line[at:]), &answer); err != nil {
			t.Fatal(err)
		}
		for _, m := range append(answer.Messages, answer.Result.StructuredContent.Messages...) {
			ids = append(ids, m.MessageID)
		}
		return ids
	}
}

// TestClientThatGoes checks that messages stay read if the client disconnects right after it has received the whole
// answer, and that a client that disconnects earlier gets them again.
func TestClientThatGoes(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann", "bob")
	token := f.Token("bob", false)
	const calls = 300
	seen := map[string]int{}
	for i := range calls {
		want := f.send("ann", "bob")
		path, body := "/v1/commands/get_messages", `{}`
		if i%2 == 1 {
			path, body = "/mcp",
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_messages","arguments":{}}}`
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.Address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		both(mcpClient(bearer(token)), set("Content-Type", "application/json"))(req)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range firstAnswer(t, res.Body) {
			seen[id]++
		}
		res.Body.Close() // without reading to the end
		if seen[want] == 0 {
			t.Errorf("call %d: its message did not come", i)
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
	if len(seen) != calls {
		t.Errorf("%d messages came; want %d", len(seen), calls)
	}
}

// leaver is the connection of a client that disconnects right after a write, or before it.
type leaver struct {
	*httptest.ResponseRecorder
	leave  context.CancelFunc
	before bool
}

// Write implements io.Writer.
func (l *leaver) Write(p []byte) (int, error) {
	if l.leave(); l.before {
		return 0, io.ErrClosedPipe
	}
	return l.ResponseRecorder.Write(p)
}

// TestClientThatLeavesAtOnce checks that messages that a client has received stay read, even if it disconnects before
// the request has ended, and that others are unread.
func TestClientThatLeavesAtOnce(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann", "bob")
	token := f.Token("bob", false)
	for path, body := range map[string]string{
		"/v1/commands/get_messages": `{}`,
		"/mcp":                      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_messages","arguments":{}}}`,
	} {
		for before, want := range map[bool]int{false: 0, true: 1} {
			f.send("ann", "bob")
			released := f.note("released")
			ctx, leave := context.WithCancel(t.Context())
			req := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path,
				strings.NewReader(body))
			both(mcpClient(bearer(token)), set("Content-Type", "application/json"))(req)
			l := &leaver{httptest.NewRecorder(), leave, before}
			f.web.Handler().ServeHTTP(l, req)
			if got := f.note("released") - released; got != want {
				t.Errorf("%s, gone before: %t: %d messages were given back; want %d", path, before, got, want)
			}
			if !before && !strings.Contains(l.Body.String(), "messageId") {
				t.Errorf("%s: %s", path, l.Body)
			}
			if ms, _, err := reading.Wait(t.Context(), f.Router.Ledger,
				reading.Options{Recipient: "bob", Limit: 10}); err != nil || len(ms) != want {
				t.Errorf("%s, gone before: %t: %d messages are left: %v", path, before, len(ms), err)
			}
		}
	}
}

// TestAnswerThatIsNotTaken checks that messages stay unread if their client does not accept the answer.
func TestAnswerThatIsNotTaken(t *testing.T) {
	t.Parallel()
	bounds := web.UsualBounds
	bounds.Answer = 100 * time.Millisecond
	f := newFort(t, web.Options{}.Within(bounds), "ann", "bob")
	const sent = 600 // more than the system buffers
	long := strings.Repeat("x", orchestrator.MaxText)
	for range sent {
		if _, err := messages.Send(t.Context(), f.Router.Ledger,
			orchestrator.Draft{Sender: "ann", Recipient: "bob", Type: "note", Summary: long,
				Context: long}); err != nil {
			t.Fatal(err)
		}
	}
	c := f.ask("/v1/commands/wait", f.Token("bob", false), `{"batch_size":1000}`)
	defer c.Close()
	f.until(func() bool { return f.note("delivered") > 0 })
	f.until(func() bool { return f.web.UnderWay() == 0 })
	if read, back := f.note("read"), f.note("released"); read != 0 || back != sent {
		t.Errorf("%d messages were marked as read, and %d given back; want 0 and %d", read, back, sent)
	}
}

// ask sends a request on its own connection and reads nothing.
func (f *fort) ask(path, token, body string) net.Conn {
	f.T.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(f.Address, "http://"))
	if err != nil {
		f.T.Fatal(err)
	}
	c.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", path, token, len(body), body)
	return c
}

// TestClientsThatGoWhileWaiting checks that clients that disconnect while waiting take no later message, and leave no
// running request.
func TestClientsThatGoWhileWaiting(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann", "bob")
	token := f.Token("bob", false)
	for i := range 40 {
		path, body := "/v1/commands/wait", `{"timeout":300}`
		if i%2 == 1 {
			path, body = "/mcp",
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{"timeout":300}}}`
		}
		c := f.ask(path, token, body)
		f.until(func() bool { return f.web.UnderWay() == 1 })
		c.Close()
		f.until(func() bool { return f.web.UnderWay() == 0 })
		want := f.send("ann", "bob")
		ms, _, err := reading.Wait(t.Context(), f.Router.Ledger, reading.Options{Recipient: "bob", Limit: 10})
		if err != nil || len(ms) != 1 || ms[0].ID != want {
			t.Fatalf("after a client that went: %v, %v; want %s", ms, err, want)
		}
	}
}

// note counts the events with a name.
func (f *fort) note(event string) (n int) {
	f.T.Helper()
	list, _, _, err := messages.Events(f.T.Context(), f.Router.Ledger, messages.Cursor{}, "", 1_000_000)
	if err != nil {
		f.T.Fatal(err)
	}
	for _, e := range list {
		if e.Event == event {
			n++
		}
	}
	return n
}
