package web_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/commands/surface/surfacetest"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
)

// newConsole serves a new database with the console.
func newConsole(t testing.TB, agents ...string) *fort {
	t.Helper()
	return newFort(t, web.Options{Console: true}, agents...)
}

// code issues a login code for the console.
func (f *fort) code() string {
	f.T.Helper()
	code, err := agents.IssueCode(f.T.Context(), f.Router.Ledger)
	if err != nil {
		f.T.Fatal(err)
	}
	return code
}

// logIn sends a code. change alters the request.
func (f *fort) logIn(code string, change func(*http.Request)) (status int, token, answer string) {
	f.T.Helper()
	status, _, answer = f.Request(http.MethodPost, web.SessionPath, `{"code":"`+code+`"}`, change)
	var r struct{ Token string }
	if err := json.Unmarshal([]byte(answer), &r); err != nil {
		f.T.Fatalf("%d %s", status, answer)
	}
	return status, r.Token, answer
}

// session logs in and returns the token.
func (f *fort) session() string {
	f.T.Helper()
	status, token, answer := f.logIn(f.code(), nil)
	if status != 200 || token == "" {
		f.T.Fatalf("%d %s", status, answer)
	}
	return token
}

// who requests the identity of a token.
func (f *fort) who(token string) (status int, answer string) {
	f.T.Helper()
	status, _, answer = f.Request(http.MethodGet, web.SessionPath, "", bearer(token))
	return status, answer
}

// TestConsoleSession checks that the page acts as the operator, sees the events of all messages, and leaves the
// operator's name in the trace, and that operations for the machine itself are refused to it as to any token.
func TestConsoleSession(t *testing.T) {
	t.Parallel()
	f := newConsole(t, "ann", "bob")
	token := f.session()
	status, answer := f.who(token)
	for _, part := range []string{`"agent":"operator"`, `"admin":true`, `"token_id":"` + agents.HashToken(token)[:12] +
		`"`, `"expires_at":"20`, `"version":"v1.2.3"`, `"host":"` + f.Router.Ledger.Host() + `"`, `"named":false`,
		`"keeps_address":false`} {
		if status != 200 || !strings.Contains(answer, part) {
			t.Errorf("who asks: %d %s; want %s", status, answer, part)
		}
	}
	if status, answer := f.who(f.Token("ann", false)); status != 200 || strings.Contains(answer, f.Folder) ||
		!strings.Contains(answer, `"project"`) {
		t.Errorf("an agent that asks is told: %d %s", status, answer)
	}
	events := f.stream(token, "")
	events.comment(t)
	f.send("ann", "bob")
	if e, ok := events.next(); !ok || e.Sender != "ann" || e.Event.Event != "created" {
		t.Errorf("the stream has %+v", e)
	}
	if status, body := f.Run(token, "send", `{"recipient":"bob","message_type":"note"}`); status != 200 ||
		!strings.Contains(body, `"sender":"operator"`) {
		t.Errorf("send: %d %s", status, body)
	}
	sent, err := messages.Send(t.Context(), f.Router.Ledger,
		orchestrator.Draft{Sender: "bob", Recipient: "operator", Type: "note"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ command, params, want string }{
		{"wait", `{"timeout":0}`, sent.MessageID},
		{"acknowledge", `{"message_id":"` + sent.MessageID + `"}`, `"acknowledged_at"`},
		{"why", `{"message_id":"` + f.send("ann", "bob") + `"}`, `"status"`}, {"status", `{}`, `"success":true`},
		{"doctor", `{"try":false}`, `"code":"configuration","level":"ok"`},
	} {
		if status, body := f.Run(token, row.command, row.params); status != 200 || !strings.Contains(body, row.want) {
			t.Errorf("%s %s: %d %s", row.command, row.params, status, body)
		}
	}
	table, err := f.Router.Query(t.Context(), `SELECT name FROM command_trace WHERE caller = 'operator' ORDER BY name`,
		store.Bound{Rows: 10})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range table.Rows.Values() {
		names = append(names, row[0].(string))
	}
	for _, name := range []string{"acknowledge", "console login", "send", "wait"} {
		if !slices.Contains(names, name) {
			t.Errorf("the operator's commands in the trace are %q; want %s among them", names, name)
		}
	}
	if status, body := f.tool(token, "/mcp", "status", `{}`); status != 200 ||
		strings.Contains(body, `"isError":true`) {
		t.Errorf("as a tool: %d %s", status, body)
	}
	f.refusesTheMachine(token)
}

// refusesTheMachine tries commands that only the daemon's machine may run.
func (f *fort) refusesTheMachine(token string) {
	f.T.Helper()
	for _, row := range []forgery{
		{token, "backup", `{"file":"` + f.Folder + `/copy.db"}`},
		{token, "restore", `{"file":"` + f.Folder + `/mailroom.db"}`}, {token, "demo", `{}`},
		{token, "agent_add", `{"name":"eve","deliver":"jsonl:` + f.Folder + `/eve"}`},
		{token, "agent_add", `{"name":"bob","start":"rm -rf /"}`},
		{token, "schedule_add", `{"name":"x","spec":"@daily","command":"backup","params":{"file":"/tmp/x"}}`},
		{token, "setting_set", `{"key":"signal.allow_private","value":"on"}`},
		{token, "setting_set", `{"key":"console.port","value":"8080"}`},
	} {
		if status, body := f.Run(row.token, row.command, row.params); status != 403 {
			f.T.Errorf("%s %s: %d %s", row.command, row.params, status, body)
		}
	}
}

// TestConsoleCodesRefused checks that invalid codes and tokens are refused uniformly, without being repeated.
func TestConsoleCodesRefused(t *testing.T) {
	t.Parallel()
	f := newConsole(t, "boss")
	boss, session, used, expired := f.Token("boss", true), f.session(), f.code(), f.code()
	if status, _, body := f.logIn(used, nil); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	f.Step(time.Minute)
	fresh := f.code()
	_, _, why := f.logIn("mailroom_once_x", nil)
	for what, code := range map[string]string{"used": used, "expired": expired, "cut": fresh[:len(fresh)-1],
		"a token": boss, "a session": session} {
		status, token, body := f.logIn(code, nil)
		if status != 401 || token != "" || body != why {
			t.Errorf("%s: %d %s; want %s", what, status, body, why)
		}
	}
	for what, token := range map[string]string{"a code": fresh, "a used code": used,
		"a session with a letter less": session[:len(session)-1]} {
		if status, body := f.who(token); status != 401 || strings.Contains(body, token) {
			t.Errorf("%s as a token: %d %s", what, status, body)
		}
		if status, body := f.Run(token, "status", `{}`); status != 401 {
			t.Errorf("%s as a token of a command: %d %s", what, status, body)
		}
	}
	for _, body := range []string{``, `{}`, `[]`, `{"code":""}`, `{"code":7}`, `{"code":"` + fresh + `","more":1}`} {
		if status, _, answer := f.Request(http.MethodPost, web.SessionPath, body, nil); status != 400 ||
			strings.Contains(answer, fresh) {
			t.Errorf("POST %s: %d %s", body, status, answer)
		}
	}
	if status, _, body := f.logIn(fresh, nil); status != 200 {
		t.Errorf("the fresh one: %d %s", status, body)
	}
	f.Step(12 * time.Hour)
	if status, body := f.who(session); status != 401 || !strings.Contains(body, "mailroom console") {
		t.Errorf("a session after 12 hours: %d %s", status, body)
	}
}

// TestConsoleFromElsewhere checks that pages of other origins, or under other names, get neither the page nor a
// session.
func TestConsoleFromElsewhere(t *testing.T) {
	t.Parallel()
	f := newConsole(t)
	code, session := f.code(), f.session()
	browser := set("Accept", "text/html", "Sec-Fetch-Mode", "navigate")
	for what, change := range map[string]func(*http.Request){
		"a foreign origin": set("Origin", "http://evil.example"), "a null origin": set("Origin", "null"),
		"another site":            set("Sec-Fetch-Site", "cross-site"),
		"another port":            set("Sec-Fetch-Site", "same-site"),
		"a name that was rebound": func(r *http.Request) { r.Host = "evil.example" },
	} {
		if status, token, body := f.logIn(code, change); status != 403 || token != "" {
			t.Errorf("%s logs in: %d %s", what, status, body)
		}
		for _, path := range []string{"/", "/messages/x", "/app.js", web.SessionPath} {
			status, header, body := f.Request(http.MethodGet, path, "", both(browser, bearer(session), change))
			if status != 403 || header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s, GET %s: %d %v %s", what, path, status, header, body)
			}
		}
	}
	led := both(browser, set("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "document"))
	if status, _, body := f.Request(http.MethodGet, "/", "", led); status != 200 || !strings.Contains(body, "<title>") {
		t.Errorf("a file that leads to the page: %d %s", status, body)
	}
	for _, path := range []string{"/messages/x", "/v1/events", "/app.js", web.SessionPath} {
		if status, _, body := f.Request(http.MethodGet, path, "", both(led, bearer(session))); status != 403 {
			t.Errorf("another site that leads to %s: %d %s", path, status, body)
		}
	}
	status, header, body := f.Request(http.MethodOptions, web.SessionPath, "", nil)
	if status != 405 || header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("OPTIONS: %d %v %s", status, header, body)
	}
	own := set("Origin", f.Address, "Sec-Fetch-Site", "same-origin")
	if status, _, body := f.logIn(code, own); status != 200 {
		t.Errorf("the page itself: %d %s", status, body)
	}
}

// TestConsoleSessionEnds checks that a session ends at once, even with an open stream, on logout, on revocation and
// on a restore.
func TestConsoleSessionEnds(t *testing.T) {
	t.Parallel()
	f := newConsole(t, "ann", "bob", "boss")
	boss := f.Token("boss", true)
	for what, end := range map[string]func(token string){
		"logged out": func(token string) {
			if status, _, body := f.Request(http.MethodDelete, web.SessionPath, "", bearer(token)); status != 200 {
				t.Errorf("DELETE: %d %s", status, body)
			}
		},
		"revoked": func(string) {
			if status, body := f.Run(boss, "agent_token", `{"name":"operator","revoke":true}`); status != 200 ||
				!strings.Contains(body, `"revoked":1`) {
				t.Errorf("revoke: %d %s", status, body)
			}
		},
	} {
		token := f.session()
		events := f.stream(token, "")
		events.comment(t)
		end(token)
		f.send("ann", "bob")
		if e, ok := events.next(); ok {
			t.Errorf("%s: the stream goes on with %v", what, e)
		}
		if status, body := f.who(token); status != 401 {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	status, _, body := f.Request(http.MethodDelete, web.SessionPath, "", bearer(boss))
	if code, hint := failure(body); status != 400 || code != "invalid_params" || !strings.Contains(hint, "--revoke") {
		t.Errorf("an agent's token logs out: %d %s", status, body)
	}
	if status, body := f.who(boss); status != 200 || !strings.Contains(body, `"agent":"boss"`) ||
		!strings.Contains(body, `"expires_at":""`) {
		t.Errorf("an agent's token afterwards: %d %s", status, body)
	}
}

// TestConsoleAfterRestore checks that a restore brings back no sessions and codes of the time of the backup, and ends
// the current ones.
func TestConsoleAfterRestore(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has its own backups")
	f := newConsole(t, "ann", "bob")
	before, code := f.session(), f.code()
	file := filepath.Join(t.TempDir(), "copy.db")
	if _, err := f.Router.BackupTo(t.Context(), file, false); err != nil {
		t.Fatal(err)
	}
	after := f.session()
	done, err := f.Router.Restore(t.Context(), file, true)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "tokens that the restore says it ended", done.Ended["tokens"], 0)
	for what, token := range map[string]string{"of before": before, "of after": after} {
		if status, body := f.who(token); status != 401 {
			t.Errorf("a session %s the backup: %d %s", what, status, body)
		}
	}
	if status, _, body := f.logIn(code, nil); status != 401 {
		t.Errorf("a code of before: %d %s", status, body)
	}
	if status, _ := f.who(f.session()); status != 200 {
		t.Errorf("a new session: %d", status)
	}
}

// TestConsoleGuesses checks that guesses of codes are limited and do not affect logged-in sessions.
func TestConsoleGuesses(t *testing.T) {
	t.Parallel()
	f := newConsole(t, "ann")
	session, ann := f.session(), f.Token("ann", false)
	f.web.LimitCodes(0) // independent of the speed of this machine
	bounded := false
	for range 150 {
		status, header, body := f.Request(http.MethodPost, web.SessionPath,
			`{"code":"mailroom_once_`+strings.Repeat("A", 43)+`"}`, nil)
		if code, _ := failure(body); status == 429 && code == "busy" && header.Get("Retry-After") != "" {
			bounded = true
		} else if status != 401 {
			t.Fatalf("a guess: %d %s", status, body)
		}
	}
	if !bounded {
		t.Error("150 guesses in a row are not bounded")
	}
	if status, body := f.who(session); status != 200 {
		t.Errorf("a session meanwhile: %d %s", status, body)
	}
	if status, body := f.Run(ann, "get_messages", `{}`); status != 200 {
		t.Errorf("an agent meanwhile: %d %s", status, body)
	}
}

// TestConsolePage checks that the page is served to browsers only, at the path of each view, with a strict policy,
// and not at all if the console is off.
func TestConsolePage(t *testing.T) {
	t.Parallel()
	f, without := newConsole(t), newFort(t, web.Options{})
	browser := set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8", "Sec-Fetch-Site", "none")
	for _, path := range []string{"/", "/messages", "/messages/msg-01M8CHT8WYHX7GKVQB3V32NDRE", "/style.css",
		"/app.js"} {
		status, header, body := f.Request(http.MethodGet, path, "", browser)
		if status != 200 || header.Get("ETag") == "" || header.Get("Cache-Control") != "no-cache" ||
			header.Get("Set-Cookie") != "" {
			t.Errorf("GET %s: %d %v %s", path, status, header, body)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self'; manifest-src 'self'; style-src 'self'; " +
				"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if !strings.HasPrefix(header.Get(name), want) {
				t.Errorf("GET %s: %s is %q; want %q", path, name, header.Get(name), want)
			}
		}
		if status, _, _ := f.Request(http.MethodGet, path, "",
			both(browser, set("If-None-Match", header.Get("ETag")))); status != 304 {
			t.Errorf("GET %s once more: %d", path, status)
		}
		if status, _, body := without.Request(http.MethodGet, path, "", browser); status != 404 {
			t.Errorf("GET %s where there is no console: %d %s", path, status, body)
		}
	}
	for _, path := range []string{"/v1", "/v1/nothing", "/mcp/nothing", "/healthz/x", "/readyz/x", "/metrics/x",
		"/index.html", "/missing.js", "/a/../b", "/.env"} {
		if status, _, body := f.Request(http.MethodGet, path, "", browser); status == 200 ||
			strings.Contains(body, "<html") {
			t.Errorf("GET %s: %d %s", path, status, body)
		}
	}
	for _, path := range []string{"/", "/messages"} {
		if status, _, body := f.Request(http.MethodGet, path, "", nil); status != 404 {
			t.Errorf("GET %s of a program: %d %s", path, status, body)
		}
		if status, _, body := f.Request(http.MethodPost, path, "", browser); status != 404 {
			t.Errorf("POST %s: %d %s", path, status, body)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if status, _, body := without.Request(method, web.SessionPath, "", nil); status != 404 {
			t.Errorf("%s of a session where there is no console: %d %s", method, status, body)
		}
	}
}

// TestConsoleBeyondThisMachine checks that other machines get the page only over TLS, or through a proxy whose name
// is given.
func TestConsoleBeyondThisMachine(t *testing.T) {
	t.Parallel()
	cert, key, client := surfacetest.Certificate(t, "mail.example")
	for what, row := range map[string]struct {
		options web.Options
		served  bool
	}{
		"in clear": {web.Options{}, false}, "behind a proxy": {web.Options{Hosts: []string{"mail.example"}}, true},
		"with TLS": {web.Options{Cert: cert, Key: key}, true},
	} {
		row.options.Address, row.options.Console = "0.0.0.0:0", true
		f := newFort(t, row.options)
		address := strings.Replace(f.Address, "[::]", "127.0.0.1", 1)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/html")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if served := res.StatusCode == 200; served != row.served ||
			strings.Contains(f.Logged(), "the console is not served") == row.served {
			t.Errorf("%s: %d, and the log has %s", what, res.StatusCode, f.Logged())
		}
	}
}
