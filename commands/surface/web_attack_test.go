package surface

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"mailroom/commands"
	"mailroom/commands/admin"
	"mailroom/commands/coral"
	"mailroom/commands/relay"
	"mailroom/commands/route"
	"mailroom/commands/team"
	"mailroom/orchestrator"
	"mailroom/orchestrator/transport"
)

// fort is a daemon's endpoints with every vocabulary, a clock that can be set, and a log that can be searched.
type fort struct {
	*endpoints
	web    *web
	folder string

	mu      sync.Mutex
	log     bytes.Buffer
	forward time.Duration // of its clock, before the real one
}

// Write appends to the log.
func (f *fort) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(p)
}

func (f *fort) logged() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.String()
}

func (f *fort) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Add(f.forward)
}

func (f *fort) step(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forward += d
}

// until asks until something holds.
func (f *fort) until(holds func() bool) {
	f.t.Helper()
	for !holds() {
		if f.t.Context().Err() != nil {
			f.t.Fatal("it never holds")
		}
		runtime.Gosched()
	}
}

// everything is the program's catalogue.
func everything() *commands.Catalogue {
	return commands.NewCatalogue(route.Definitions(), relay.Definitions(), team.Definitions(), coral.Definitions(), admin.Definitions())
}

// newFort serves a new database with some agents in it.
func newFort(t testing.TB, o webOptions, agents ...string) *fort {
	t.Helper()
	f := &fort{folder: t.TempDir()}
	log := slog.New(slog.NewJSONHandler(f, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r, err := orchestrator.Open(t.Context(), orchestrator.Options{
		Path: filepath.Join(f.folder, "mailroom.db"), Instance: "test", Now: f.now, Log: log, Bell: orchestrator.NewLocalBell(),
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	for _, name := range agents {
		if _, _, err := r.AddAgent(t.Context(), orchestrator.AgentUpdate{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if o.listen == "" {
		o.listen = "127.0.0.1:0"
	}
	if o.ratePerSecond == 0 {
		o.ratePerSecond = 100_000
	}
	env := commands.Env{Router: r, Log: log, Catalogue: everything()}
	if f.web, err = listenWeb(t.Context(), env, o, newMetrics(r, "v1.2.3", log), "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.web.close)
	f.endpoints = &endpoints{t, r, f.web.address}
	return f
}

// tool calls a tool over MCP, and returns the whole answer.
func (e *endpoints) tool(token, path, name, args string) (status int, answer string) {
	e.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, args)
	status, _, answer = e.request(http.MethodPost, path, body, mcpClient(bearer(token)))
	return status, answer
}

// mcpClient makes a request one of a client of MCP.
func mcpClient(change func(*http.Request)) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("MCP-Protocol-Version", "2025-11-25")
		if change != nil {
			change(r)
		}
	}
}

// failure reads the code and the hint of a refusal.
func failure(body string) (code, hint string) {
	var f struct{ Error, Message, Hint string }
	if json.Unmarshal([]byte(body), &f) != nil || f.Message == "" {
		return "", ""
	}
	return f.Error, f.Hint
}

func set(pairs ...string) func(*http.Request) {
	return func(r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			r.Header.Add(pairs[i], pairs[i+1])
		}
	}
}

func both(changes ...func(*http.Request)) func(*http.Request) {
	return func(r *http.Request) {
		for _, change := range changes {
			change(r)
		}
	}
}

// rows counts what is in the tables that a command could change.
func (f *fort) rows() (n int64) {
	f.t.Helper()
	table, err := f.router.Query(f.t.Context(), `SELECT (SELECT count(*) FROM agent_message) + (SELECT count(*) FROM agents) +
		(SELECT count(*) FROM message_trace) + (SELECT count(*) FROM command_trace) + (SELECT count(*) FROM settings)`, 1)
	if err != nil {
		f.t.Fatal(err)
	}
	return table.Rows[0].Values[0].(int64)
}

// Whoever shows no valid token is told so, in one way, and changes nothing.
func TestWithoutAToken(t *testing.T) {
	t.Parallel()
	f := newFort(t, webOptions{}, "ann", "bob")
	f.web.failures.SetLimit(rate.Inf)
	good := f.token("ann", true)
	revoked, expired := f.token("bob", false), ""
	if _, err := f.router.RevokeTokens(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	expired, _, err := f.router.IssueToken(t.Context(), "bob", false, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if status, body := f.run(expired, "get_messages", `{}`); status != 200 {
		t.Fatalf("the token before it expires: %d %s", status, body)
	}
	f.step(time.Minute)
	before := f.rows()
	last := byte('A')
	if good[len(good)-1] == last {
		last = 'B'
	}
	for name, change := range map[string]func(*http.Request){
		"none": nil, "two": set("Authorization", "Bearer "+good, "Authorization", "Bearer "+good),
		"basic": set("Authorization", "Basic "+good), "no scheme": set("Authorization", good), "empty": set("Authorization", ""),
		"one character": bearer(good[:len(good)-1] + string(last)), "one less": bearer(good[:len(good)-1]), "one more": bearer(good + "A"),
		"case": bearer(strings.ToUpper(good)), "two in one": bearer(good + ", " + good), "only the prefix": bearer("mailroom_"),
		"long": bearer("mailroom_" + strings.Repeat("A", 8000)), "quoted": bearer(`"` + good + `"`), "not a text": bearer("mailroom_\xff\xfe"),
		"a pattern": bearer("mailroom_%"), "a quote": bearer("mailroom_' OR 1=1 --"), "revoked": bearer(revoked), "expired": bearer(expired),
		"of a proxy":  set("Proxy-Authorization", "Bearer "+good),
		"in a cookie": set("Cookie", "Authorization=Bearer "+good, "X-Mailroom-Agent", "ann", "X-Forwarded-User", "ann", "X-Forwarded-For", "127.0.0.1"),
	} {
		for _, at := range [][2]string{
			{"POST", "/v1/commands/send"}, {"POST", "/v1/commands/nosuch"}, {"GET", "/v1/openapi.json"}, {"GET", "/v1/events"},
			{"POST", "/mcp"}, {"POST", "/mcp/relay"}, {"GET", "/mcp"}, {"POST", "/v1/commands/send?token=" + good}, {"POST", "/v1/commands/send?access_token=" + good},
		} {
			body := ""
			if at[0] == "POST" {
				body = `{"recipient":"bob","message_type":"note"}`
			}
			status, header, answer := f.request(at[0], at[1], body, change)
			code, hint := failure(answer)
			if status != 401 || code != "unauthenticated" || !strings.Contains(hint, "agent token") || header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s, %s %s: %d %s", name, at[0], at[1], status, answer)
			}
			if strings.Contains(answer, good[12:]) {
				t.Errorf("%s: the answer repeats the token", name)
			}
		}
	}
	if after := f.rows(); after != before {
		t.Errorf("requests without a token have changed %d rows", after-before)
	}
}

// A token that is revoked ends what is under way with it, and gets no message that came since.
func TestRevokedWhileConnected(t *testing.T) {
	t.Parallel()
	f := newFort(t, webOptions{}, "ann", "bob")
	send := func() {
		t.Helper()
		if _, err := f.router.Send(t.Context(), orchestrator.Draft{Sender: "ann", Recipient: "bob", Type: "note"}); err != nil {
			t.Fatal(err)
		}
	}
	for name, wait := range map[string]func(token string) (int, string){
		"command": func(token string) (int, string) { return f.run(token, "wait", `{"timeout":300}`) },
		"tool":    func(token string) (int, string) { return f.tool(token, "/mcp", "get_messages", `{"wait_seconds":300}`) },
	} {
		token := f.token("bob", false)
		before := len(f.web.slots)
		type result struct {
			status int
			body   string
		}
		answered := make(chan result, 1)
		go func() {
			status, body := wait(token)
			answered <- result{status, body}
		}()
		f.until(func() bool { return len(f.web.slots) > before })
		if _, err := f.router.RevokeTokens(t.Context(), "bob"); err != nil {
			t.Fatal(err)
		}
		send()
		got := <-answered
		if !strings.Contains(got.body, "unauthenticated") || (name == "command" && got.status != 401) {
			t.Errorf("%s: a wait whose token was revoked got %d %s", name, got.status, got.body)
		}
		if status, body := f.run(token, "wait", `{}`); status != 401 {
			t.Errorf("%s: the same connection afterwards: %d %s", name, status, body)
		}
		if status, body := f.run(f.token("bob", false), "get_messages", `{}`); status != 200 || !strings.Contains(body, `"count":1`) {
			t.Errorf("%s: with a new token: %d %s; want the message", name, status, body)
		}
	}
	token := f.token("bob", false)
	stream := f.stream(token, "")
	stream.comment(t)
	if _, err := f.router.RevokeTokens(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	send()
	if e, ok := stream.next(); ok {
		t.Errorf("a stream whose token was revoked goes on with %v", e)
	}
}

// Nobody speaks or reads under another's name, and nobody does what is for administrators without their right.
func TestUnderAnothersName(t *testing.T) {
	t.Parallel()
	f := newFort(t, webOptions{}, "ann", "bob", "boss")
	thread, err := f.router.CreateThread(t.Context(), orchestrator.ThreadDraft{Session: "default", Name: "n", Creator: "bob", Participants: []string{"boss"}})
	if err != nil {
		t.Fatal(err)
	}
	sent, err := f.router.Send(t.Context(), orchestrator.Draft{Sender: "boss", Recipient: "bob", Type: "note", ThreadID: "secret", Payload: []byte(`"for bob"`)})
	if err != nil {
		t.Fatal(err)
	}
	ann, boss := f.token("ann", false), f.token("boss", true)
	rows := []struct{ token, command, params string }{
		{ann, "send", `{"sender":"bob","recipient":"boss","message_type":"note"}`},
		{ann, "send", `{"SENDER":"BOB","recipient":"boss","message_type":"note"}`},
		{boss, "send", `{"sender":"bob","recipient":"ann","message_type":"note"}`},
		{ann, "wait", `{"recipient":"bob","timeout":0}`},
		{boss, "wait", `{"recipient":"bob","timeout":0}`},
		{ann, "send_message", `{"message":"x","source":"bob","target":"boss","message_type":"PING"}`},
		{ann, "get_messages", `{"sessionId":"bob"}`},
		{ann, "get_messages", `{"sessionId":"BOB"}`},
		{ann, "get_messages", `{"sessionId":"bob","markAsRead":false}`},
		{ann, "get_sent_messages", `{"source":"bob"}`},
		{ann, "coral_register_agent", `{"agentId":"bob","agentName":"me"}`},
		{ann, "coral_create_thread", `{"threadName":"t","creatorId":"bob"}`},
		{ann, "coral_send_message", `{"threadId":"` + thread.ID + `","senderId":"bob","content":"x"}`},
		{ann, "coral_send_message", `{"threadId":"` + thread.ID + `","content":"x"}`},
		{ann, "coral_wait_for_mentions", `{"agentId":"bob","timeoutMs":0}`},
		{ann, "coral_add_participant", `{"threadId":"` + thread.ID + `","participantId":"ann"}`},
		{ann, "coral_remove_participant", `{"threadId":"` + thread.ID + `","participantId":"bob"}`},
		{ann, "coral_close_thread", `{"threadId":"` + thread.ID + `"}`},
		{ann, "acknowledge", `{"message_id":"` + sent.MessageID + `"}`},
		{ann, "cancel", `{"message_id":"` + sent.MessageID + `"}`},
		{ann, "dead_letters_replay", `{"all":true,"sender":"bob"}`},
		{boss, "backup", `{"file":"` + f.folder + `/copy.db"}`},
		{boss, "restore", `{"file":"` + f.folder + `/mailroom.db"}`},
		{boss, "init", `{"folder":"` + f.folder + `"}`}, {boss, "demo", `{}`},
		{boss, "schedule_add", `{"name":"x","spec":"@daily","command":"backup","params":{"file":"/tmp/x"}}`},
		{boss, "agent_add", `{"name":"eve","deliver":"jsonl:` + f.folder + `/eve"}`},
		{boss, "agent_add", `{"name":"bob","fallback":"jsonl:` + f.folder + `/bob"}`},
		{boss, "agent_add", `{"name":"bob","start":"rm -rf /"}`},
	}
	for _, d := range everything().All() {
		if card, err := d.Card(); err != nil || card.Rights != "self" {
			rows = append(rows, struct{ token, command, params string }{ann, d.Name, `{}`})
		}
	}
	before := f.rows()
	for _, row := range rows {
		status, body := f.run(row.token, row.command, row.params)
		if code, _ := failure(body); status != 403 || code != "permission_denied" {
			t.Errorf("POST %s %s: %d %s", row.command, row.params, status, body)
		}
		_, body = f.tool(row.token, "/mcp", row.command, row.params)
		if !strings.Contains(body, `permission_denied`) && !strings.Contains(body, `unknown tool`) {
			t.Errorf("tool %s %s: %s", row.command, row.params, body)
		}
	}
	if after := f.rows(); after-before > int64(2*len(rows)) { // a span for each that failed
		t.Errorf("what was refused has written %d rows for %d requests", after-before, 2*len(rows))
	}
	entries, err := filepath.Glob(f.folder + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range entries {
		if !strings.HasPrefix(filepath.Base(path), "mailroom.db") {
			t.Errorf("%s was written", path)
		}
	}
	for _, query := range []string{"SELECT * FROM tokens", "SELECT hash FROM tokens", "ATTACH 'x' AS y", "SELECT load_extension('x')", "PRAGMA table_info(tokens)", "DELETE FROM agents"} {
		if status, body := f.run(boss, "sql", fmt.Sprintf(`{"query":%q}`, query)); status == 200 {
			t.Errorf("sql %s: %s", query, body)
		}
	}
	f.checkStillWorks(ann, boss)
}

// checkStillWorks: what the names themselves may do, they can.
func (f *fort) checkStillWorks(ann, boss string) {
	f.t.Helper()
	for _, row := range []struct{ token, command, params, want string }{
		{ann, "send", `{"sender":"ann","recipient":"boss","message_type":"note"}`, `"sender":"ann"`},
		{ann, "get_messages", `{"sessionId":"ann"}`, `"count":0`},
		{boss, "get_sent_messages", `{"source":"boss"}`, `for bob`},
		{boss, "agent_add", `{"name":"eve","deliver":"inbox","fallback":""}`, `"created":true`},
		{boss, "status", `{}`, `"success":true`},
	} {
		if status, body := f.run(row.token, row.command, row.params); status != 200 || !strings.Contains(body, row.want) {
			f.t.Errorf("%s %s: %d %s", row.command, row.params, status, body)
		}
	}
}

// Who names a thread of others in a message of its own does not get to see it.
func TestThreadOfOthers(t *testing.T) {
	t.Parallel()
	f := newFort(t, webOptions{}, "ann", "bob", "eve")
	for _, d := range []orchestrator.Draft{
		{Sender: "ann", Recipient: "bob", Type: "note", ThreadID: "plans", Payload: []byte(`"the plan"`)},
		{Sender: "eve", Recipient: "ann", Type: "note", ThreadID: "plans", Payload: []byte(`"hello"`)},
	} {
		if _, err := f.router.Send(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	read := func(agent string) string {
		_, _, body := f.request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"mailroom://thread/plans"}}`,
			mcpClient(bearer(f.token(agent, false))))
		return body
	}
	if body := read("eve"); strings.Contains(body, "the plan") || !strings.Contains(body, "hello") {
		t.Errorf("eve reads %s", body)
	}
	if body := read("ann"); !strings.Contains(body, "the plan") || !strings.Contains(body, "hello") {
		t.Errorf("ann reads %s", body)
	}
}

// Headers, paths, methods and bodies that no honest client sends.
func TestTricks(t *testing.T) {
	t.Parallel()
	f := newFort(t, webOptions{hosts: []string{"mail.example"}}, "ann", "bob")
	token := f.token("ann", false)
	port := f.address[strings.LastIndex(f.address, ":")+1:]
	const send = `{"recipient":"bob","message_type":"note"}`
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	deep := func(n int) string {
		return `{"recipient":"bob","message_type":"note","payload":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	for _, row := range []struct {
		method, path, body string
		change             func(*http.Request)
		status             int
		code               string
	}{
		{"POST", "/v1/commands/send", send, nil, 200, ""},
		{"POST", "/v1/commands/SEND", send, set("Sec-Fetch-Site", "same-origin", "Origin", "http://127.0.0.1:"+port), 200, ""},
		{"POST", "/v1/commands/send", send, set("X-Forwarded-For", "10.1.2.3", "X-Mailroom-Agent", "bob", "X-Forwarded-User", "bob"), 200, ""},
		{"POST", "/v1/commands/send", send, host("mail.example"), 200, ""},
		{"POST", "/v1/commands/send", send, host("MAIL.example:443"), 200, ""},
		{"POST", "/v1/commands/send", send, host("LocalHost:1"), 200, ""},
		{"POST", "/v1/commands/send", send, host("evil.example"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, host("evil.example:" + port), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, host("127.0.0.1.evil.example"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, host("127.0.0.1:80@evil.example"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, host("localhost:evil"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, host("mail.example.evil.example"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, host("mail.example."), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, host("192.0.2.1"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, host("[[::1"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, host("]127.0.0.1["), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, set("Origin", "null"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, set("Origin", "http://evil.example"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, set("Origin", "http://127.0.0.1:1"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, set("Origin", "http://127.0.0.1:"+port, "Origin", "http://evil.example"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, set("Origin", ""), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, set("Sec-Fetch-Site", "cross-site"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", send, set("Sec-Fetch-Site", "same-site"), 403, "permission_denied"},
		{"GET", "/v1/events", "", set("Sec-Fetch-Site", "cross-site"), 403, "permission_denied"},
		{"GET", "/metrics", "", set("Sec-Fetch-Site", "cross-site"), 403, "permission_denied"},
		{"GET", "/readyz", "", set("Sec-Fetch-Site", "none", "Sec-Fetch-Site", "cross-site"), 403, "permission_denied"},

		{"POST", "/mcp/..", send, nil, 404, "not_found"}, {"POST", "/mcp//relay", send, nil, 404, "not_found"},
		{"POST", "/mcp/%2e%2e/", send, nil, 404, "not_found"}, {"POST", "/mcp/%2e%2e/healthz", send, nil, 404, "not_found"},
		{"POST", "/mcp%2frelay", send, nil, 404, "not_found"}, {"POST", "/mcp/nosuch", send, nil, 404, "not_found"},
		{"POST", "/mcp/relay/", send, nil, 404, "not_found"}, {"POST", "/mcp/RELAY", send, nil, 404, "not_found"}, {"POST", "/mcp/", send, nil, 404, "not_found"},
		{"GET", "/v1/commands/../healthz", "", nil, 404, "not_found"}, {"GET", "/v1/commands/../../healthz", "", nil, 404, "not_found"},
		{"POST", "/v1/commands/", send, nil, 404, "not_found"}, {"POST", "/v1/commands/send/", send, nil, 404, "not_found"},
		{"POST", "/v1//commands/send", send, nil, 404, "not_found"}, {"POST", "/./v1/commands/send", send, nil, 404, "not_found"},
		{"POST", "//evil.example/..", send, nil, 404, "not_found"},
		{"POST", "/v1/commands/agent%2fadd", send, nil, 404, "unknown_command"}, {"POST", "/v1/commands/sen%00d", send, nil, 404, "unknown_command"},
		{"POST", "/v1/commands/sendd", send, nil, 404, "unknown_command"}, {"POST", "/v1/commands/" + strings.Repeat("x", 5000), send, nil, 404, "unknown_command"},
		{"POST", "/v1/commands/%2e%2e", send, nil, 404, "not_found"},

		{"GET", "/v1/commands/send", "", nil, 405, "invalid_params"}, {"PUT", "/v1/commands/send", send, nil, 405, "invalid_params"},
		{"HEAD", "/v1/commands/send", "", nil, 405, ""}, {"POST", "/v1/events", send, nil, 405, "invalid_params"},
		{"DELETE", "/v1/openapi.json", "", nil, 405, "invalid_params"}, {"POST", "/healthz", send, nil, 405, "invalid_params"},
		{"PATCH", "/metrics", send, nil, 405, "invalid_params"}, {"TRACE", "/v1/commands/send", "", nil, 405, "invalid_params"},
		{"QUITEALONGMETHOD", "/v1/commands/send", "", nil, 405, "invalid_params"},

		{"POST", "/v1/commands/send", send, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415, "invalid_params"},
		{"POST", "/v1/commands/send", send, func(r *http.Request) { r.Header.Del("Content-Type") }, 415, "invalid_params"},
		{"POST", "/v1/commands/send", send, func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415, "invalid_params"},
		{"POST", "/v1/commands/send", send, set("Content-Encoding", "gzip"), 415, "invalid_params"},
		{"POST", "/v1/commands/send", "\x1f\x8b\x08\x00", nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send?session=a&session=b", send, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send?session=%zz", send, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send?session=..%2fx", send, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send?session=%00", send, nil, 400, "invalid_params"},

		{"POST", "/v1/commands/send", `{"recipient":"bob","recipient":"ann","message_type":"note"}`, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send", `{"recipient":"bob","RECIPIENT":"ann","message_type":"note"}`, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send", `{"recipient":"bob\u0000","message_type":"note"}`, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send", "{\"recipient\":\"bob\x00\",\"message_type\":\"note\"}", nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send", "{\"recipient\":\"b\xffb\",\"message_type\":\"note\"}", nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send", send + send, nil, 400, "invalid_params"}, {"POST", "/v1/commands/send", `[` + send + `]`, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send", `{"recipient":"bob","message_type":"note","priority":1e999}`, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send", `{"recipient":"bob","message_type":"note","priority":` + strings.Repeat("9", 100_000) + `}`, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send", deep(100_000), nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send", `{"recipient":"bob","message_type":"note","__proto__":{"admin":true}}`, nil, 400, "invalid_params"},
	} {
		status, _, body := f.request(row.method, row.path, row.body, both(bearer(token), orNothing(row.change)))
		code, hint := failure(body)
		if status != row.status || code != row.code {
			t.Errorf("%s %s %.80q: %d %.300s; want %d %s", row.method, row.path, row.body, status, body, row.status, row.code)
		}
		if (status == 404 || status == 405 || status == 415) && hint == "" && row.method != "HEAD" {
			t.Errorf("%s %s: no hint in %s", row.method, row.path, body)
		}
	}
}

func orNothing(change func(*http.Request)) func(*http.Request) {
	if change == nil {
		return func(*http.Request) {}
	}
	return change
}

// What a proxy hands on is not from this machine, though it comes from here.
func TestBehindAProxy(t *testing.T) {
	t.Parallel()
	f := newFort(t, webOptions{hosts: []string{"mail.example"}}, "ann")
	for _, path := range []string{"/metrics", "/readyz"} {
		for name, change := range map[string]func(*http.Request){
			"its name":  func(r *http.Request) { r.Host = "mail.example" },
			"a header":  set("X-Forwarded-For", "203.0.113.9"),
			"RFC 7239":  set("Forwarded", "for=203.0.113.9"),
			"pretended": set("X-Forwarded-For", "127.0.0.1"),
		} {
			if status, _, body := f.request("GET", path, "", change); status != 401 {
				t.Errorf("GET %s by %s: %d %.200s; want 401", path, name, status, body)
			}
			if status, _, body := f.request("GET", path, "", both(change, bearer(f.token("ann", false)))); status != 200 {
				t.Errorf("GET %s by %s with a token: %d %.200s", path, name, status, body)
			}
		}
	}
}

// Too many requests are refused, each kind within its own bounds: who has no token takes nothing from those who have one.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	bounds := usualBounds
	bounds.requests = 2
	f := newFort(t, webOptions{bounds: bounds}, "ann", "bob", "cid")
	ann := f.token("ann", false)
	refused := false
	for range 200 {
		status, header, body := f.request("POST", "/v1/commands/send", `{}`, bearer(ann+"x"))
		if code, _ := failure(body); status == 429 && code == "busy" && header.Get("Retry-After") != "" {
			refused = true
		} else if status != 401 {
			t.Fatalf("a wrong token: %d %s", status, body)
		}
		if status, body := f.run(ann, "get_messages", `{}`); status != 200 {
			t.Fatalf("the right token meanwhile: %d %s", status, body)
		}
	}
	if !refused {
		t.Error("200 wrong tokens in a row are not bounded")
	}
	answers := make(chan int, 2)
	for range 2 {
		go func() {
			status, _ := f.run(ann, "wait", `{"timeout":300,"batch_size":1}`)
			answers <- status
		}()
	}
	f.until(func() bool { return len(f.web.slots) == 2 })
	status, header, body := f.request("POST", "/v1/commands/send", `{"recipient":"ann","message_type":"note"}`, bearer(f.token("bob", false)))
	if code, hint := failure(body); status != 503 || code != "busy" || header.Get("Retry-After") == "" || hint == "" {
		t.Errorf("one request more than the limit: %d %s", status, body)
	}
	if status, _, _ := f.request("GET", "/healthz", "", nil); status != 200 {
		t.Errorf("/healthz meanwhile: %d", status)
	}
	for range 2 {
		if _, err := f.router.Send(t.Context(), orchestrator.Draft{Sender: "bob", Recipient: "ann", Type: "note"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if status := <-answers; status != 200 {
			t.Errorf("a wait under way: %d", status)
		}
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
