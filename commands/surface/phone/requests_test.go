package phone

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"mailroom/commands/surface/listener"
)

// TestFilesOfTheApp checks that the app's files exist, are revalidated each time, and are sent only if they have
// changed.
func TestFilesOfTheApp(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	names, err := fs.Glob(Files(), "*")
	if err != nil || !slices.Contains(names, "index.html") {
		t.Fatal(names, err)
	}
	paths := map[string]string{"/": "index.html", "/pair": "index.html", "/pair?x=y": "index.html"}
	for _, name := range names {
		if name != "index.html" {
			paths["/"+name] = name
		}
	}
	types := map[string]string{
		".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
		".webmanifest": "application/manifest+json", ".png": "image/png", ".svg": "image/svg+xml",
	}
	for at, name := range paths {
		want, err := fs.ReadFile(Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		a := h.ask("GET", at, "", nil)
		tag := a.header.Get("ETag")
		if a.status != 200 || a.body != string(want) || a.header.Get("Content-Type") != types[path.Ext(name)] || len(tag) < 20 {
			t.Errorf("%s: %d %v, %d bytes", at, a.status, a.header, len(a.body))
		}
		for what, row := range map[string]struct {
			method, body string
			change       func(*http.Request)
			want         int
		}{
			"its head":                {"HEAD", "", nil, 200},
			"the same again":          {"GET", "", set("If-None-Match", tag), 304},
			"one of several":          {"GET", "", set("If-None-Match", `"x", `+tag), 304},
			"another version":         {"GET", string(want), set("If-None-Match", `"x"`), 200},
			"a part":                  {"GET", string(want), set("Range", "bytes=0-3"), 200},
			"more than there is":      {"GET", string(want), set("Range", "bytes=99999999-"), 200},
			"from a link of a page":   {"GET", string(want), set("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"), 200},
			"since a time far ahead":  {"GET", string(want), set("If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT"), 200},
			"with a token and a body": {"GET", string(want), both(bearer("x"), set("Content-Length", "0")), 200},
		} {
			got := h.ask(row.method, at, "", row.change)
			if got.status != row.want || got.body != row.body || got.header.Get("ETag") != tag {
				t.Errorf("%s, %s: %d %v, %d bytes", at, what, got.status, got.header, len(got.body))
			}
		}
	}
	for _, bad := range []fstest.MapFS{{}, {"app.js": {}}, {"index.html": {}, "notes.txt": {}}, {"index.html": {Mode: fs.ModeDir}}} {
		if files, err := listener.ReadFiles(bad); err == nil {
			t.Errorf("%v is an app: %v", bad, files)
		}
	}
}

// TestMethodsAndPaths checks that each path permits only its own methods, that other methods and paths are refused in
// the form of every failure, and that no other part of the daemon is served.
func TestMethodsAndPaths(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	p := h.phone("a")
	allowed := map[string][]string{
		"/": {"GET", "HEAD"}, "/pair": {"GET", "HEAD"}, "/api/pair": {"POST"}, "/api/device": {"DELETE", "GET", "HEAD"}, "/api/subscription": {"DELETE", "PUT"},
		"/api/signals": {"GET", "HEAD"}, "/api/signals/q-1": {"GET", "HEAD"}, "/api/questions/q-1/answer": {"POST"}, "/api/once/q-1/0/x": {"POST"},
	}
	for at, methods := range allowed {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get", "X"} {
			if slices.Contains(methods, method) {
				continue
			}
			a := p.ask(method, at, "")
			allow := strings.ReplaceAll(strings.Join(methods, ", "), ", HEAD", "")
			if a.status != 405 || method != "HEAD" && a.code() != "invalid_params" || a.header.Get("Allow") != allow {
				t.Errorf("%s %s: %d %v %s; want Allow: %s", method, at, a.status, a.header, a.body, allow)
			}
		}
	}
	for _, at := range []string{
		"/v1/commands/status", "/v1/openapi.json", "/v1/events", "/mcp", "/metrics", "/healthz", "/readyz", "/debug/pprof/", "/index.html", "/www/index.html", "/api", "/api/",
		"/api/device/", "/API/device", "//api/device", "/api//device", "/./api/device", "/x/../api/device", "/..%2fapi/device", "/%2e%2e/api/device", "/api/../../etc/passwd", "/api/device%00",
		"/pair/", "/pair/x", "/.git/config", "/www.go", "/%", "/api/signals/", "/api/signals/a/b", "/api/questions//answer", "/api/once/q/1/", "/api/once/q/1/x/y", "/api/device;x=y", "/api\\device",
	} {
		for _, method := range []string{"GET", "POST"} {
			if a := p.raw(method+" "+at+" HTTP/1.1", "", ""); !strings.HasPrefix(a, "HTTP/1.1 404 ") && !(at == "/%" && strings.HasPrefix(a, "HTTP/1.1 400 ")) {
				t.Errorf("%s %s: %.200q", method, at, a)
			} else if at != "/%" && (!strings.Contains(a, "trusted-types mailroom") || !strings.Contains(a, `"not_found"`)) {
				t.Errorf("%s %s: %.600q", method, at, a)
			}
		}
	}
}

// raw sends the given bytes after a request line, with the token of a device. It returns everything received until
// the listener disconnects.
func (p *phone) raw(line, headers, body string) string {
	p.h.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.h.Address, "http://"))
	if err != nil {
		p.h.t.Error(err)
		return ""
	}
	defer c.Close()
	request := line + "\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " + p.token + "\r\nContent-Type: application/json\r\n" + headers + "\r\n" + body
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		io.WriteString(c, request)
	}()
	answer, _ := io.ReadAll(c) // a listener that disconnects with unread bytes resets the connection
	c.Close()
	<-sent
	return string(answer)
}

// TestBodies checks that bodies that are too large, too slow or of the wrong kind are refused, and leave no running
// request.
func TestBodies(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{Bounds: listener.Bounds{Header: time.Second, Body: time.Second, Answer: time.Minute}}, nil)
	p := h.phone("a")
	q := h.question(`{"options":["a"]}`, false, time.Hour)
	const put = "PUT /api/subscription HTTP/1.1"
	post := "POST /api/questions/" + q + "/answer HTTP/1.1"
	large := `{"text":"` + strings.Repeat("x", maxBody) + `"}`
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
	rows := map[string]struct{ line, headers, body, want string }{
		"large":               {post, length(len(large)), large, "413"},
		"said to be large":    {post, "Content-Length: 99999999999\r\n", "", "4"},
		"large in chunks":     {put, "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(large), large), "413"},
		"large, to pair":      {"POST /api/pair HTTP/1.1", length(len(large)), large, "413"},
		"large, with GET":     {"GET /api/signals HTTP/1.1", length(len(large)), large, "413"},
		"slow":                {post, length(20), "{", "408"},
		"slow, to pair":       {"POST /api/pair HTTP/1.1", length(20), "{", "408"},
		"slow chunks":         {post, "Transfer-Encoding: chunked\r\n", "1\r\n{\r\n", "408"},
		"bad chunks":          {post, "Transfer-Encoding: chunked\r\n", "zz\r\n\r\n", "408"},
		"two lengths":         {post, length(2) + length(3), "{}", "400"},
		"packed":              {post, "Content-Encoding: gzip\r\n" + length(2), "{}", "415"},
		"another type":        {post, "X-A: b\r\n" + length(12), "option=0&x=y", "400"},
		"slow header":         {post, "X-A: b", "", ""},
		"large header":        {post, "X-A: " + strings.Repeat("a", 2*listener.MaxHeader) + "\r\n", "", "431"},
		"many headers":        {post, strings.Repeat("X-A: b\r\n", listener.MaxHeader/4), "", "431"},
		"two hosts":           {post, "Host: evil.example\r\n", "", "400"},
		"absolute URL":        {"GET http://evil.example/ HTTP/1.1", "", "", "403"},
		"absolute, of ours":   {"GET http://localhost/api/device HTTP/1.1", "", "", "200"},
		"everything":          {"OPTIONS * HTTP/1.1", "", "", "404"},
		"a tunnel":            {"CONNECT localhost:22 HTTP/1.1", "", "", "404"},
		"an upgrade":          {"GET /api/device HTTP/1.1", "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", "", "200"},
		"an older HTTP":       {"GET /api/device HTTP/1.0", "", "", "200"},
		"no HTTP":             {"\x16\x03\x01\x02", "", "", "400"},
		"a line in the token": {"GET /api/device HTTP/1.1", "Authorization: Bearer\r\n x\r\n", "", "401"},
	}
	type outcome struct{ name, answer string }
	outcomes := make(chan outcome, len(rows))
	for name, row := range rows {
		go func() { outcomes <- outcome{name, p.raw(row.line, row.headers, row.body)} }()
	}
	for range rows {
		o := <-outcomes
		want := rows[o.name].want
		if _, status, _ := strings.Cut(o.answer, " "); !strings.HasPrefix(status, want) || want == "" && strings.Contains(o.answer, " 200 ") {
			t.Errorf("%s: %.200q; want %q", o.name, o.answer, want)
		}
		if own := strings.Contains(o.answer, "trusted-types mailroom"); !own && !slices.Contains([]string{"400", "431", "", "4"}, want) {
			t.Errorf("%s: no headers of ours: %.300q", o.name, o.answer)
		}
	}
	q = h.question(`{"question":"?"}`, false, time.Hour, p)
	for _, body := range []string{" ", "{", "{}x", `{}{}`, "null", "[]", `{"text":"a","x":1}`, `{"text":"a"}]`, "{\"text\":\"\xff\"}", "\xef\xbb\xbf{}", strings.Repeat("[", 60_000), strings.Repeat(`{"text":`, 8_000)} {
		a := p.ask("POST", "/api/questions/"+q+"/answer", body)
		if a.status != 400 || a.code() != "invalid_params" {
			t.Errorf("%.40q: %d %s", body, a.status, a.body)
		}
	}
	if a := h.ask("POST", "/api/questions/"+q+"/answer", "", both(bearer(p.token), set("Content-Type", "application/json"))); a.status != 400 {
		t.Errorf("nothing, as JSON: %d %s", a.status, a.body)
	}
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json+x", "a/b/c"} {
		a := h.ask("POST", "/api/questions/"+q+"/answer", `{"text":"a"}`, both(bearer(p.token), func(r *http.Request) { r.Header.Set("Content-Type", kind) }))
		if a.status != 415 || a.code() != "invalid_params" {
			t.Errorf("as %q: %d %s", kind, a.status, a.body)
		}
	}
	var zipped bytes.Buffer
	zipped.WriteString(`{"text":"a"}`)
	if a := h.ask("POST", "/api/questions/"+q+"/answer", zipped.String(), both(bearer(p.token), set("Content-Encoding", "br"))); a.status != 415 {
		t.Errorf("packed: %d %s", a.status, a.body)
	}
	if a := p.ask("POST", "/api/questions/"+q+"/answer", ` {"text":"a"} `); a.status != 200 {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

// TestRowsWrittenByHand checks that an invalid hand-written row does not hide the others.
func TestRowsWrittenByHand(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	p := h.phone("a")
	broken, sound := h.question(`no JSON`, false, time.Hour), h.question(`{"question":"?"}`, false, time.Hour)
	if a := p.ask("GET", "/api/signals", ""); a.status != 200 || !strings.Contains(a.body, broken) || !strings.Contains(a.body, `"text":{"question":"?"}`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := p.ask("GET", "/api/signals/"+broken, ""); a.status != 200 || strings.Contains(a.body, "text") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := p.ask("POST", "/api/questions/"+sound+"/answer", `{"text":"a"}`); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestDatabaseThatFails checks that a phone gets no details about a failing database.
func TestDatabaseThatFails(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	p := h.phone("a")
	_, recipient := h.newRecipient()
	code := h.code()
	if err := h.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	h.step(2 * time.Minute) // after this time, the presence of the device must be recorded
	if a := p.ask("GET", "/api/signals", ""); a.status != 200 {
		t.Errorf("what can be read is not: %d %s", a.status, a.body)
	}
	for _, a := range []answer{p.ask("DELETE", "/api/subscription", ""), h.ask("POST", "/api/pair", pairBody(code, "x", recipient), nil)} {
		if a.status != 503 && a.status != 500 || strings.Contains(a.body, h.folder) || strings.Contains(a.body, "closed") {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if !strings.Contains(h.logged(), "a request from a phone failed") || strings.Contains(h.logged(), p.token) {
		t.Errorf("the log: %s", h.logged())
	}
}

// TestBugs checks that a bug is answered in the form of every failure, and is logged with its location.
func TestBugs(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, func(p *Phone) { p.ledger = nil })
	if a := h.ask("GET", "/api/device", "", bearer("mailroom_device_x")); a.status != 500 || a.code() != "internal" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if !strings.Contains(h.logged(), "panic while") || !strings.Contains(h.logged(), "here.go") {
		t.Errorf("the log: %s", h.logged())
	}
}

// TestListenersThatCannotBe checks that listeners that cannot be opened return the reason and leave nothing open.
func TestListenersThatCannotBe(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	for _, o := range []Options{
		{Address: "here"}, {Address: "127.0.0.1:99999"}, {Address: "127.0.0.1:0", Cert: "x"}, {Address: "127.0.0.1:0", Key: "x"},
		{Address: "127.0.0.1:0", Cert: "/nosuch", Key: "/nosuch"}, {Address: strings.TrimPrefix(h.Address, "http://")},
	} {
		if p, err := Listen(t.Context(), h.ledger, h.log, o); err == nil || p != nil || !strings.Contains(err.Error(), "phone") && !strings.Contains(err.Error(), "cannot listen on") {
			t.Errorf("%+v: %v, %v", o, p, err)
		}
	}
}

// FuzzAPI checks that any input of a device is answered in the right form, and breaks nothing.
func FuzzAPI(f *testing.F) {
	h := newHome(f, Options{}, nil)
	p := h.phone("a")
	q := h.question(`{"options":["a"]}`, false, time.Hour)
	for route, body := range h.everything(q) {
		method, path, _ := strings.Cut(route, " ")
		if path != "/api/device" {
			f.Add(method, path, body)
		}
	}
	f.Add("POST", "/api/questions/x/answer", `{"ciphertext":"YWdl"}`)
	f.Add("POST", "/api/pair", `{"code":1,"name":{},"recipient":[]}`)
	f.Fuzz(func(t *testing.T, method, at, body string) {
		if !strings.HasPrefix(at, "/") || method == "DELETE" && strings.Contains(at, "device") {
			return
		}
		req, err := http.NewRequestWithContext(t.Context(), method, h.Address+at, strings.NewReader(body))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+p.token)
		res, err := h.client.Do(req)
		if err != nil {
			return // the client refuses to send some input
		}
		defer res.Body.Close()
		read, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		a := answer{res.StatusCode, res.Header, string(read)}
		if h.t = t; a.status != 400 || a.code() != "" {
			h.strict(method+" "+at, a)
		}
		if a.status >= 500 {
			t.Errorf("%s %s %q: %d %s", method, at, body, a.status, a.body)
		}
	})
}
