package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mailroom/commands"
	"mailroom/commands/coral"
	"mailroom/commands/ralph"
	"mailroom/commands/relay"
	"mailroom/commands/route"
	"mailroom/commands/signal"
	"mailroom/commands/team"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store"
)

// matrix is a database in which one agent writes in every vocabulary and another reads in every vocabulary. The two
// work in different sessions, so that readers must show the session.
type matrix struct {
	t      *testing.T
	router *delivery.Engine
	log    *slog.Logger
}

func newMatrix(t *testing.T) *matrix {
	log := slog.New(slog.DiscardHandler)
	r, err := router.Open(t.Context(), enginetest.Placed(ledger.Options{
		Path: enginetest.Place(t), Transports: transports(), User: signal.NewUser, Log: log, Bell: store.NewLocalBell(),
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if _, err := r.Store.Create(); err != nil {
		t.Fatal(err)
	}
	m := &matrix{t, r, log}
	for _, name := range []string{"writer", "reader", "third"} {
		m.run("", "default", "agent_add", `{"name":%q}`, name)
	}
	m.run("", "default", "group_set", `{"name":"readers","members":["reader","third"]}`)
	return m
}

// run runs a command, which must succeed, as an agent in a session. An empty name is the administrator.
func (m *matrix) run(as, session, command, params string, args ...any) commands.Answer {
	m.t.Helper()
	answer := m.ask(as, session, command, params, args...)
	if err := answer.Settle(m.t.Context(), commands.Env{Engine: m.router}, true); err != nil {
		m.t.Fatal(err)
	}
	return answer
}

// ask runs a command and returns an answer that has not been settled yet.
func (m *matrix) ask(as, session, command, params string, args ...any) commands.Answer {
	m.t.Helper()
	d, err := config().Catalogue.Lookup(command)
	if err != nil {
		m.t.Fatal(err)
	}
	env := commands.Env{Engine: m.router, Caller: commands.Caller{Name: as, Session: session, Admin: as == ""},
		Log: m.log, Catalogue: config().Catalogue}
	answer, err := d.Run(m.t.Context(), env, json.RawMessage(fmt.Sprintf(params, args...)))
	if err != nil {
		m.t.Fatalf("%s %s: %v", command, params, err)
	}
	return answer
}

// value returns the value of a top-level key of an answer.
func (m *matrix) value(answer commands.Answer, key string) string {
	m.t.Helper()
	var fields map[string]any
	body, err := orchestrator.JSON(answer)
	if err != nil || json.Unmarshal(body, &fields) != nil || fields[key] == nil {
		m.t.Fatalf("no %s in %s, %v", key, body, err)
	}
	return fmt.Sprint(fields[key])
}

// row returns all columns of the last message to reader.
func (m *matrix) row() (columns map[string]string) {
	m.t.Helper()
	columns = map[string]string{}
	table, err := m.router.Query(m.t.Context(), `SELECT m.*, a.within_seconds AS ack_within FROM agent_message m
		LEFT JOIN acknowledgement_due a USING (message_id) WHERE m.recipient = 'reader' ORDER BY m.seq DESC LIMIT 1`,
		store.Bound{Rows: 1})
	rows := table.Rows.Values()
	if err != nil || len(rows) != 1 {
		m.t.Fatalf("%v, %v", rows, err)
	}
	for i, name := range table.Columns {
		columns[name] = fmt.Sprint(rows[0][i])
	}
	return columns
}

// readers lists the ways to read, each with its output as one text.
var readers = []struct {
	name string
	read func(m *matrix) string
}{
	{"poll", func(m *matrix) string { return m.shown(m.run("", "default", "poll", `{"recipient":"reader"}`)) }},
	{"wait", func(m *matrix) string { return m.shown(m.run("reader", "default", "wait", `{"timeout":0}`)) }},
	{"relay", func(m *matrix) string { return m.shown(m.run("reader", "default", "get_messages", `{}`)) }},
	{"team", func(m *matrix) string { return m.shown(m.run("reader", "default", "team_messages", `{}`)) }},
	{"ralph", func(m *matrix) string { return m.shown(m.run("reader", "default", "ralph_inbox", `{}`)) }},
	{"coral", func(m *matrix) string {
		return m.shown(m.run("reader", "default", "coral_wait_for_mentions", `{"timeoutMs":0}`))
	}},
	{"xml", func(m *matrix) string {
		return m.run("reader", "default", "coral_wait_for_mentions",
			`{"timeoutMs":0}`).Result.(commands.ToolTexter).ToolText()
	}},
}

func (m *matrix) shown(answer commands.Answer) string {
	m.t.Helper()
	body, err := orchestrator.JSON(answer)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(body)
}

// given is a value that a sender set. In the value, {NAME} stands for the field or column of that name in the answer
// to the send or in the row.
type given struct {
	column string // column of agent_message; ack_within is from acknowledgement_due
	value  string
	only   string            // readers that show the value, separated by spaces; "" is all
	as     map[string]string // by reader, the text shown instead of the value
}

const everybodyButPoll = "wait relay team ralph coral xml"

// urgent returns how each reader shows a priority: as a number in the router's own vocabulary, as a word in the
// others.
func urgent(number string) map[string]string {
	return map[string]string{"wait": `"priority":` + number, "poll": `"priority":` + number, "relay": "urgent",
		"team": "urgent", "ralph": "urgent", "coral": "urgent", "xml": "urgent"}
}

// named makes every reader look for a key, because the value is a number that may occur in any time or ID.
func named(key string) map[string]string {
	as := map[string]string{}
	for _, r := range readers {
		as[r.name] = key
	}
	return as
}

// quoted is a text with characters that XML and JSON escape.
const quoted = "<b> & \"q\"\\n\\u00e9"

func inJSON(prefix string) map[string]string {
	return map[string]string{"xml": prefix + "&lt;b&gt; &amp; &#34;q&#34;\né"}
}

var sent = []struct {
	name   string
	send   func(m *matrix, values map[string]string)
	values []given
}{
	{"route send", func(m *matrix, v map[string]string) {
		m.run("writer", "crew", "send",
			`{"recipient":"reader","message_type":"route-type","max_retries":77,"priority":5,
			"payload":{"deep":[{"number":12345678901234567890.10,"text":"route-text"}]},"ttl_seconds":86399,"idempotency_key":"route-key-%s",
			"reply_to":%q,"ack_within":3607}`, v["round"], v["reply"])
	}, []given{
		{"sender", "writer", "", nil}, {"message_type", "route-type", "", nil},
		{"payload", "12345678901234567890.10", "", nil},
		{"payload", "route-text", "", nil}, {"max_retries", "77", "wait", named("max_retries")},
		{"priority", "5", "", urgent("5")},
		{"expires_at", "{expires_at}", everybodyButPoll, nil}, {"idempotency_key", "route-key-{round}", "wait", nil},
		{"reply_to", "{reply}", everybodyButPoll, nil}, {"session_id", "crew", everybodyButPoll, nil},
		{"ack_within", "3607", "none", named("within")},
	}},
	{"relay send_message", func(m *matrix, v map[string]string) {
		m.run("writer", "crew", "send_message",
			`{"target":"reader","message":"relay-text","message_type":"QUERY","priority":"urgent","action":"interrupt",
			"context":"relay-context","sessionId":"relay-session","reply_to":%q,"threadId":"relay-thread","ttl":86399,"payload":{"n":1.10,"k":"relay-data"},
			"idempotency_key":"00000000-0000-4000-8000-00000000000%s","ack_within":3607}`, v["reply"], v["round"])
	}, []given{
		{"sender", "writer", "", nil}, {"payload", "relay-text", "", nil}, {"message_type", "QUERY", "", nil},
		{"priority", "2", "", urgent("2")}, {"action", "interrupt", everybodyButPoll, nil},
		{"context", "relay-context", everybodyButPoll, nil},
		{"session_id", "relay-session", everybodyButPoll, nil}, {"reply_to", "{reply}", everybodyButPoll, nil},
		{"thread_id", "relay-thread", everybodyButPoll, nil}, {"expires_at", "{expires_at}", everybodyButPoll, nil},
		{"payload", "1.10", "", nil}, {"payload", "relay-data", "", nil},
		{"idempotency_key", "00000000-0000-4000-8000-00000000000{round}", "wait", nil},
		{"ack_within", "3607", "none", named("within")},
	}},
	{"relay send_message to a group", func(m *matrix, v map[string]string) {
		v["multicast"] = m.value(m.run("writer", "crew", "send_message",
			`{"target":"readers","message":"group-text","message_type":"PING"}`), "multicastId")
	}, []given{
		{"payload", "group-text", "", nil}, {"message_type", "PING", "", nil},
		{"multicast_target", "readers", everybodyButPoll, nil},
		{"multicast_id", "{multicast}", "wait relay team ralph", nil},
	}},
	{"team text", func(m *matrix, v map[string]string) {
		m.run("writer", "crew", "SendMessage", `{"to":"reader","message":"team-text %s","summary":"team-summary"}`,
			strings.ReplaceAll(quoted, `"`, `\"`))
	}, []given{
		{"sender", "writer", "", nil}, {"payload", `team-text <b> & \"q\"\né`, "", inJSON("team-text ")},
		{"summary", "team-summary", everybodyButPoll, nil}, {"session_id", "crew", everybodyButPoll, nil},
	}},
	{"team to everybody", func(m *matrix, v map[string]string) {
		v["multicast"] = m.value(m.run("writer", "crew", "SendMessage", `{"to":"*","message":"team-all"}`),
			"multicast_id")
	}, []given{
		{"payload", "team-all", "", nil}, {"multicast_target", "*", everybodyButPoll, map[string]string{
			"wait": `"multicast_target":"*"`, "relay": `"target":"*"`, "team": `"multicast_target":"*"`,
			"ralph": `"multicast_target":"*"`, "coral": `"multicast_target":"*"`,
			"xml": "<multicast_target>*</multicast_target>"}},
		{"multicast_id", "{multicast}", "wait relay team ralph", nil},
	}},
	{"team request", func(m *matrix, v map[string]string) {
		v["request"] = m.value(m.run("writer", "crew"+v["round"], "SendMessage",
			`{"to":"reader","message":{"type":"plan_approval_request","plan":"team-plan"}}`), "request_id")
	}, []given{
		{"message_type", "plan_approval_request", "", nil}, {"payload", "team-plan", "", nil},
		{"payload", "{request}", "", nil},
		{"session_id", "crew{round}", everybodyButPoll, nil},
	}},
	{"team answer", func(m *matrix, v map[string]string) {
		asked := m.run("reader", "crew"+v["round"], "SendMessage",
			`{"to":"writer","message":{"type":"shutdown_request","reason":"why"}}`)
		v["request"], v["asked"] = m.value(asked, "request_id"), m.value(asked, "message_id")
		m.run("writer", "crew"+v["round"], "SendMessage",
			`{"to":"reader","message":{"type":"shutdown_response","request_id":%q,"approve":false,"reason":"team-reason"}}`, v["request"])
	}, []given{
		{"message_type", "shutdown_response", "", nil}, {"payload", "team-reason", "", nil},
		{"payload", "{request}", "", nil},
		{"payload", `"approve":false`, "",
			map[string]string{"relay": `approve\":false`, "coral": `approve\":false`,
				"xml": "&#34;approve&#34;:false"}},
		{"reply_to", "{asked}", everybodyButPoll, nil},
	}},
	{"coral post", func(m *matrix, v map[string]string) {
		v["thread"] = m.value(m.run("writer", "crew", "coral_create_thread",
			`{"threadName":"talk","participantIds":["reader","third"]}`), "threadId")
		v["post"] = m.value(m.run("writer", "crew", "coral_send_message",
			`{"threadId":%q,"content":"coral-text %s","mentions":["third","reader"]}`,
			v["thread"], strings.ReplaceAll(quoted, `"`, `\"`)), "id")
	}, []given{
		{"sender", "writer", "", nil}, {"payload", `coral-text <b> & \"q\"\né`, "", inJSON("coral-text ")},
		{"payload", `"third"`, "", map[string]string{"xml": `<mention id="third"`}},
		{"thread_id", "{thread}", everybodyButPoll, nil},
		{"multicast_id", "{post}", everybodyButPoll, nil}, {"session_id", "crew", everybodyButPoll, nil},
	}},
	{"coral direct", func(m *matrix, v map[string]string) {
		m.run("writer", "crew", "coral_send_message", `{"threadId":"direct:reader","content":"direct-text"}`)
	}, []given{
		{"sender", "writer", "", nil}, {"payload", "direct-text", "", nil},
		{"session_id", "crew", everybodyButPoll, nil},
	}},
	{"ralph send", func(m *matrix, v map[string]string) {
		v["id"] = m.value(m.run("writer", "crew", "ralph_send",
			`{"to":"reader","type":"bug_report","priority":"urgent","replyTo":%q,"idempotencyKey":"ralph-key-%s",
			"payload":{"taskId":"ralph-task","bugs":[{"file":"ralph-file","line":12345678901234567890,"issue":"ralph %s"}]}}`, v["reply"], v["round"],
			strings.ReplaceAll(quoted, `"`, `\"`)), "id")
	}, []given{
		{"message_id", "{id}", "", nil}, {"sender", "writer", "", nil}, {"message_type", "bug_report", "", nil},
		{"priority", "2", "", urgent("2")},
		{"payload", "ralph-task", "", nil}, {"payload", "ralph-file", "", nil},
		{"payload", "12345678901234567890", "", nil},
		{"payload", `ralph <b> & \"q\"\n\u00e9`, "",
			map[string]string{"xml": "ralph &lt;b&gt; &amp; \\&#34;q\\&#34;\\n\\u00e9"}},
		{"reply_to", "{reply}", everybodyButPoll, nil}, {"session_id", "crew", everybodyButPoll, nil},
		{"idempotency_key", "ralph-key-{round}", "wait", nil},
	}},
	{"ralph send to a group", func(m *matrix, v map[string]string) {
		v["multicast"] = m.value(m.run("writer", "crew", "ralph_send",
			`{"to":"readers","type":"ralph-type","payload":{"n":"ralph-all"}}`), "id")
	}, []given{
		{"payload", "ralph-all", "", nil}, {"message_type", "ralph-type", "", nil},
		{"multicast_target", "readers", everybodyButPoll, nil},
		{"multicast_id", "{multicast}", "wait relay team ralph", nil},
	}},
}

// TestEveryVocabularyReadsEveryOther checks that every value that a sender set in any vocabulary is in the row, and
// that each reader shows it or not, as the table specifies: nothing is lost, and nothing is hidden that a reader
// should show.
func TestEveryVocabularyReadsEveryOther(t *testing.T) {
	t.Parallel()
	for _, s := range sent {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			m := newMatrix(t)
			reply := m.value(m.run("reader", "default", "send", `{"recipient":"writer","message_type":"question"}`),
				"message_id")
			for i, reader := range readers {
				values := map[string]string{"round": fmt.Sprint(i), "reply": reply}
				s.send(m, values)
				row := m.row()
				values["expires_at"] = row["expires_at"]
				shown := reader.read(m)
				if reader.name == "poll" {
					m.run("reader", "default", "wait", `{"timeout":0}`) // hide it from the next reader
				}
				for _, g := range s.values {
					checkGiven(t, reader.name, &g, values, row, shown)
				}
			}
		})
	}
}

func checkGiven(t *testing.T, reader string, g *given, values, row map[string]string, shown string) {
	t.Helper()
	fill := func(text string) string {
		for name, value := range values {
			text = strings.ReplaceAll(text, "{"+name+"}", value)
		}
		return text
	}
	value := fill(g.value)
	if stored := row[g.column]; !strings.Contains(stored, value) || (g.column != "payload" && stored != value) {
		t.Errorf("the row has %s %q; want %q", g.column, stored, value)
	}
	if as, ok := g.as[reader]; ok {
		value = as
	}
	if want := g.only == "" || slices.Contains(strings.Fields(g.only), reader); strings.Contains(shown, value) != want {
		t.Errorf("%s shows %s (%s): %v; want %v, in\n%s", reader, g.column, value, !want, want, shown)
	}
}

// TestVocabulariesAreDocumented checks that docs/vocabularies.md names every key of the messages and sends of every
// vocabulary, every column of agent_message, and every command with its form on the command line and as a tool.
func TestVocabulariesAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "vocabularies.md"))
	if err != nil {
		t.Fatal(err)
	}
	has := func(what, name string) {
		t.Helper()
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("%s: the page does not name `%s`", what, name)
		}
	}
	for _, shape := range []any{
		orchestrator.Message{}, route.PolledMessage{}, relay.Message{}, relay.SentMessage{}, team.Message{},
		coral.Message{}, coral.Thread{}, ralph.Received{},
		route.SendParams{}, relay.SendMessageParams{}, team.SendMessageParams{}, coral.SendMessageParams{},
		ralph.SendParams{},
	} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(shape)) {
			if key, _, _ := strings.Cut(field.Tag.Get("json"), ","); key != "" && key != "-" {
				has(fmt.Sprintf("%T", shape), key)
			}
		}
	}
	m := newMatrix(t)
	table, err := m.router.Query(t.Context(), `SELECT * FROM agent_message`, store.Bound{Rows: 1})
	if err != nil || len(table.Columns) == 0 {
		t.Fatalf("%v, %v", table, err)
	}
	for _, column := range table.Columns {
		has("agent_message", column)
	}
	for _, d := range config().Catalogue.All() {
		name := d.Vocabulary().Name
		if name == "admin" {
			continue
		}
		card := d.Card()
		row := fmt.Sprintf("| %s | `%s` | `%s` | `%s` | %s |\n", name, d.CommandLine(), d.Name, d.Tool, card.Rights)
		if !strings.Contains(string(page), row) {
			t.Errorf("the page has not the row\n%s", row)
		}
	}
}
