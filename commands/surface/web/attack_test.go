package web_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"mailroom/commands/surface/surfacetest"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/threads"
)

// TestWithoutAToken checks that a request without a valid token gets one uniform error and changes nothing.
func TestWithoutAToken(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann", "bob")
	f.web.LimitFailures(rate.Inf)
	good := f.Token("ann", true)
	revoked, expired := f.Token("bob", false), ""
	if _, err := agents.RevokeTokens(t.Context(), f.Router.Ledger, "bob"); err != nil {
		t.Fatal(err)
	}
	expired, _, err := agents.IssueToken(t.Context(), f.Router.Ledger, "bob", false, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if status, body := f.Run(expired, "get_messages", `{}`); status != 200 {
		t.Fatalf("the token before it expires: %d %s", status, body)
	}
	f.Step(time.Minute)
	before := f.rows()
	last := byte('A')
	if good[len(good)-1] == last {
		last = 'B'
	}
	for name, change := range map[string]func(*http.Request){
		"none": nil, "two": set("Authorization", "Bearer "+good, "Authorization", "Bearer "+good),
		"basic": set("Authorization", "Basic "+good), "no scheme": set("Authorization", good),
		"empty":         set("Authorization", ""),
		"one character": bearer(good[:len(good)-1] + string(last)), "one less": bearer(good[:len(good)-1]),
		"one more": bearer(good + "A"),
		"case":     bearer(strings.ToUpper(good)), "two in one": bearer(good + ", " + good),
		"only the prefix": bearer("mailroom_"),
		"long":            bearer("mailroom_" + strings.Repeat("A", 8000)), "quoted": bearer(`"` + good + `"`),
		"not a text": bearer("mailroom_\xff\xfe"),
		"a pattern":  bearer("mailroom_%"), "a quote": bearer("mailroom_' OR 1=1 --"), "revoked": bearer(revoked),
		"expired":    bearer(expired),
		"of a proxy": set("Proxy-Authorization", "Bearer "+good),
		"in a cookie": set("Cookie", "Authorization=Bearer "+good, "X-Mailroom-Agent", "ann", "X-Forwarded-User", "ann",
			"X-Forwarded-For", "127.0.0.1"),
	} {
		for _, at := range [][2]string{
			{"POST", "/v1/commands/send"}, {"POST", "/v1/commands/nosuch"}, {"GET", "/v1/openapi.json"},
			{"GET", "/v1/events"},
			{"POST", "/mcp"}, {"POST", "/mcp/relay"}, {"GET", "/mcp"}, {"POST", "/v1/commands/send?token=" + good},
			{"POST", "/v1/commands/send?access_token=" + good},
		} {
			body := ""
			if at[0] == "POST" {
				body = `{"recipient":"bob","message_type":"note"}`
			}
			status, header, answer := f.Request(at[0], at[1], body, change)
			code, hint := failure(answer)
			if status != 401 || code != "unauthenticated" || !strings.Contains(hint, "agent token") ||
				header.Get("WWW-Authenticate") == "" {
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

// TestRevokedWhileConnected checks that revoking a token ends its running requests, which get no message sent after
// that.
func TestRevokedWhileConnected(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann", "bob")
	send := func() {
		t.Helper()
		if _, err := messages.Send(t.Context(), f.Router.Ledger,
			orchestrator.Draft{Sender: "ann", Recipient: "bob", Type: "note"}); err != nil {
			t.Fatal(err)
		}
	}
	for name, wait := range map[string]func(token string) (int, string){
		"command": func(token string) (int, string) { return f.Run(token, "wait", `{"timeout":300}`) },
		"tool": func(token string) (int,
			string) {
			return f.tool(token, "/mcp", "get_messages", `{"wait_seconds":300}`)
		},
	} {
		token := f.Token("bob", false)
		f.until(func() bool { return f.web.UnderWay() == 0 })
		type result struct {
			status int
			body   string
		}
		answered := make(chan result, 1)
		go func() {
			defer close(answered)
			status, body := wait(token)
			answered <- result{status, body}
		}()
		f.until(func() bool { return f.web.UnderWay() == 1 })
		if _, err := agents.RevokeTokens(t.Context(), f.Router.Ledger, "bob"); err != nil {
			t.Fatal(err)
		}
		send()
		got := <-answered
		if !strings.Contains(got.body, "unauthenticated") || (name == "command" && got.status != 401) {
			t.Errorf("%s: a wait whose token was revoked got %d %s", name, got.status, got.body)
		}
		if status, body := f.Run(token, "wait", `{}`); status != 401 {
			t.Errorf("%s: the same connection afterwards: %d %s", name, status, body)
		}
		if status, body := f.Run(f.Token("bob", false), "get_messages", `{}`); status != 200 ||
			!strings.Contains(body, `"count":1`) {
			t.Errorf("%s: with a new token: %d %s; want the message", name, status, body)
		}
	}
	token := f.Token("bob", false)
	stream := f.stream(token, "")
	stream.comment(t)
	if _, err := agents.RevokeTokens(t.Context(), f.Router.Ledger, "bob"); err != nil {
		t.Fatal(err)
	}
	send()
	if e, ok := stream.next(); ok {
		t.Errorf("a stream whose token was revoked goes on with %v", e)
	}
}

// forgery is a command that its caller may not run.
type forgery struct{ token, command, params string }

// forgeries returns those of ann, who is not an administrator, and of boss, who is.
func (f *fort) forgeries(ann, boss, thread, message string) []forgery {
	rows := []forgery{
		{ann, "send", `{"sender":"bob","recipient":"boss","message_type":"note"}`},
		{ann, "send", `{"SENDER":"BOB","recipient":"boss","message_type":"note"}`},
		{boss, "send", `{"sender":"bob","recipient":"ann","message_type":"note"}`},
		{ann, "deliver_all", `{"delivery_timeout_seconds":1}`},
		{ann, "deliver_all", `{"recipient":"bob","delivery_timeout_seconds":1}`},
		{ann, "wait", `{"recipient":"bob","timeout":0}`},
		{boss, "wait", `{"recipient":"bob","timeout":0}`},
		{ann, "send_message", `{"message":"x","source":"bob","target":"boss","message_type":"PING"}`},
		{ann, "get_messages", `{"sessionId":"bob"}`},
		{ann, "get_messages", `{"sessionId":"BOB"}`},
		{ann, "get_messages", `{"sessionId":"bob","markAsRead":false}`},
		{ann, "get_sent_messages", `{"source":"bob"}`},
		{ann, "coral_register_agent", `{"agentId":"bob","agentName":"me"}`},
		{ann, "coral_create_thread", `{"threadName":"t","creatorId":"bob"}`},
		{ann, "coral_send_message", `{"threadId":"` + thread + `","senderId":"bob","content":"x"}`},
		{ann, "coral_send_message", `{"threadId":"` + thread + `","content":"x"}`},
		{ann, "coral_wait_for_mentions", `{"agentId":"bob","timeoutMs":0}`},
		{ann, "coral_add_participant", `{"threadId":"` + thread + `","participantId":"ann"}`},
		{ann, "coral_remove_participant", `{"threadId":"` + thread + `","participantId":"bob"}`},
		{ann, "coral_close_thread", `{"threadId":"` + thread + `"}`},
		{ann, "ralph_send", `{"from":"bob","to":"boss","type":"note"}`},
		{boss, "ralph_inbox", `{"agent":"bob"}`},
		{ann, "ralph_ack", `{"id":"` + message + `"}`},
		{boss, "ralph_ack", `{"id":"` + message + `","agent":"bob"}`},
		{ann, "acknowledge", `{"message_id":"` + message + `"}`},
		{ann, "cancel", `{"message_id":"` + message + `"}`},
		{ann, "dead_letters_replay", `{"all":true,"sender":"bob"}`},
		{boss, "backup", `{"file":"` + f.Folder + `/copy.db"}`},
		{boss, "restore", `{"file":"` + f.Folder + `/mailroom.db"}`},
		{boss, "init", `{"folder":"` + f.Folder + `"}`}, {boss, "demo", `{}`},
		{boss, "schedule_add", `{"name":"x","spec":"@daily","command":"backup","params":{"file":"/tmp/x"}}`},
		{boss, "agent_add", `{"name":"eve","deliver":"jsonl:` + f.Folder + `/eve"}`},
		{boss, "agent_add", `{"name":"bob","fallback":"jsonl:` + f.Folder + `/bob"}`},
		{boss, "agent_add", `{"name":"bob","start":"rm -rf /"}`},
		{boss, "agent_add", `{"name":"bob","deliver":"webhook:http://127.0.0.1:1/","allow_private":true}`},
		{boss, "agent_add", `{"name":"bob","pass_env":"*,PGPASSWORD"}`},
		{boss, "agent_add", `{"name":"bob","pass_env":""}`},
		{boss, "setting_set", `{"key":"signal.allow_private","value":"on"}`},
		{boss, "schedule_add",
			`{"name":"x","spec":"@daily","command":"setting_set","params":{"key":"signal.allow_private","value":"on"}}`},
	}
	for _, d := range surfacetest.Catalogue().All() {
		if d.Card().Rights != "self" {
			rows = append(rows, forgery{ann, d.Name, `{}`})
		}
	}
	return rows
}

// TestAgentsOfOthersAreConcealed checks that an agent on another machine cannot see fields of others that may contain
// keys: files, commands and addresses.
func TestAgentsOfOthersAreConcealed(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann", "bob", "boss")
	secret := f.Folder + "/key-k3y.jsonl"
	start := "run --key k3y"
	if _, _, err := agents.Add(t.Context(), f.Router.Ledger,
		agents.Update{Name: "bob", Deliver: new("jsonl:" + secret), StartCommand: &start, Folder: "/k3y"}); err != nil {
		t.Fatal(err)
	}
	for token, sees := range map[string]bool{f.Token("ann", false): false, f.Token("bob", false): true,
		f.Token("boss", true): true} {
		for command, params := range map[string]string{"agent_list": `{}`, "agent_show": `{"name":"bob"}`} {
			status, body := f.Run(token, command, params)
			if status != 200 || !strings.Contains(body, "jsonl") || strings.Contains(body, "k3y") != sees {
				t.Errorf("%s, who may see it: %v: %d %s", command, sees, status, body)
			}
		}
	}
}

// TestFailuresOfOthersAreConcealed checks that an agent cannot see the delivery errors of others, which may contain
// fields that are concealed from it.
func TestFailuresOfOthersAreConcealed(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann", "boss")
	folder := filepath.Join(t.TempDir(), "k3y")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := agents.Add(t.Context(), f.Router.Ledger,
		agents.Update{Name: "bob", Deliver: new("jsonl:" + folder + "/bob.jsonl")}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	for token, sees := range map[string]bool{f.Token("ann", false): false, f.Token("bob", false): true,
		f.Token("boss", true): true} {
		if _, err := messages.Send(t.Context(), f.Router.Ledger,
			orchestrator.Draft{Sender: "ann", Recipient: "bob", Type: "note"}); err != nil {
			t.Fatal(err)
		}
		status, body := f.Run(token, "deliver_all", `{}`)
		if status != 200 || !strings.Contains(body, `"failed":1`) || strings.Contains(body, "k3y") != sees {
			t.Errorf("who may see it: %v: %d %s", sees, status, body)
		}
	}
}

// TestUnderAnothersName checks that nobody can send or read under another's name, and that nobody can run
// administrator commands without the right.
func TestUnderAnothersName(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann", "bob", "boss")
	thread, err := threads.Create(t.Context(), f.Router.Ledger,
		threads.Draft{Session: "default", Name: "n", Creator: "bob", Participants: []string{"boss"}})
	if err != nil {
		t.Fatal(err)
	}
	sent, err := messages.Send(t.Context(), f.Router.Ledger,
		orchestrator.Draft{Sender: "boss", Recipient: "bob", Type: "note", ThreadID: "secret",
			Payload: []byte(`"for bob"`)})
	if err != nil {
		t.Fatal(err)
	}
	ann, boss := f.Token("ann", false), f.Token("boss", true)
	rows := f.forgeries(ann, boss, thread.ID, sent.MessageID)
	hidden := []string{"acknowledge", "cancel", "ralph_ack"} // for others, such an ID or thread does not exist
	before := f.rows()
	for _, row := range rows {
		status, body := f.Run(row.token, row.command, row.params)
		code, _ := failure(body)
		isHidden := row.token == ann &&
			(slices.Contains(hidden, row.command) || strings.Contains(row.params, thread.ID) &&
				!strings.Contains(row.params, "senderId"))
		if isHidden != (status == 404 && code == "not_found") ||
			!isHidden && (status != 403 || code != "permission_denied") {
			t.Errorf("POST %s %s: %d %s", row.command, row.params, status, body)
		}
		_, body = f.tool(row.token, "/mcp", row.command, row.params)
		if !strings.Contains(body, `permission_denied`) && !strings.Contains(body, `unknown tool`) &&
			!(isHidden && strings.Contains(body, `not_found`)) {
			t.Errorf("tool %s %s: %s", row.command, row.params, body)
		}
	}
	if after := f.rows(); after-before > int64(2*len(rows)) { // one span for each failure
		t.Errorf("what was refused has written %d rows for %d requests", after-before, 2*len(rows))
	}
	entries, err := filepath.Glob(f.Folder + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range entries {
		if !strings.HasPrefix(filepath.Base(path), "mailroom.db") {
			t.Errorf("%s was written", path)
		}
	}
	for _, query := range []string{"SELECT * FROM tokens", "SELECT hash FROM tokens", "ATTACH 'x' AS y",
		"SELECT load_extension('x')", "PRAGMA table_info(tokens)", "DELETE FROM agents"} {
		if status, body := f.Run(boss, "sql", fmt.Sprintf(`{"query":%q}`, query)); status == 200 {
			t.Errorf("sql %s: %s", query, body)
		}
	}
	f.checkStillWorks(ann, boss)
}

// checkStillWorks checks that the agents themselves may still run their commands.
func (f *fort) checkStillWorks(ann, boss string) {
	f.T.Helper()
	for _, row := range []struct{ token, command, params, want string }{
		{ann, "send", `{"sender":"ann","recipient":"boss","message_type":"note"}`, `"sender":"ann"`},
		{ann, "get_messages", `{"sessionId":"ann"}`, `"count":0`},
		{boss, "get_sent_messages", `{"source":"boss"}`, `for bob`},
		{boss, "agent_add", `{"name":"eve","deliver":"inbox","fallback":""}`, `"created":true`},
		{boss, "status", `{}`, `"success":true`},
	} {
		if status, body := f.Run(row.token, row.command, row.params); status != 200 ||
			!strings.Contains(body, row.want) {
			f.T.Errorf("%s %s: %d %s", row.command, row.params, status, body)
		}
	}
}

// TestThreadOfOthers checks that an agent that names a thread of others in its own message cannot read the thread.
func TestThreadOfOthers(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann", "bob", "eve")
	for _, d := range []orchestrator.Draft{
		{Sender: "ann", Recipient: "bob", Type: "note", ThreadID: "plans", Payload: []byte(`"the plan"`)},
		{Sender: "eve", Recipient: "ann", Type: "note", ThreadID: "plans", Payload: []byte(`"hello"`)},
	} {
		if _, err := messages.Send(t.Context(), f.Router.Ledger, d); err != nil {
			t.Fatal(err)
		}
	}
	read := func(agent string) string {
		_, _, body := f.Request(http.MethodPost, "/mcp",
			`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"mailroom://thread/plans"}}`,
			mcpClient(bearer(f.Token(agent, false))))
		return body
	}
	if body := read("eve"); strings.Contains(body, "the plan") || !strings.Contains(body, "hello") {
		t.Errorf("eve reads %s", body)
	}
	if body := read("ann"); !strings.Contains(body, "the plan") || !strings.Contains(body, "hello") ||
		!strings.Contains(body, `"cacheScope":"private"`) {
		t.Errorf("ann reads %s", body)
	}
}
