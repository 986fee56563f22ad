package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// read reads a resource and returns "" if it is refused.
func read(t *testing.T, s *sdk.ClientSession, uri string) string {
	t.Helper()
	r, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
	if err != nil {
		return ""
	}
	if len(r.Contents) != 1 || r.Contents[0].URI != uri || r.Contents[0].MIMEType != "application/json" ||
		!json.Valid([]byte(r.Contents[0].Text)) {
		t.Errorf("%s: %+v", uri, r.Contents)
	}
	return r.Contents[0].Text
}

// messageID returns the message ID in the answer of a send.
func messageID(t *testing.T, answer string) string {
	t.Helper()
	var sent struct{ MessageID, ThreadID, ID string }
	if err := json.Unmarshal([]byte(answer), &sent); err != nil || sent.MessageID+sent.ThreadID+sent.ID == "" {
		t.Fatalf("%s: %v", answer, err)
	}
	return sent.MessageID + sent.ThreadID + sent.ID
}

// TestResources checks that inboxes, threads and traces can be read by those concerned, and that reading changes
// nothing.
func TestResources(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b", "c", "boss")
	a, b, c := e.tools("/mcp", "a", false, nil), e.tools("/mcp", "b", false, nil), e.tools("/mcp", "c", false, nil)
	boss := e.tools("/mcp", "boss", true, nil)
	templates, err := a.ListResourceTemplates(t.Context(), nil)
	if err != nil || len(templates.ResourceTemplates) != 3 {
		t.Fatalf("templates %+v: %v", templates, err)
	}
	id := messageID(t,
		done(t, a, "send_message", `{"target":"b","message_type":"PING","message":"for b only","threadId":"talk"}`))
	// c names the thread, too, and another with the same text in it. That does not make c a participant.
	done(t, c, "send_message", `{"target":"c","message_type":"PING","message":"from c","threadId":"talk"}`)
	done(t, c, "get_messages", `{}`)
	for _, r := range []struct {
		who      string
		s        *sdk.ClientSession
		uri      string
		has, not string // "" for has means refused
	}{
		{"b", b, "mailroom://inbox/b", "for b only", "from c"},
		{"b", b, "mailroom://inbox/B", "for b only", "from c"},
		{"boss", boss, "mailroom://inbox/b", "for b only", "from c"},
		{"a", a, "mailroom://inbox/b", "", ""},
		{"c", c, "mailroom://inbox/b", "", ""},
		{"a", a, "mailroom://inbox/a", `"messages":[]`, "for b"},
		{"a", a, "mailroom://thread/talk", "for b only", "from c"},
		{"b", b, "mailroom://thread/talk", "for b only", "from c"},
		{"c", c, "mailroom://thread/talk", "from c", "for b only"},
		{"boss", boss, "mailroom://thread/talk", "for b only", "nothing"},
		{"a", a, "mailroom://thread/none", "", ""},
		{"boss", boss, "mailroom://thread/none", "", ""},
		{"a", a, "mailroom://trace/" + id, "created", "from c"},
		{"b", b, "mailroom://trace/" + id, "created", "from c"},
		{"boss", boss, "mailroom://trace/" + id, "created", "from c"},
		{"c", c, "mailroom://trace/" + id, "", ""},
		{"c", c, "mailroom://trace/msg-none", "", ""},
		{"boss", boss, "mailroom://trace/", "", ""},
		{"boss", boss, "mailroom://nothing/b", "", ""},
	} {
		if got := read(t, r.s, r.uri); (r.has == "") != (got == "") || !strings.Contains(got, r.has) ||
			(r.not != "" && strings.Contains(got, r.not)) {
			t.Errorf("%s reads %s: %s; want %q and not %q", r.who, r.uri, got, r.has, r.not)
		}
	}
	if text := done(t, b, "get_messages", `{}`); !strings.Contains(text, "for b only") {
		t.Errorf("b's messages after all that: %s", text)
	}
}

// TestThreadResource checks that participants of a thread can read all its posts, mentioned or not, for as long as
// they take part.
func TestThreadResource(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b", "c")
	a, b, c := e.tools("/mcp/coral", "a", false, nil), e.tools("/mcp/coral", "b", false, nil),
		e.tools("/mcp/coral", "c", false, nil)
	r, err := a.CallTool(t.Context(),
		&sdk.CallToolParams{Name: "create_thread",
			Arguments: json.RawMessage(`{"threadName":"x","participantIds":["b"]}`)})
	if err != nil || r.IsError {
		t.Fatalf("%+v %v", r, err)
	}
	thread := r.StructuredContent.(map[string]any)["threadId"].(string)
	uri := "mailroom://thread/" + thread
	if got := read(t, b, uri); !strings.Contains(got, `"messages":[]`) {
		t.Errorf("a new thread: %s", got)
	}
	done(t, a, "send_message", `{"threadId":"`+thread+`","content":"for nobody in particular"}`)
	if got := read(t, b, uri); !strings.Contains(got, "for nobody in particular") {
		t.Errorf("b, not mentioned, reads %s", got)
	}
	if got := read(t, c, uri); got != "" {
		t.Errorf("c, who takes no part, reads %s", got)
	}
	done(t, a, "remove_participant", `{"threadId":"`+thread+`","participantId":"b"}`)
	if got := read(t, b, uri); got != "" {
		t.Errorf("b, who takes no part any more, reads %s", got)
	}
}
