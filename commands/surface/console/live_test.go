package console_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"mailroom/commands/surface/web"
)

// asking records the page's requests from now on in window.asked: their paths, and for the event stream the position
// at which it continues.
const asking = `(() => {
	const before = window.fetch;
	window.asked = [];
	window.fetch = (path, options) => {
		window.asked.push([path, options.headers["Last-Event-ID"]].filter(Boolean).join(" from "));
		return before(path, options);
	};
})()`

// TestHiddenPage checks that a hidden page sends no requests, and that it shows everything that has happened when it
// becomes visible again, or after its connection has become silent.
func TestHiddenPage(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	for _, path := range []string{"/messages", "/", "/agents"} {
		d := r.opens(1440, false, path)
		d.Until(`document.querySelector(".live[title]") && document.querySelector("main h1") && !document.querySelector("[aria-busy=true]")`)
		d.Hide(true)
		d.Until(`document.querySelector(".live.paused")`)
		d.Eval(asking, nil)
		r.send("ann", "bob", "note", `"sent while nobody looked at `+path+`"`)
		r.deliver()
		d.Eval(`new Promise((f) => setTimeout(f, 2500))`, nil) // longer than the shortest interval between requests
		var asked []string
		if d.Eval(`window.asked`, &asked); len(asked) > 0 {
			t.Errorf("%s, hidden, asks for %v", path, asked)
		}
		d.Hide(false)
		d.Until(`document.querySelector(".live[title]") && window.asked.some((path) => path.startsWith("/v1/commands/"))`)
		// Events from meanwhile are not sent, since everything is requested again.
		d.Until(`window.asked.includes("/v1/events")`)
		if path == "/messages" {
			d.Until(rows + `.startsWith("sent while nobody looked at ")`)
		}
	}
	r.fallsSilent()
}

// fallsSilent makes a page's connection silent without closing it, as a failing network does, and a command that is
// never answered.
func (r *room) fallsSilent() {
	to, err := url.Parse(r.Address)
	if err != nil {
		r.t.Fatal(err)
	}
	silent := make(chan struct{}) // from then on, open connections pass no data
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to); p.Out.Host = p.In.Host },
		ModifyResponse: func(response *http.Response) error {
			select {
			case <-silent:
			default:
				response.Body = silenced{response.Body, silent, response.Request.Context()}
			}
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, "/agent_list") {
			// Only after this does the server notice that the page has disconnected.
			io.Copy(io.Discard, q.Body)
			<-q.Context().Done()
			return
		}
		proxy.ServeHTTP(w, q)
	}))
	r.t.Cleanup(func() { server.CloseClientConnections(); server.Close(); transport.CloseIdleConnections() })
	direct := r.Address
	r.Address = server.URL
	d := r.opens(1440, false, "/messages")
	d.Until(`document.querySelector(".live[title]") && document.querySelector(".stream tr[aria-rowindex]")`)
	close(silent)
	d.Eval(`(() => { const now = Date.now; Date.now = () => now() + 60_000; })()`, nil)
	r.Address = direct
	r.send("ann", "bob", "note", `"sent unheard"`)
	d.Until(rows + `.startsWith("sent unheard|")`)
	// Minutes pass in seconds.
	d.Eval(`(() => { const limit = AbortSignal.timeout; AbortSignal.timeout = (ms) => limit.call(AbortSignal, ms / 60); })()`, nil)
	d.Key("g", "a")
	d.Reads("The daemon has not answered for two minutes.")
}

// silenced is the body of an answer that passes no data after silent is closed.
type silenced struct {
	io.ReadCloser
	silent <-chan struct{}
	ctx    context.Context
}

func (s silenced) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	select {
	case <-s.silent:
		<-s.ctx.Done()
		return 0, s.ctx.Err()
	default:
		return n, err
	}
}

// TestLateMessages checks that a message that becomes visible after others with higher numbers, as on a server,
// appears in its place without a reload.
func TestLateMessages(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	d := r.opens(1440, false, "/messages")
	d.Until(`document.querySelector(".live[title]")`)
	insert := func(seq int, says string) {
		r.sql(`INSERT INTO agent_message (seq, message_id, sender, recipient, message_type, payload)
			VALUES (?1, ?2, 'ann', 'bob', 'note', ?3)`, seq, fmt.Sprint("m", seq), `"`+says+`"`)
		r.deliver()
	}
	insert(100, "the first")
	insert(300, "the third")
	d.Until(rows + ` === "the third|the first"`)
	insert(200, "late")
	d.Until(rows + ` === "the third|late|the first"`)
	d.Key("j")
	insert(250, "later")
	d.Reads("1 new")
	d.Key(".")
	d.Until(rows + ` === "the third|later|late|the first"`)
	filtered := r.opens(1440, false, "/messages?to=bob")
	filtered.Until(rows + ` === "the third|later|late|the first" && document.querySelector(".live[title]")`)
	insert(150, "very late")
	filtered.Until(rows + ` === "the third|later|late|very late|the first"`)

	// If most rows are replaced at once, their elements stay.
	filtered.Eval(`document.querySelector(".stream tr[aria-rowindex]").stays = true`, nil)
	r.sql(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT 'n' || i, 'ann', 'bob',
			'note', '"of many"' FROM n`)
	r.deliver()
	filtered.Until(rows +
		`.startsWith("of many|of many|") && document.querySelector(".stream tr[aria-rowindex]").stays`)
}

// TestOlderDatabase checks that the page continues with an older copy of the database, in which the last event that
// the page has seen never happened.
func TestOlderDatabase(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	server, err := web.Listen(t.Context(), r.Env,
		web.Options{Address: "127.0.0.1:0", RatePerSecond: 100_000, Version: "v1.2.3", Console: true})
	if err != nil {
		t.Fatal(err)
	}
	own := r.Address
	r.Address = server.Address
	r.send("ann", "bob", "note", `"of the past"`)
	r.deliver()
	d := r.opens(1440, false, "/messages")
	d.Until(rows + ` === "of the past" && document.querySelector(".live[title]")`)
	r.send("ann", "bob", "note", `"undone"`)
	d.Until(rows + ` === "undone|of the past" && [...document.querySelectorAll(".facets a")].some((a) => a.textContent === "Pending1")`)
	server.Close()
	d.Until(`document.querySelector(".live.offline")`)
	d.Click("Pending 1")
	d.Reads("Cannot reach the daemon.")
	r.sql(`DELETE FROM message_trace WHERE id > 1`)
	r.sql(`DELETE FROM agent_message WHERE payload = '"undone"'`)
	server, err = web.Listen(t.Context(), r.Env,
		web.Options{Address: r.Address[len("http://"):], RatePerSecond: 100_000, Version: "v1.2.3", Console: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	d.Until(`document.querySelector(".live[title]")`)
	d.Reads("No messages match") // requested again automatically
	r.Address = own
	r.send("ann", "bob", "note", `"of a new time"`)
	d.Until(rows + ` === "of a new time"`)
}

// TestSentBeforeTheStream checks that a message sent after a view's request, and before the event stream begins, is
// shown once the stream begins.
func TestSentBeforeTheStream(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	s := r.browser.NewScreen(1440, 900, false)
	s.Open(r.Address + "/messages")
	s.Until(`document.querySelector("input")`)
	s.Eval(`((asked, held) => {
		window.fetch = async (path, o) => (path === "/v1/events" && await held, asked(path, o));
	})(fetch, new Promise((f) => (window.release = f)))`, nil)
	s.Type("Token", r.Token("ann", true))
	s.Click("Log in")
	s.Reads("There are no messages yet")
	r.send("ann", "bob", "note", `"early"`)
	s.Eval(`window.release()`, nil)
	s.Until(rows + ` === "early"`)
}
