package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// model acts as the server of a host's model: the test gets each request, and determines the model's answer.
type model struct {
	t        *testing.T
	server   *httptest.Server
	requests chan *request
	turns    atomic.Int64 // answered turns
	dialect
}

// dialect describes the protocol between a maker's hosts and models.
type dialect struct {
	path     string                                          // of requests to the model
	said     string                                          // the key of the conversation in a request
	answered func(turn int, act action) []map[string]any     // the events of an answer
	tools    func(request map[string]any) (names [][]string) // offered to the model, with the namespace of each or ""
}

// action is an answer of a model: a text or, if tool is set, a call of that tool.
type action struct {
	text      string
	tool      []string // namespace and name
	arguments map[string]any
	also      *action // another call in the same answer
	fails     bool    // the server fails
}

// request is a request to the model, which waits for its answer.
type request struct {
	*model
	body   map[string]any
	answer chan action
}

// newModel starts a model.
func newModel(t *testing.T, d dialect) *model {
	m := &model{t: t, requests: make(chan *request), dialect: d}
	m.server = httptest.NewServer(m)
	t.Cleanup(m.server.Close)
	return m
}

// ServeHTTP passes a request to the test, and waits for its answer. A request that offers the model no tools is not
// part of the conversation, but an internal request of the host, such as for a title.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost || r.URL.Path != m.path {
		http.Error(w, "{}", http.StatusNotFound)
		return
	}
	req := &request{model: m, answer: make(chan action, 1)}
	if err := json.Unmarshal(body, &req.body); err != nil {
		http.Error(w, "{}", http.StatusBadRequest)
		return
	}
	act := action{text: "Fine."}
	if len(m.tools(req.body)) > 0 {
		select {
		case m.requests <- req:
		case <-r.Context().Done(): // the host was killed
			return
		}
		select {
		case act = <-req.answer:
		case <-r.Context().Done():
			return
		}
	}
	if act.fails {
		http.Error(w, `{"type":"error","error":{"type":"invalid_request_error","message":"No."}}`,
			http.StatusBadRequest)
		return
	}
	turn := int(m.turns.Add(1))
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range m.answered(turn, act) {
		data, _ := json.Marshal(event)
		if event["type"] != nil {
			fmt.Fprintf(w, "event: %s\n", event["type"])
		}
		fmt.Fprintf(w, "data: %s\n\n", data)
	}
}

// says answers a request with a text, which ends the model's turn.
func (r *request) says(text string) { r.answer <- action{text: text} }

// fails answers a request with an error, after which the host does not retry.
func (r *request) fails() { r.answer <- action{fails: true} }

// calls answers a request with the call of a tool.
func (r *request) calls(tool string, arguments map[string]any) {
	r.t.Helper()
	r.answer <- r.call(tool, arguments)
}

// callsBoth answers a request with two calls of a tool.
func (r *request) callsBoth(tool string, first, second map[string]any) {
	r.t.Helper()
	act, also := r.call(tool, first), r.call(tool, second)
	act.also = &also
	r.answer <- act
}

func (r *request) call(tool string, arguments map[string]any) action {
	r.t.Helper()
	for _, offered := range r.tools(r.body) {
		if offered[1] == tool {
			return action{tool: offered, arguments: arguments}
		}
	}
	r.t.Fatalf("the model is not offered the tool %s, only %q", tool, r.tools(r.body))
	return action{}
}

// text returns the complete conversation in the request, as one text.
func (r *request) text() string {
	var b strings.Builder
	var collect func(v any)
	collect = func(v any) {
		switch v := v.(type) {
		case string:
			// Codex escapes a text that delays the end of a turn; Gemini and Qwen escape all output of hooks.
			if strings.HasPrefix(v, "<hook_prompt ") || strings.Contains(v, "<hook_context>") ||
				strings.Contains(v, html.EscapeString(frameBegins)) {
				v = html.UnescapeString(v)
			}
			b.WriteString(v + "\n")
		case []any:
			for i, item := range v {
				if i > 0 && answersAgain(v[i-1], item) {
					continue
				}
				collect(item)
			}
		case map[string]any:
			for _, item := range v {
				collect(item)
			}
		}
	}
	collect(r.body[r.said])
	return b.String()
}

// answersAgain reports whether a part of a request repeats the tool result before it: Gemini CLI restores each result
// twice when it resumes a session.
func answersAgain(before, part any) bool {
	answer, _ := part.(map[string]any)
	return answer["functionResponse"] != nil && reflect.DeepEqual(before, part)
}

const frameBegins, frameEnds = "<mailroom-message ", `</mailroom-message mark="`

// shows checks that the model has been shown exactly these messages so far, each once and in its frame.
func (r *request) shows(ids ...string) {
	r.t.Helper()
	text := r.text()
	for _, id := range ids {
		if n := strings.Count(text, frameBegins+`id="`+id+`"`); n != 1 {
			r.t.Errorf("the model is shown the message %s %d times", id, n)
		}
	}
	if begun, ended := strings.Count(text, frameBegins), strings.Count(text, frameEnds); begun != len(ids) ||
		ended != len(ids) {
		r.t.Errorf("the model is shown %d messages, of which %d end; want %d", begun, ended, len(ids))
	}
}

// anthropic is the dialect of Claude Code.
var anthropic = dialect{
	path: "/v1/messages", said: "messages",
	tools: func(request map[string]any) (names [][]string) {
		offered, _ := request["tools"].([]any)
		for _, tool := range offered {
			name, _ := tool.(map[string]any)["name"].(string)
			names = append(names, []string{"", name})
		}
		return names
	},
	answered: func(turn int, act action) []map[string]any {
		events := []map[string]any{{"type": "message_start", "message": map[string]any{
			"id": fmt.Sprint("msg_", turn), "type": "message", "role": "assistant", "model": "claude-opus-5-5",
			"content":     []any{},
			"stop_reason": nil, "stop_sequence": nil, "usage": map[string]any{"input_tokens": 10, "output_tokens": 1},
		}}}
		reason := "end_turn"
		for i, at := 0, &act; at != nil; i, at = i+1, at.also {
			block, delta := map[string]any{"type": "text", "text": ""},
				map[string]any{"type": "text_delta", "text": at.text}
			if at.tool != nil {
				reason = "tool_use"
				id := fmt.Sprint("toolu_", turn, strings.Repeat("b", i))
				block = map[string]any{"type": "tool_use", "id": id, "name": at.tool[1], "input": map[string]any{}}
				arguments, _ := json.Marshal(at.arguments)
				delta = map[string]any{"type": "input_json_delta", "partial_json": string(arguments)}
			}
			events = append(events,
				map[string]any{"type": "content_block_start", "index": i, "content_block": block},
				map[string]any{"type": "content_block_delta", "index": i, "delta": delta},
				map[string]any{"type": "content_block_stop", "index": i})
		}
		return append(events,
			map[string]any{"type": "message_delta",
				"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil},
				"usage": map[string]any{"output_tokens": 5}},
			map[string]any{"type": "message_stop"})
	},
}

// openai is the dialect of Codex.
var openai = dialect{
	path: "/v1/responses", said: "input",
	tools: func(request map[string]any) (names [][]string) {
		offered, _ := request["tools"].([]any)
		for _, entry := range offered {
			tool := entry.(map[string]any)
			name, _ := tool["name"].(string)
			within, grouped := tool["tools"].([]any)
			if !grouped {
				names = append(names, []string{"", name})
			}
			for _, inner := range within {
				names = append(names, []string{name, fmt.Sprint(inner.(map[string]any)["name"])})
			}
		}
		return names
	},
	answered: func(turn int, act action) []map[string]any {
		id := fmt.Sprint("resp_", turn)
		events := []map[string]any{{"type": "response.created", "response": map[string]any{"id": id}}}
		for i, at := 0, &act; at != nil; i, at = i+1, at.also {
			item := map[string]any{
				"type": "message", "role": "assistant", "id": fmt.Sprint("msg_", turn),
				"content": []any{map[string]any{"type": "output_text", "text": at.text}},
			}
			if at.tool != nil {
				arguments, _ := json.Marshal(at.arguments)
				nth := fmt.Sprint(turn, strings.Repeat("b", i))
				item = map[string]any{"type": "function_call", "id": "fc_" + nth, "call_id": "call_" + nth,
					"name": at.tool[1], "arguments": string(arguments)}
				if at.tool[0] != "" {
					item["namespace"] = at.tool[0]
				}
			}
			events = append(events,
				map[string]any{"type": "response.output_item.done", "output_index": i, "item": item})
		}
		return append(events,
			map[string]any{"type": "response.completed", "response": map[string]any{"id": id, "usage": map[string]any{
				"input_tokens": 1, "input_tokens_details": nil, "output_tokens": 1, "output_tokens_details": nil,
				"total_tokens": 2,
			}}})
	},
}

// writesTo answers a request with a message to an agent, sent by Mailroom's tool with this prefix.
func (r *request) writesTo(tools, to string) {
	r.t.Helper()
	r.calls(tools+"send_message", map[string]any{"target": to, "message_type": "STATUS", "message": "All is well."})
}

// hasOffered checks that a request offers the model Mailroom's tools with these names and this prefix.
func (r *request) hasOffered(tools string, names ...string) {
	r.t.Helper()
	for _, name := range names {
		if !r.offers(tools + name) {
			r.t.Errorf("the model is not offered %s, only %q", name, r.tools(r.body))
		}
	}
}

// offers reports whether the model is offered a tool.
func (r *request) offers(tool string) bool {
	return slices.ContainsFunc(r.tools(r.body), func(offered []string) bool { return offered[1] == tool })
}
