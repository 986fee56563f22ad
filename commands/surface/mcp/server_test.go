package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/commands/mail"
	"mailroom/commands/surface/surfacetest"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
)

// documents lists the tools of each vocabulary: those of its document, those added by Mailroom, and those for
// administrators.
var documents = map[string]struct{ document, ours, admin string }{
	"relay": {"send_message get_messages get_sent_messages list_groups get_dead_letters query_message_history", "",
		"get_dead_letters query_message_history"},
	"team": {"SendMessage", "team_messages team_members team_idle", ""},
	"coral": {"send_message wait_for_mentions",
		"register_agent list_agents create_thread add_participant remove_participant close_thread", ""},
	"ralph": {"send inbox ack", "", ""},
}

// toolNames returns the names of the tools that a client is offered.
func toolNames(t *testing.T, s *sdk.ClientSession) (list []string) {
	t.Helper()
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, tool.Name)
	}
	slices.Sort(list)
	return list
}

// TestTools checks that each endpoint serves exactly the tools of its document and those of Mailroom, and those for
// administrators only to administrators. Other tools cannot be called.
func TestTools(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "boss")
	for vocabulary, d := range documents {
		for _, admin := range []bool{false, true} {
			want := strings.Fields(d.document + " " + d.ours)
			if !admin {
				want = slices.DeleteFunc(want,
					func(name string) bool { return slices.Contains(strings.Fields(d.admin), name) })
			}
			slices.Sort(want)
			s := e.tools("/mcp/"+vocabulary, map[bool]string{false: "a", true: "boss"}[admin], admin, nil)
			surfacetest.Equal(t, fmt.Sprintf("tools of %s, admin %t,", vocabulary, admin),
				strings.Join(toolNames(t, s), " "), strings.Join(want, " "))
			for _, name := range strings.Fields(d.admin) {
				_, err := s.CallTool(t.Context(),
					&sdk.CallToolParams{Name: name, Arguments: json.RawMessage(`{"source":"a"}`)})
				if admin != (err == nil || !strings.Contains(err.Error(), "unknown tool")) {
					t.Errorf("calling %s, admin %t: %v", name, admin, err)
				}
			}
		}
	}
}

// TestAllTools checks that all tools together have distinct names, at /mcp and over pipes, and that the rights on the
// cards determine who is offered which tools.
func TestAllTools(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "boss")
	for _, admin := range []bool{false, true} {
		var want []string
		for _, d := range surfacetest.Catalogue().All() {
			card := d.Card()
			if !d.HereOnly && (admin || card.Rights == "self") {
				want = append(want, d.Name)
			}
		}
		slices.Sort(want)
		for _, name := range []string{"send_message", "coral_send_message", "coral_wait_for_mentions", "SendMessage",
			"send", "ralph_send"} {
			if !slices.Contains(want, name) {
				t.Errorf("%s is not among %q", name, want)
			}
		}
		overHTTP := toolNames(t, e.tools("/mcp", map[bool]string{false: "a", true: "boss"}[admin], admin, nil))
		s, _ := piped(t, NewServer(e.Env, "v1").offering(admin), "a", nil)
		surfacetest.Equal(t, fmt.Sprintf("tools, admin %t,", admin), strings.Join(overHTTP, " "),
			strings.Join(want, " "))
		if c := s.InitializeResult().Capabilities; c.Tools == nil || c.Tools.ListChanged || c.Resources == nil ||
			c.Resources.ListChanged || !c.Resources.Subscribe {
			t.Errorf("it promises what it does not do, or not what it does: %+v", c)
		}
		surfacetest.Equal(t, fmt.Sprintf("tools over pipes, admin %t,", admin), strings.Join(toolNames(t, s), " "),
			strings.Join(want, " "))
	}
}

// TestInstructions checks that the instructions are about questions if only signal is served, and otherwise about
// messages.
func TestInstructions(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a")
	for served, says := range map[string]string{"signal": "get_response", "relay": "Read your messages",
		"signal relay": "Read your messages", "": "Read your messages"} {
		s, _ := piped(t, NewServer(e.Env, "v1").offering(false, strings.Fields(served)...), "a", nil)
		if got := s.InitializeResult().Instructions; !strings.Contains(got, says) {
			t.Errorf("the instructions of %q: %s", served, got)
		}
	}
}

// TestToolSchemas checks that the input and output schemas of every tool are usable JSON Schemas.
func TestToolSchemas(t *testing.T) {
	t.Parallel()
	s := newEndpoints(t, "boss").tools("/mcp", "boss", true, nil)
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		for what, schema := range map[string]any{"input": tool.InputSchema, "output": tool.OutputSchema} {
			text, err := json.Marshal(schema)
			if err != nil {
				t.Fatal(err)
			}
			var read jsonschema.Schema
			if err := json.Unmarshal(text, &read); err != nil || read.Type != "object" {
				t.Errorf("%s: %s schema %s: %v", tool.Name, what, text, err)
			}
			if _, err := read.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true}); err != nil {
				t.Errorf("%s: %s schema: %v", tool.Name, what, err)
			}
			if what == "input" {
				for name, p := range read.Properties {
					if p.Description == "" {
						t.Errorf("%s: %s has no description", tool.Name, name)
					}
				}
			}
		}
	}
}

// TestToolFailures checks that a failure is a result for the model in the form of document 004, without content that
// a client would validate against the output schema.
func TestToolFailures(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	s := e.tools("/mcp/relay", "a", false, nil)
	for _, c := range []struct {
		tool, args string
		code       orchestrator.Code
		says       string // in the message or the hint
	}{
		{"send_message", `{"target":"c","message_type":"PING","message":"hi"}`, orchestrator.UnknownRecipient, "c"},
		{"send_message", `{"target":"b","message_type":"PING","message":"hi","colour":"red"}`,
			orchestrator.InvalidParams, "colour"},
		{"send_message", `{"target":"b","message_type":"PING"}`, orchestrator.InvalidParams, "message"},
		{"send_message", `{"target":"b","message_type":"PONGO","message":"hi"}`, orchestrator.InvalidParams,
			"HANDSHAKE"},
		{"send_message", `{"target":"b","message_type":"PING","message":7}`, orchestrator.InvalidParams, "message"},
		{"send_message", `{"target":"b","message_type":"PING","message":"hi","payload":[1]}`,
			orchestrator.InvalidParams, "object"},
		{"send_message", `{"source":"b","target":"a","message_type":"PING","message":"hi"}`,
			orchestrator.PermissionDenied, "b"},
		{"get_messages", `{"sessionId":"b"}`, orchestrator.PermissionDenied, "b"},
		{"get_messages", `{"limit":101}`, orchestrator.InvalidParams, "100"},
	} {
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: c.tool, Arguments: json.RawMessage(c.args)})
		if err != nil || !r.IsError || r.StructuredContent != nil || len(r.Content) != 1 {
			t.Errorf("%s %s: %+v %v", c.tool, c.args, r, err)
			continue
		}
		text := r.Content[0].(*sdk.TextContent).Text
		var failure struct {
			Success              *bool
			Error                orchestrator.Code
			Message, Hint, Extra string
		}
		if err := json.Unmarshal([]byte(text), &failure); err != nil || failure.Success == nil || *failure.Success ||
			failure.Error != c.code || !strings.Contains(failure.Message+failure.Hint, c.says) {
			t.Errorf("%s %s: %s; want %s and %q", c.tool, c.args, text, c.code, c.says)
		}
	}
	if text := done(t, s, "list_groups", ""); !strings.Contains(text, `"all"`) {
		t.Errorf("list_groups without arguments: %s", text)
	}
}

// TestToolParts checks that a model gets a long message in parts, and that an HTTP client gets it whole.
func TestToolParts(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a")
	env := e.Env
	env.Catalogue = commands.NewCatalogue(append(surfacetest.Catalogue().All(), mail.Definitions()...))
	tools := NewServer(env, "v1")
	e.serve(env, tools.Handlers())
	s, _ := piped(t, tools.offering(false, "relay"), "a", nil)
	for size, part := range map[int]string{10_000: "",
		11_000: "characters 0 to 7999 of 11000; to read the next part, call get_message with message_id %s and offset 8000"} {
		text := strings.Repeat("x", size)
		var sent struct {
			ID string `json:"messageId"`
		}
		say := done(t, s, "send_message", `{"target":"a","message_type":"STATUS","message":"`+text+`"}`)
		if err := json.Unmarshal([]byte(say), &sent); err != nil {
			t.Fatal(err)
		}
		params := fmt.Sprintf(`{"message_id":%q}`, sent.ID)
		got := done(t, s, "get_message", params)
		want := `"text":"` + text + `"`
		if part != "" {
			want = `"text":"` + text[:8000] + `"`
			part = fmt.Sprintf(`"part":"`+part+`"`, sent.ID)
		}
		if !strings.Contains(got, part) || part == "" && strings.Contains(got, `"part"`) ||
			!strings.Contains(got, want) {
			t.Errorf("a message of %d: %s; want %s and all of the part", size, got, part)
		}
		if status, whole := e.Run(e.Token("a", false), "get_message", params); status != 200 ||
			!strings.Contains(whole, `"text":"`+text+`"`) || strings.Contains(whole, `"part"`) {
			t.Errorf("a message of %d over HTTP: %d %s", size, status, whole)
		}
	}
	// Control characters, which models do not see, are long in JSON.
	say := done(t, s, "send_message", `{"target":"a","message_type":"STATUS","message":"`+
		strings.Repeat(`\u001b`, 3000)+`read this"}`)
	_, id, _ := strings.Cut(say, `"messageId":"`)
	id, _, _ = strings.Cut(id, `"`)
	if got := done(t, s, "get_message", fmt.Sprintf(`{"message_id":%q}`, id)); !strings.Contains(got,
		`"text":"read this"`) || len(got) > 2000 {
		t.Errorf("a message of control characters: %s", got)
	}
}

// TestToolProgress checks that a client that asks for progress is notified that its call still waits, over both
// transports.
func TestToolProgress(t *testing.T) {
	t.Parallel()
	for _, overHTTP := range []bool{false, true} {
		e := newEndpoints(t, "a", "b")
		tools := NewServer(e.Env, "v1")
		tools.every = time.Microsecond
		e.serve(e.Env, tools.Handlers())
		heard := make(chan *sdk.ProgressNotificationParams, 100)
		o := &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context,
			r *sdk.ProgressNotificationClientRequest) {
			select {
			case heard <- r.Params:
			default:
			}
		}}
		var s *sdk.ClientSession
		if overHTTP {
			s = e.tools("/mcp/relay", "a", false, o)
		} else {
			s, _ = piped(t, tools.offering(false, "relay"), "a", o)
		}
		answered := make(chan string, 1)
		go func() {
			p := &sdk.CallToolParams{Name: "get_messages", Arguments: json.RawMessage(`{"wait_seconds":50}`)}
			p.SetProgressToken("token")
			r, err := s.CallTool(t.Context(), p)
			if err != nil {
				answered <- err.Error()
				return
			}
			answered <- r.Content[0].(*sdk.TextContent).Text
		}()
		first, second := <-heard, <-heard
		if first.ProgressToken != "token" || second.Progress <= first.Progress || first.Message == "" {
			t.Errorf("over HTTP %t: progress %+v, then %+v", overHTTP, first, second)
		}
		done(t, e.tools("/mcp/relay", "b", false, nil), "send_message",
			`{"target":"a","message_type":"PING","message":"hi"}`)
		if text := <-answered; !strings.Contains(text, `"message":"hi"`) {
			t.Errorf("over HTTP %t: the answer is %s", overHTTP, text)
		}
	}
}

// TestToolTraceContext checks that the client's trace continues in Mailroom's spans.
func TestToolTraceContext(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	overPipes, _ := piped(t, NewServer(e.Env, "v1").offering(false, "relay"), "a", nil)
	for i, s := range []*sdk.ClientSession{e.tools("/mcp/relay", "a", false, nil), overPipes} {
		for tool, args := range map[string]string{
			"send_message": `{"target":"b","message_type":"PING","message":"hi"}`, "list_groups": `{}`,
			"get_messages": `{"sessionId":"b"}`, // refused, and traced
		} {
			trace, span := fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e47%02x", i), "00f067aa0ba902b7"
			if _, err := s.CallTool(t.Context(), &sdk.CallToolParams{
				Name: tool, Arguments: json.RawMessage(args),
				Meta: sdk.Meta{"traceparent": "00-" + trace + "-" + span + "-01"},
			}); err != nil {
				t.Fatal(err)
			}
			e.await(span+" a",
				`SELECT parent_span_id || ' ' || caller FROM command_trace WHERE name = ? AND trace_id = ?`, tool,
				trace)
		}
	}
}

// TestManyCopies checks that a short message to many agents is shown whole, with as many of its copies as hosts show,
// and the number of the others.
func TestManyCopies(t *testing.T) {
	t.Parallel()
	names := []string{"a"}
	for i := range 100 {
		names = append(names, fmt.Sprint("member", i))
	}
	e := newEndpoints(t, names...)
	sent, err := messages.Send(t.Context(), e.Router.Ledger,
		orchestrator.Draft{Sender: "a", Recipient: "all", Type: "note", Payload: json.RawMessage(`"short"`)})
	if err != nil {
		t.Fatal(err)
	}
	env := e.Env
	env.Catalogue = commands.NewCatalogue(mail.Definitions())
	s, _ := piped(t, stdioServer(env, "a"), "a", nil)
	text := done(t, s, "get_message", `{"message_id":"`+sent.MulticastID+`"}`)
	var r mail.GetMessageResult
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if r.Says != "" || r.Message.Text != "short" || len(r.Copies) == 0 || len(r.Copies)+r.CopiesLeftOut != len(names) ||
		len(text) > 12_000 {
		t.Errorf("%d bytes, %d copies, %d left out: %.500s", len(text), len(r.Copies), r.CopiesLeftOut, text)
	}
}
