package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/commands/mail"
	"mailroom/commands/surface/surfacetest"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/threads"
)

// shows is the number of bytes of an answer that the most restrictive host shows, without the frame of the protocol.
const shows = 11_100

// payloads returns messages of many lengths, with the characters that are longest in JSON, XML and UTF-8. Each ends
// with an identifying text.
func payloads() (list []string) {
	add := func(format string, args ...any) {
		list = append(list, fmt.Sprintf(format, args...))
	}
	for i := range 8 {
		add(`"short, end-%d."`, i)
	}
	for _, text := range []string{"x", "中", "я", "😀", `\"`, `\n`, "&<>'", `\u0007`} {
		for _, n := range []int{300, 3000, 12_000} {
			add(`"%s end-%d."`, strings.Repeat(text, n/len(text)), len(list))
		}
	}
	for _, n := range []int{500, 4000, 6000, 20_000} {
		add(`{"log":["%s"],"end":"end-%d."}`, strings.Repeat(`\"a\" `, n/6), len(list))
	}
	add(`"%s end-%d."`, strings.Repeat("Line of a log. ", 65_000), len(list))
	return list
}

// reader is a connection over which a model reads, with the messages for it.
type reader struct {
	*endpoints
	session *sdk.ClientSession
	ids     []string
}

// newReader connects the agent r, to whom a has sent payloads.
func newReader(t *testing.T, payloads []string, change ...func(*orchestrator.Draft)) *reader {
	t.Helper()
	e := newEndpoints(t, "a", "r")
	r := &reader{endpoints: e}
	for _, payload := range payloads {
		d := orchestrator.Draft{Sender: "a", Recipient: "r", Type: "note", Payload: json.RawMessage(payload)}
		for _, c := range change {
			c(&d)
		}
		sent, err := messages.Send(t.Context(), e.Router.Ledger, d)
		if err != nil {
			t.Fatal(err)
		}
		r.ids = append(r.ids, sent.MessageID)
	}
	env := e.Env
	env.Catalogue = commands.NewCatalogue(append(surfacetest.Catalogue().All(), mail.Definitions()...))
	server := NewServer(env, "v1")
	e.serve(env, server.Handlers())
	r.session, _ = piped(t, server.offering(false), "r", nil)
	return r
}

// read calls a tool and checks that a host shows the whole answer, both as text and as JSON. It returns the answer.
func (r *reader) read(tool, args string) string {
	r.T.Helper()
	result, err := r.session.CallTool(r.T.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	if err != nil || result.IsError {
		r.T.Fatalf("%s %s: %v %+v", tool, args, err, result)
	}
	structured, err := orchestrator.JSON(result.StructuredContent)
	if err != nil {
		r.T.Fatal(err)
	}
	text := result.Content[0].(*sdk.TextContent).Text
	if len(text) > shows || len(structured) > shows {
		r.T.Errorf("%s %s: %d bytes of text, %d of JSON: %.300s", tool, args, len(text), len(structured), text)
	}
	return text
}

// is checks that an answer contains a message: the whole text, or its beginning and how to read the rest, which it
// then reads.
func (r *reader) is(tool, answer string, i int) {
	r.T.Helper()
	end := fmt.Sprintf("end-%d.", i)
	if strings.Contains(answer, end) {
		return
	}
	next := regexpNext.FindStringSubmatch(answer)
	if next == nil || next[1] != r.ids[i] {
		r.T.Errorf("%s: message %d is not whole, and nothing says how to read on: %.2000s", tool, i, answer)
		return
	}
	for {
		if i == len(r.ids)-1 && len(next[2]) < 5 {
			next[2] = "970000" // a mebibyte has about 130 parts
		}
		part := r.read("get_message", fmt.Sprintf(`{"message_id":%q,"offset":%s}`, r.ids[i], next[2]))
		if next = regexpNext.FindStringSubmatch(part); next == nil {
			if !strings.Contains(part, end) {
				r.T.Errorf("%s: the last part of message %d has no end: %.200s", tool, i, part)
			}
			return
		}
	}
}

// regexpNext matches the text on how to read the next part of a message.
var regexpNext = regexp.MustCompile(`to read the next part, call get_message with message_id (\S+) and offset (\d+)`)

// TestReadersAreBounded checks that every tool that hands out messages returns as many as the host shows, and leaves
// the others unread. A message that is too long is cut, and its rest is read by get_message. No message is handed out
// twice or left out.
func TestReadersAreBounded(t *testing.T) {
	t.Parallel()
	for tool, args := range map[string]string{
		"get_messages": `{}`, "wait": `{"timeout":0,"batch_size":1000}`, "ralph_inbox": `{}`, "team_messages": `{}`,
		"coral_wait_for_mentions": `{"timeoutMs":0}`,
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			all := payloads()
			r := newReader(t, all)
			at, answers := 0, 0
			for at < len(all) {
				answer := r.read(tool, args)
				answers++
				from := at
				for ; at < len(all) && strings.Contains(answer, r.ids[at]); at++ {
					r.is(tool, answer, at)
				}
				if at == from {
					t.Fatalf("message %d did not come: %.300s", at, answer)
				}
				r.await(fmt.Sprint(len(all)-at),
					`SELECT count(*) FROM agent_message WHERE recipient = 'r' AND read_at = ''`)
				if more := strings.Contains(answer, "there is more to read: "); more != (at < len(all)) {
					t.Errorf("after %d of %d messages: %.300s", at, len(all), answer)
				}
			}
			if answers < len(all)/3 {
				t.Errorf("%d answers had all of %d messages", answers, len(all))
			}
		})
	}
}

// TestWhatDeliveryAddsCounts checks that messages that would fit into an answer before their delivery, but not with
// their delivery time, come with the next answer.
func TestWhatDeliveryAddsCounts(t *testing.T) {
	t.Parallel()
	r := newReader(t, nil)
	split := 0
	for size := 2200; size < 2600; size += 10 {
		left := map[string]bool{}
		for range 4 {
			sent, err := messages.Send(t.Context(), r.Router.Ledger, orchestrator.Draft{
				Sender: "a", Recipient: "r", Type: "note",
				Payload: json.RawMessage(`"` + strings.Repeat("x", size) + `"`),
			})
			if err != nil {
				t.Fatal(err)
			}
			left[sent.MessageID] = true
		}
		for answers := 0; len(left) > 0; answers++ {
			n := len(left)
			answer := r.read("wait", `{"timeout":0}`)
			maps.DeleteFunc(left, func(id string, _ bool) bool { return strings.Contains(answer, id) })
			if len(left) == n {
				t.Fatalf("%d messages of %d bytes were left out, and do not come: %.300s", n, size, answer)
			}
			if more := strings.Contains(answer, `"more":true`); more != (len(left) > 0) {
				t.Errorf("%d messages of %d bytes are left: %.300s", len(left), size, answer)
			}
			r.await(fmt.Sprint(len(left)), `SELECT count(*) FROM agent_message WHERE recipient = 'r' AND read_at = ''`)
			split += answers
		}
	}
	if split == 0 {
		t.Error("no size was tried at which an answer has to leave messages out")
	}
}

// TestLongWithoutALimit checks that an answer that is long for reasons other than its limit is made once more, but
// not endlessly.
func TestLongWithoutALimit(t *testing.T) {
	t.Parallel()
	r := newReader(t, nil)
	db := enginetest.Plain(t, r.Router.Path())
	if _, err := db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
		INSERT INTO removed_agents (name, removed_at) SELECT 'an-agent-of-long-ago-' || i, '2026-01-01T00:00:00.000Z'
			FROM n`); err != nil {
		t.Fatal(err)
	}
	admin := r.tools("/mcp", "a", true, nil)
	for tool, args := range map[string]string{
		"agent_list": `{"all":true}`, "sql": `{"query":"SELECT 1, '` + strings.Repeat("x", 20_000) + `' AS x"}`,
	} {
		if text := done(t, admin, tool, args); len(text) < shows {
			t.Errorf("%s: %.300s is not long", tool, text)
		}
	}
}

// TestPostsAreBounded checks that the answers with posts of a thread are bounded, too.
func TestPostsAreBounded(t *testing.T) {
	t.Parallel()
	for tool, args := range map[string]string{"read_thread": `{"thread_id":"THREAD"}`,
		"coral_wait_for_mentions": `{"timeoutMs":0,"any":true}`} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			r := newReader(t, nil)
			names := []string{"r"}
			for i := range 60 {
				name := fmt.Sprintf("participant-%d-%s", i, strings.Repeat("n", 40))
				if _, _, err := agents.Add(t.Context(), r.Router.Ledger, agents.Update{Name: name}); err != nil {
					t.Fatal(err)
				}
				names = append(names, name)
			}
			th, err := threads.Create(t.Context(), r.Router.Ledger,
				threads.Draft{Session: "default", Name: "talk", Creator: "a", Participants: names})
			if err != nil {
				t.Fatal(err)
			}
			all := payloads()
			for i, payload := range all {
				posted, err := threads.Post(t.Context(), r.Router.Ledger, threads.PostDraft{
					Session: "default", Thread: th.ID, Sender: "a", Type: "note",
					Payload: func([]string) (json.RawMessage, error) { return json.RawMessage(payload), nil },
				})
				if err != nil {
					t.Fatal(i, err)
				}
				r.ids = append(r.ids, posted.MessageID)
			}
			args := strings.Replace(args, "THREAD", th.ID, 1)
			for at := 0; at < len(all); {
				answer := r.read(tool, args)
				from := at
				for ; at < len(all) && strings.Contains(answer, r.ids[at]); at++ {
					r.is(tool, answer, at)
				}
				if at == from {
					t.Fatalf("post %d did not come: %.300s", at, answer)
				}
			}
		})
	}
}

// TestListsAreBounded checks that answers of tools that only read are bounded, too, and that following their
// continuations yields the rest, each message once.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	all := payloads()
	r := newReader(t, all)
	db := enginetest.Plain(t, r.Router.Path())
	if _, err := db.Exec(`UPDATE agent_message SET status = 'failed', traced_status = 'failed', ended_at = created_at,
		error_message = 'no'`); err != nil {
		t.Fatal(err)
	}
	own := r.session
	r.session = r.tools("/mcp", "a", true, nil)
	for tool, args := range map[string]string{
		"get_sent_messages": `"source":"a"`, "query_message_history": `"target":"r"`, "get_dead_letters": `"limit":50`,
		"dead_letters_list": `"limit":1000`,
		"search_messages":   `"limit":100`, "messages_list": `"limit":500`,
	} {
		seen := map[int]bool{}
		for more := ""; ; {
			answer := r.read(tool, "{"+args+more+"}")
			n := len(seen)
			for i, id := range r.ids {
				if strings.Contains(answer, `"`+id+`"`) {
					if seen[i] {
						t.Errorf("%s has message %d twice", tool, i)
					}
					seen[i] = true
				}
			}
			var next struct {
				Continue string `json:"continue"`
				Next     int64  `json:"next"`
				Count    int    `json:"count"`
			}
			if err := json.Unmarshal([]byte(answer), &next); err != nil {
				t.Fatal(err)
			}
			if next.Continue == "" && next.Next == 0 || len(seen) == n {
				break
			}
			if more = fmt.Sprintf(`,"continue":%q`, next.Continue); next.Next != 0 {
				more = fmt.Sprintf(`,"before":%d`, next.Next)
			}
		}
		if len(seen) != len(all) {
			t.Errorf("%s shows %d of %d messages", tool, len(seen), len(all))
		}
	}
	if _, err := db.Exec(`UPDATE agent_message SET status = 'pending', traced_status = 'pending', ended_at = '',
		error_message = NULL`); err != nil {
		t.Fatal(err)
	}
	for tool, args := range map[string]string{
		"poll":  `{"recipient":"r","batch_size":1000}`,
		"sql":   `{"query":"SELECT message_id FROM agent_message, agents AS x, agents AS y"}`,
		"trace": `{"message_id":"` + r.ids[len(r.ids)-1] + `"}`, "why": `{"message_id":"` + r.ids[0] + `"}`,
	} {
		r.read(tool, args)
	}
	r.session = own
	if answer := r.read("list_unread", `{"limit":100}`); !strings.Contains(answer, "there is more to read: ") {
		t.Errorf("unread: %.300s", answer)
	}
}

// TestToolsAreCounted checks that the messages that a tool hands out are counted in bytes of their texts; for a long
// message, in bytes of the part shown.
func TestToolsAreCounted(t *testing.T) {
	t.Parallel()
	r := newReader(t, []string{`"short"`, `"` + strings.Repeat("x", 20_000) + `"`})
	r.read("get_messages", `{}`)
	r.read("get_messages", `{}`)
	const counted = `SELECT coalesce(max(sender || ' ' || message_type || ' ' || way || ' ' || messages), '') FROM context_use WHERE agent = 'r'`
	r.await("a note tool 2", counted)
	want.Equal(t, "bytes", r.value(`SELECT bytes FROM context_use`), fmt.Sprint(len("short")+commands.MaxPart))
}
