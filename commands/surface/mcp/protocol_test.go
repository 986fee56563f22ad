package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/commands/mail"
	"mailroom/commands/surface"
	"mailroom/commands/surface/surfacetest"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/transport"
)

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// stdioServer returns a server as `mailroom mcp` creates it for an agent.
func stdioServer(env commands.Env, agent string, vocabularies ...string) *offered {
	tools := NewServer(env, "v1")
	env.Caller = commands.Caller{Name: agent, Session: "default"}
	tools.arrival = &arrival{env: env}
	return tools.offering(false, vocabularies...)
}

// rawSession is a client that writes its lines itself.
type rawSession struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Scanner
}

func rawly(t *testing.T, s *offered, agent string) *rawSession {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer out.Close()
		s.serveStream(context.WithoutCancel(t.Context()), commands.Caller{Name: agent, Session: "default"}, in, out)
	}()
	t.Cleanup(func() {
		fromServer.Close()
		toServer.Close()
		<-ended
	})
	r := &rawSession{t, toServer, bufio.NewScanner(fromServer)}
	r.out.Buffer(nil, 1<<20)
	return r
}

func (r *rawSession) say(line string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, line+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

// next returns the next line of the server.
func (r *rawSession) next() string {
	r.t.Helper()
	if !r.out.Scan() {
		r.t.Fatalf("the server says no more: %v", r.out.Err())
	}
	return r.out.Text()
}

// refusals are invalid requests, each with the expected code.
var refusals = []struct {
	method, params string
	code           int
}{
	{"nothing/of/the/kind", `{}`, -32601},
	{"prompts/list", `{}`, -32601}, // none are declared
	{"prompts/get", `{"name":"x"}`, -32602},
	{"completion/complete", `{}`, -32602},
	{"tools/call", `{"name":"nope"}`, -32602},
	{"tools/call", `[]`, -32602},
	{"tools/list", `7`, -32602},
	{"resources/read", `{"uri":"mailroom://inbox/b"}`, -32602}, // the inbox of another agent
	{"resources/read", `{"uri":"mailroom://thread/none"}`, -32602},
	{"resources/read", `{"uri":"mailroom://trace/none"}`, -32602},
	{"resources/subscribe", `{"uri":"mailroom://thread/none"}`, -32602},
	{"resources/subscribe", `{"uri":"mailroom://inbox/b"}`, -32602},
}

// TestErrorsHaveCodes checks that every refusal has a JSON-RPC code other than 0.
func TestErrorsHaveCodes(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	s := rawly(t, stdioServer(e.Env, "a"), "a")
	s.say(`{"jsonrpc":"2.0","id":9,"method":"tools/list"}`) // before initialize
	if got := s.next(); !strings.Contains(got, `"code":-32600`) {
		t.Errorf("before initialize: %s", got)
	}
	s.say(hello)
	s.next()
	s.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	token := e.Token("a", false)
	for i, c := range refusals {
		call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, i+1, c.method, c.params)
		s.say(call)
		_, overHTTP := e.post(token, "/mcp", call)
		for way, got := range map[string]string{"stdio": s.next(), "HTTP": overHTTP} {
			want := c.code
			if way == "HTTP" && c.method == "resources/subscribe" {
				want = -32601 // nobody could be notified
			}
			if code := errorCode(got); code == 0 || code != want && !(c.method == "resources/read" && code == -32002) {
				t.Errorf("%s over %s: %s; want the code %d", call, way, got, want)
			}
		}
	}
}

// errorCode returns the code of the error in an answer, or in an event that contains an answer.
func errorCode(answer string) int {
	for line := range strings.Lines(answer) {
		line = strings.TrimPrefix(line, "data: ")
		var read struct{ Error struct{ Code int } }
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &read) == nil {
			return read.Error.Code
		}
	}
	return 0
}

// TestCalledOffIsNotAnswered checks that a call that its client has cancelled gets no answer and has taken nothing.
func TestCalledOffIsNotAnswered(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	s := rawly(t, stdioServer(e.Env, "a", "coral"), "a")
	s.say(hello)
	s.next()
	s.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for i, id := range []string{`7`, `"seven"`} {
		s.say(`{"jsonrpc":"2.0","id":` + id +
			`,"method":"tools/call","params":{"name":"wait_for_mentions","arguments":{"timeoutMs":60000,"waitFor":"b"}}}`)
		e.await("1", `SELECT count(*) FROM waits`)
		s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		e.await("0", `SELECT count(*) FROM waits`)
		ping := fmt.Sprintf(`"id":%d`, 100+i)
		s.say(`{"jsonrpc":"2.0",` + ping + `,"method":"ping"}`)
		if got := s.next(); !strings.Contains(got, ping) {
			t.Errorf("after the call %s was called off the server says %s", id, got)
		}
	}
	// Cancelling an answered or unknown request has no effect.
	s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":100}}`)
	s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`)
	s.say(`{"jsonrpc":"2.0","id":100,"method":"ping"}`)
	if got := s.next(); !strings.Contains(got, `"id":100`) {
		t.Errorf("a number that is used again: %s", got)
	}
}

// TestInboxSubscription checks that a subscriber to an inbox is notified of arrivals from any process, until the
// subscription ends.
func TestInboxSubscription(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	b := e.tools("/mcp/relay", "b", false, nil)
	send := func(text string) {
		t.Helper()
		done(t, b, "send_message", `{"target":"a","message_type":"PING","message":"`+text+`"}`)
	}
	send("there before") // does not count as an arrival
	s := rawly(t, stdioServer(e.Env, "a", "relay"), "a")
	ask := func(want, method, params string) { // checks the next line of the server
		t.Helper()
		s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
		if got := s.next(); !strings.Contains(got, `"id":1`) || !strings.Contains(got, want) {
			t.Errorf("%s: %s; want %s", method, got, want)
		}
	}
	s.say(hello)
	if got := s.next(); !strings.Contains(got, `"subscribe":true`) {
		t.Errorf("it does not say that it can: %s", got)
	}
	s.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	const uri, getMessages = `{"uri":"` + inboxURI + `a"}`, `{"name":"get_messages","arguments":{}}`
	for range 2 { // a second subscription has no effect
		ask(`"result"`, "resources/subscribe", uri)
	}
	for _, text := range []string{"first", "second"} {
		send(text)
		if got := s.next(); !strings.Contains(got, "notifications/resources/updated") || !strings.Contains(got, uri) {
			t.Errorf("of an arrival it says %s", got)
		}
		ask(text, "resources/read", uri)
	}
	ask("second", "tools/call", getMessages)
	ask(`"result"`, "resources/unsubscribe", uri)
	send("third")
	ask("third", "tools/call", getMessages)
}

// TestInboxSubscriptionOfTheNewestProtocol checks subscriptions with a client whose library does not report when a
// subscription is active.
func TestInboxSubscriptionOfTheNewestProtocol(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	b := e.tools("/mcp/relay", "b", false, nil)
	heard := make(chan string, 1)
	newest, _ := piped(t, stdioServer(e.Env, "a", "relay"), "a", &sdk.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) {
			select {
			case heard <- r.Params.URI:
			default:
			}
		},
	})
	if err := newest.Subscribe(t.Context(), &sdk.SubscribeParams{URI: inboxURI + "a"}); err != nil {
		t.Fatal(err)
	}
	for {
		done(t, b, "send_message", `{"target":"a","message_type":"PING","message":"again"}`)
		select {
		case got := <-heard:
			if got != inboxURI+"a" {
				t.Errorf("it is told of %s", got)
			}
			return
		default:
		}
	}
}

// TestAgentArrives checks that an agent is registered and joins its session when its host connects.
func TestAgentArrives(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "b")
	piped(t, stdioServer(e.Env, "newcomer", "relay"), "newcomer", nil)
	if got := e.value(`SELECT agent || ' ' || session_id || ' ' || status FROM presence
		WHERE agent = 'newcomer'`); got != "newcomer default working" {
		t.Errorf("its presence is %q", got)
	}
	b := e.tools("/mcp/relay", "b", false, nil)
	done(t, b, "send_message", `{"target":"newcomer","message_type":"PING","message":"welcome"}`)
}

// TestAdviceForAgents checks that the error of a failed call contains advice in terms of the agent's tools.
func TestAdviceForAgents(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "builder", "tester")
	for _, c := range []struct{ vocabulary, tool, args, says, not string }{
		{"relay", "send_message", `{"target":"buidler","message_type":"PING","message":"x"}`,
			"Did you mean builder? To list the agents, call list_groups. If buidler will be added later, send the message again with `hold_unknown`", "mailroom agent add"},
		{"team", "SendMessage", `{"to":"tomorrow","message":"x"}`,
			"To list the agents, call team_members. If tomorrow will be added later, send the message again with `hold_unknown`",
			"mailroom agent add"},
		{"coral", "create_thread", `{"threadName":"x","participantIds":["nobody"]}`,
			"To list the agents, call list_agents. Only the person", "hold_unknown"},
		{"", "send", `{"recipient":"nobody","message_type":"x"}`, "hold_unknown", "mailroom agent add"},
		{"", "send_message", `{"threadId":"t","content":"x","mentions":["tester"]}`,
			"These parameters belong to coral_send_message; call that tool instead", "mailroom"},
		{"", "send_message", `{"content":"x"}`, "coral_send_message", "mailroom"},
		{"", "send", `{"to":"tester","type":"question","payload":{}}`, "ralph_send", "mailroom"},
		{"relay", "send_message", `{"threadId":"t","content":"x"}`, "content", "coral"}, // coral is not served there
	} {
		s, _ := piped(t, stdioServer(e.Env, "builder", strings.Fields(c.vocabulary)...), "builder", nil)
		if text, failed := called(t, s, c.tool, c.args); !failed || !strings.Contains(text, c.says) ||
			strings.Contains(text, c.not) {
			t.Errorf("%s %s: %s; want %q and not %q", c.tool, c.args, text, c.says, c.not)
		}
	}
	s, _ := piped(t, stdioServer(e.Env, "builder"), "builder", nil)
	_, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "wait_for_mentions", Arguments: json.RawMessage(`{}`)})
	if err == nil || !strings.Contains(err.Error(), "on this server, the tool is named coral_wait_for_mentions") {
		t.Errorf("a tool of coral by its document's name: %v", err)
	}
}

// TestAdviceWithoutAShell checks that hints over MCP and HTTP name what is offered to the caller, and omit what only
// a shell can do. If nothing is left, the hint addresses the person.
func TestAdviceWithoutAShell(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "builder", "full")
	env := e.Env
	env.Catalogue = commands.NewCatalogue(append(surfacetest.Catalogue().All(), mail.Definitions()...))
	e.serve(env, nil)
	if _, err := e.Router.SetSetting(t.Context(), "backlog.limit", "1"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ tool, args, agent, administrator string }{
		{
			"get_message", `{"message_id":"m"}`, `"hint":"To list the messages that an agent sent or received, run search_messages"`,
			`"hint":"To list the messages that an agent sent or received, run search_messages"`,
		},
		{
			"send", `{"recipient":"builders","message_type":"x"}`,
			`"hint":"Tell the person who runs you: To add a member, run ` + "`mailroom group add builders AGENT`" + `"`,
			`"hint":"To add a member, run group_add (name: builders, members: AGENT)"`,
		},
		{"send", `{"recipient":"full","message_type":"x"}`, `"hint":"Try again later"`,
			`"hint":"Try again later. To see the backlog, run status (the limit is the setting backlog.limit)"`},
		{"send", `{"recipient":"role:x","message_type":"x"}`, `"hint":"No agent has a role yet"`,
			`"hint":"No agent has a role yet. To set a role, run agent_add (name: NAME, role: x)"`},
		{"release", `{}`, `"hint":"Give either ` + "`message_id` or `all`" + `, not both"`,
			`"hint":"Give either ` + "`message_id` or `all`" + `, not both"`},
		{"read_thread", `{"thread_id":"t"}`, `"hint":"To list your threads, run list_threads. To join another thread, ask`,
			`"hint":"To list your threads, run list_threads. To join another thread, ask`},
	} {
		for _, admin := range []bool{false, true} {
			want := c.agent
			if admin {
				want = c.administrator
			}
			s, _ := piped(t, NewServer(env, "v1").offering(admin), "builder", nil)
			called(t, s, "send", `{"recipient":"full","message_type":"x"}`)
			if text, failed := called(t, s, c.tool, c.args); !failed || !strings.Contains(text, want) {
				t.Errorf("the tool %s %s, administrator %t: %s; want %s", c.tool, c.args, admin, text, want)
			}
			if status, text := e.Run(e.Token("builder", admin), c.tool, c.args); status < 400 ||
				!strings.Contains(text, want) {
				t.Errorf("over HTTP %s %s, administrator %t: %d %s; want %s", c.tool, c.args, admin, status, text, want)
			}
		}
	}
}

// TestAdviceWhereLessIsOffered checks that a caller who cannot follow a hint is told who can, or gets no hint if the
// command would only show something.
func TestAdviceWhereLessIsOffered(t *testing.T) {
	t.Parallel()
	e := &endpoints{surfacetest.On(t, surfacetest.OpenRouter(t, ledger.Options{
		Path: enginetest.Place(t),
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{},
			"webhook": new(transport.Webhook)},
	}))}
	e.serve(e.Env, nil)
	if _, _, err := agents.Add(t.Context(), e.Router.Ledger, agents.Update{Name: "builder"}); err != nil {
		t.Fatal(err)
	}
	status, text := e.Run(e.Token("builder", true), "agent_add",
		`{"name":"hook","deliver":"webhook:http://127.0.0.1/x"}`)
	const allow = "To allow the address, run `mailroom agent add hook --deliver webhook:http://127.0.0.1/x --allow-private`"
	if status != 400 ||
		!strings.Contains(text, `"hint":"Only a person on the daemon's machine can do that. `+allow+`"`) {
		t.Errorf("a private address over HTTP: %d %s", status, text)
	}
	onTheMachine := surface.NewOffer(surfacetest.Catalogue(), commands.Caller{Admin: true})
	hint := onTheMachine.WithoutShell(&orchestrator.Error{Code: orchestrator.InvalidParams,
		Hint: allow}).(*orchestrator.Error).Hint
	if hint != "To allow the address, run agent_add (name: hook, deliver: webhook:http://127.0.0.1/x, allow_private: true)" {
		t.Errorf("a private address over MCP on the machine itself: %s", hint)
	}
	env := e.Env
	env.Catalogue = commands.NewCatalogue(append(surfacetest.Catalogue().All(), mail.Definitions()...))
	s, _ := piped(t, NewServer(env, "v1").offering(false, "relay"), "builder", nil)
	if text, failed := called(t, s, "get_message", `{"message_id":"m"}`); !failed ||
		!strings.Contains(text, "no message") || strings.Contains(text, "hint") {
		t.Errorf("an id that is mistyped, where nothing finds one: %s", text)
	}
}
