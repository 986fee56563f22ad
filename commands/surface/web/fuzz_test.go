package web_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"mailroom/commands"
	"mailroom/commands/surface/mcp"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/corpus"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/store/postgres"
)

// target is a daemon that receives arbitrary input.
type target struct {
	*fort
	token string      // of ann, who is not an administrator
	tools *mcp.Server // of ann
	other *sql.Conn   // another connection to the database
}

func newTarget(t testing.TB) *target {
	t.Helper()
	f := newFort(t, web.Options{}, "ann", "bob")
	f.web.LimitFailures(rate.Inf)
	ann := f.Env
	ann.Caller = commands.Caller{Name: "ann", Session: "default"}
	g := &target{fort: f, token: f.Token("ann", false), tools: mcp.NewServer(ann, "v1")}
	var err error
	if g.other, err = enginetest.Plain(t, f.Router.Path()).Conn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

// post sends a body and returns the answer. It abandons a call that waits.
func (g *target) post(t *testing.T, path, body string, change func(*http.Request)) (status int, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.Address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	mcpClient(change)(req)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("POST %s %.300q: %v", path, body, err)
	}
	defer res.Body.Close()
	read, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("POST %s %.300q: %v", path, body, err)
	}
	return res.StatusCode, string(read)
}

// version returns a number that changes with every change of the database by another connection.
func (g *target) version(t *testing.T) (n int64) {
	t.Helper()
	query := `PRAGMA data_version`
	if postgres.IsAddress(g.Router.Path()) {
		query = `SELECT sum(n) FROM commits` // by all connections
	}
	if err := g.other.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// withoutToken sends a body without a token and checks that it is refused and changes nothing. It may have to check
// again, because the settlement of the previous answer is recorded only after that answer was read.
func (g *target) withoutToken(t *testing.T, path, body string) {
	t.Helper()
	for range 3 {
		before := g.version(t)
		status, answer := g.post(t, path, body, nil)
		if code, _ := failure(answer); status != 401 || code != "unauthenticated" {
			t.Fatalf("without a token: %d %s", status, answer)
		}
		if g.version(t) == before {
			return
		}
	}
	t.Fatal("a request without a token has changed the database")
}

// nothingPanicked checks the log for panics and empties it.
func (g *target) nothingPanicked(t *testing.T) {
	t.Helper()
	if log := g.TakeLog(); strings.Contains(log, "panic") || strings.Contains(log, "goroutine ") {
		t.Fatalf("something panicked: %.2000s", log)
	}
}

// rpcSeeds are messages of an MCP client, valid and invalid.
var rpcSeeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
	`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	`{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"cursor":""}}`,
	`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"send_message","arguments":{"message":"x","target":"bob","message_type":"PING"}}}`,
	`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_messages","arguments":{"limit":1},"_meta":{"progressToken":1,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}`,
	`{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"mailroom://inbox/ann"}}`,
	`[{"jsonrpc":"2.0","id":5,"method":"ping"},{"jsonrpc":"2.0","id":5,"method":"ping"}]`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`,
	`{"jsonrpc":"2.0","id":6,"result":{}}` + "\n" + `{"jsonrpc":"2.0","id":null,"method":"ping"}`,
	"\x00\n\xff\n{}\n[]\nnull\n", "",
}

// checkRPC sends bytes to /mcp and to the server on standard input. It checks that both end, answer with whole
// messages, and do not panic. It reports whether /mcp refused the bytes.
func (g *target) checkRPC(t *testing.T, in string) (malformed bool) {
	t.Helper()
	g.withoutToken(t, "/mcp", in)
	status, answer := g.post(t, "/mcp", in, bearer(g.token))
	if status >= 500 {
		t.Fatalf("/mcp: %d %s", status, answer)
	}
	for line := range strings.Lines(answer) {
		data, isData := strings.CutPrefix(line, "data: ")
		if isData && !json.Valid([]byte(data)) {
			t.Fatalf("/mcp answers with %q", line)
		}
	}
	var out bytes.Buffer
	if err := g.tools.Serve(t.Context(), strings.NewReader(in), &out); err != nil {
		malformed = true // the stream ends there
	}
	for line := range strings.Lines(out.String()) {
		if !json.Valid([]byte(line)) {
			t.Fatalf("standard output has the line %q", line)
		}
	}
	g.nothingPanicked(t)
	return malformed || status >= 400 || strings.Contains(answer, `"error":{`) ||
		strings.Contains(answer, `"isError":true`)
}

func FuzzJSONRPC(f *testing.F) {
	for _, seed := range rpcSeeds {
		f.Add(seed)
	}
	g := newTarget(f)
	f.Fuzz(func(t *testing.T, in string) { g.checkRPC(t, in) })
}

// TestMalformedJSONRPC replays the corpus of FuzzJSONRPC.
func TestMalformedJSONRPC(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	corpus.Target{
		Name: "FuzzJSONRPC", Package: "mailroom/commands/surface/web", Seeds: rpcSeeds,
		Tokens: []string{"\n", `"`, `{`, `}`, `[`, `\`, `,`, "\x00", "\xff", "null", `"id":{},`, `"method":1,`,
			`"params":[],`, `"jsonrpc":"1.0",`},
		Check: g.checkRPC,
	}.Replay(t, 1000)
}

// bodySeeds are names of commands, each followed by a space and a body.
var bodySeeds = []string{
	`send {"recipient":"bob","message_type":"note","payload":{"n":1.10,"text":"x"},"priority":-9,"ttl_seconds":60}`,
	`SEND {"RECIPIENT":"bob","Message_Type":"note","idempotency_key":"k"}`,
	`send_message {"message":"x","target":"bob","message_type":"PING","priority":"high","threadId":"t","payload":{"a":[1]}}`,
	`get_messages {"sessionId":"ann","markAsRead":false,"limit":1}`,
	`get_sent_messages {"status":"pending","limit":50}`,
	`SendMessage {"to":"*","message":{"type":"shutdown_request","reason":"x"},"summary":"y"}`, `team_members {}`,
	`coral_create_thread {"threadName":"t","participantIds":["bob","ann"]}`,
	`coral_send_message {"threadId":"direct:bob","content":"x","mentions":["bob"]}`,
	`ralph_send {"to":"bob","type":"bug_report","priority":"urgent","payload":{"taskId":"t","bugs":[{"file":"f","line":1e400,"issue":"i"}]}}`,
	`ralph_inbox {"markAsRead":false,"limit":1}`, `ralph_ack {"id":"msg-1"}`,
	`acknowledge {"message_id":"msg-1"}`, `agent-show {"name":"bob"}`, `setting_get {"key":"bounce"}`, `status {}`,
	`sql {"query":"SELECT 1"}`, `orchestrator.send {}`, ` `, "nosuch []",
}

// checkBody runs a command over HTTP. It checks that the answer is valid JSON, that the status matches the error
// code, that there is no bug, and that administrator commands are refused. It reports whether the command was
// refused.
func (g *target) checkBody(t *testing.T, in string) (malformed bool) {
	t.Helper()
	name, body, _ := strings.Cut(in, " ")
	if strings.Contains(strings.ToLower(name), "wait") || strings.Contains(body, "wait_") ||
		path.Clean(commandsPath+name) != commandsPath+name || len(in) > 8<<10 {
		return false // it may take long, or the path is another one
	}
	at := commandsPath + url.PathEscape(name)
	g.withoutToken(t, at, body)
	status, answer := g.post(t, at, body, bearer(g.token))
	var said struct {
		Success bool
		Error   orchestrator.Code
		Message string
	}
	if err := json.Unmarshal([]byte(answer), &said); err != nil {
		t.Fatalf("%d %q: %v", status, answer, err)
	}
	if want := commands.HTTPStatus(&orchestrator.Error{Code: said.Error}); said.Success != (status == 200) ||
		(!said.Success && (status != want || status == 500 || said.Message == "")) {
		t.Fatalf("%d %s", status, answer)
	}
	if d, err := g.Env.Catalogue.Lookup(name); err == nil && said.Success {
		if d.Card().Rights != "self" || d.HereOnly {
			t.Fatalf("%s is not for everybody, and was run: %s", name, answer)
		}
	}
	g.nothingPanicked(t)
	return !said.Success && said.Error != orchestrator.Conflict // a used key may be accepted another time
}

func FuzzCommandBody(f *testing.F) {
	for _, seed := range bodySeeds {
		f.Add(seed)
	}
	g := newTarget(f)
	f.Fuzz(func(t *testing.T, in string) { g.checkBody(t, in) })
}

// TestMalformedBodies replays the corpus of FuzzCommandBody.
func TestMalformedBodies(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	corpus.Target{
		Name: "FuzzCommandBody", Package: "mailroom/commands/surface/web", Seeds: bodySeeds,
		Tokens: []string{`"`, `{`, `}`, `\`, `,`, "\x00", "\xff", "null", `"priority":99,`, `"recipient":"zed",`,
			`"sender":"bob",`, `"__proto__":{},`, "1e999", `\ud800`},
		Check: g.checkBody,
	}.Replay(t, 2500)
}
