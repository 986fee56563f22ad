package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/commands/surface/surfacetest"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
)

// TestToolPatience checks that a call that asks to wait for an hour answers before its client abandons it, and
// reports that it waited for less.
func TestToolPatience(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	tools := NewServer(e.Env, "v1")
	tools.client.of = func(string) time.Duration { return 2 * time.Nanosecond }
	s, _ := piped(t, tools.offering(false), "a", nil)
	for tool, want := range map[string]string{
		`get_messages {"wait_seconds":3600}`:           `"waited":"1ns instead of 1h, `,
		`coral_wait_for_mentions {"timeoutMs":60000}`:  "within the timeout of 1ns. The call waited 1ns instead of 1m, ",
		`coral_wait_for_mentions {"format":"json"}`:    `"timed_out":true,"waited":"1ns instead of 30s, `,
		`wait {"recipient":"a","timeout":3600}`:        `"waited":"1ns instead of 1h, `,
		`ralph_inbox {"wait":3600}`:                    `"waited":"1ns instead of 1h, `,
		`get_messages {"sessionId":"a","limit":1}`:     `"hasMore":false,"messages":[]}`,
		`get_messages {"markAsRead":false,"limit":10}`: `"messages":[]}`,
		`wait {"recipient":"a","timeout":0}`:           `"timed_out":true,"timestamp"`,
	} {
		name, args, _ := strings.Cut(tool, " ")
		if text := done(t, s, name, args); !strings.Contains(text, want) {
			t.Errorf("%s: %s; want %s", tool, text, want)
		}
	}
	done(t, e.tools("/mcp/relay", "b", false, nil), "send_message",
		`{"target":"a","message_type":"PING","message":"hi"}`)
	if text := done(t, s, "get_messages", `{"wait_seconds":3600}`); !strings.Contains(text, `"count":1`) ||
		strings.Contains(text, "waited") {
		t.Errorf("with a message: %s", text)
	}
}

// TestPatienceOfHosts checks that a call may wait for the timeout of the host on its connection, less the time for
// the answer. If the timeout is unknown, and over HTTP, the limit is 55 seconds or that of the tool's document.
func TestPatienceOfHosts(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a")
	type mayWait struct {
		For string `json:"for"`
	}
	patient := func(name string, traits commands.Traits) *commands.Definition {
		return commands.Define(surfacetest.Vocabulary(name, name), name,
			func(_ context.Context, env commands.Env, _ struct{}) (mayWait, error) {
				return mayWait{env.Call.Patience.String()}, nil
			}).With(traits).Definition
	}
	env := e.Env
	env.Catalogue = commands.NewCatalogue([]*commands.Definition{patient("try", commands.Traits{}),
		patient("mention", commands.Traits{Patience: time.Minute})})
	env.Caller = commands.Caller{Name: "a", Session: "default"}
	server := NewServer(env, "v1")
	asked := map[string]int{}
	server.CallTime = func(host string) time.Duration {
		asked[host]++
		return map[string]time.Duration{"codex": 2 * time.Minute, "claude": 4 * time.Second}[host]
	}
	e.serve(env, server.Handlers())
	for client, want := range map[string]string{
		"codex-mcp-client": "1m55s 1m55s", "claude-code": "2s 2s", "gemini-cli-mcp-client": "55s 1m0s", "x": "55s 1m0s",
		"HTTP": "55s 1m0s",
	} {
		var s *sdk.ClientSession
		if client == "HTTP" {
			s = e.tools("/mcp", "a", false, nil)
		} else {
			s = served(t, server, client)
		}
		try, mention := done(t, s, "try", `{}`), done(t, s, "mention", `{}`)
		first, second, _ := strings.Cut(want, " ")
		if !strings.Contains(try, `"for":"`+first+`"`) || !strings.Contains(mention, `"for":"`+second+`"`) {
			t.Errorf("%s: %s, %s; want %s", client, try, mention, want)
		}
	}
	for host, times := range asked {
		if times != map[string]int{"": 1, "codex": 1, "claude": 1, "gemini": 1}[host] {
			t.Errorf("it was asked %d times what %q allows", times, host)
		}
	}
}

// served connects a client with a name to the server of a process on standard input and output.
func served(t *testing.T, server *Server, name string) *sdk.ClientSession {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer out.Close()
		if err := server.Serve(context.WithoutCancel(t.Context()), in, out); err != nil &&
			!errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("serving %s: %v", name, err)
		}
	}()
	s, err := sdk.NewClient(&sdk.Implementation{Name: name, Version: "1"}, nil).Connect(t.Context(),
		&sdk.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		toServer.Close()
		<-ended
	})
	return s
}

// waitForB is a call that waits for a message from b.
const waitForB = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait_for_mentions","arguments":{"timeoutMs":60000,"waitFor":"b","format":"json"}}}`

// answers reads an answer and checks its request ID and its words.
func (r *rawSession) answers(id int, words string) {
	r.t.Helper()
	if got := r.next(); !strings.Contains(got, fmt.Sprintf(`"id":%d,`, id)) || !strings.Contains(got, words) {
		r.t.Errorf("the server says %s; want the answer to %d, with %q", got, id, words)
	}
}

// TestNewestCallIsFirst checks that, if a host has silently abandoned a call, the next message goes to its model's
// newer call. If both calls really wait, the older one gets the message after that.
func TestNewestCallIsFirst(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	b := e.tools("/mcp/relay", "b", false, nil)
	s := rawly(t, stdioServer(e.Env, "a", "coral"), "a")
	s.say(hello)
	s.next()
	s.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for id := range 5 {
		s.say(fmt.Sprintf(waitForB, id))
		e.await(fmt.Sprint(id+1), `SELECT count(*) FROM waits`)
	}
	for id := 4; id >= 0; id-- {
		done(t, b, "send_message", fmt.Sprintf(`{"target":"a","message_type":"PING","message":"for %d"}`, id))
		s.answers(id, fmt.Sprintf("for %d", id))
	}
}

// TestIDUsedAgain checks that a request with the ID of an open one cancels the older request: its messages are given
// back, and the newer request is answered.
func TestIDUsedAgain(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	k := newTaker(e)
	s := rawly(t, NewServer(k.env, "v1").offering(false), "a")
	s.say(hello)
	s.next()
	s.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for range 3 {
		s.say(callTry)
		<-k.started
	}
	<-k.back
	<-k.back
	s.say(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	<-k.back
	if got := s.next(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":7,"result":{`) || strings.Contains(got, "done") {
		t.Errorf("the answer to the newest request is %s", got)
	}
}

// TestIDOfAWaitUsedAgain checks that the newer request gets the messages for which the older one waited.
func TestIDOfAWaitUsedAgain(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	s := rawly(t, stdioServer(e.Env, "a", "coral"), "a")
	s.say(hello)
	s.next()
	s.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	s.say(fmt.Sprintf(waitForB, 7))
	e.await("1", `SELECT count(*) FROM waits`)
	first := e.value(`SELECT id FROM waits`)
	s.say(fmt.Sprintf(waitForB, 7))
	e.await("1", `SELECT count(*) FROM waits WHERE id <> ?`, first)
	done(t, e.tools("/mcp/relay", "b", false, nil), "send_message",
		`{"target":"a","message_type":"PING","message":"once"}`)
	s.answers(7, "once")
	s.say(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
	s.answers(8, "result")
}

// TestAbandonedWaitEnds checks that a call with a longer timeout than its host's ends before the host abandons it, so
// that later messages are in the answer to the next call.
func TestAbandonedWaitEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := enginetest.NewBubble(t)
		defer f.Close()
		for _, name := range []string{"a", "b"} {
			f.Add(agents.Update{Name: name})
		}
		server := NewServer(commands.Env{Engine: f.Engine, Log: slog.New(slog.DiscardHandler),
			Catalogue: surfacetest.Catalogue()}, "v1")
		s, hangUp := piped(t, server.offering(false, "relay"), "a", nil)
		defer hangUp()
		ctx, abandon := context.WithTimeout(t.Context(), time.Minute)
		defer abandon()
		answer, err := s.CallTool(ctx,
			&sdk.CallToolParams{Name: "get_messages", Arguments: json.RawMessage(`{"wait_seconds":300}`)})
		if err != nil {
			t.Fatalf("the host has abandoned the call: %v", err)
		}
		if text := answer.Content[0].(*sdk.TextContent).Text; !strings.Contains(text, `"waited":"55s instead of 5m, `) {
			t.Errorf("the answer does not say that it waited for less: %s", text)
		}
		if _, err := messages.Send(t.Context(), f.Ledger,
			orchestrator.Draft{Sender: "b", Recipient: "a", Payload: []byte(`"the build is red"`)}); err != nil {
			t.Fatal(err)
		}
		if text := done(t, s, "get_messages", `{}`); !strings.Contains(text, "the build is red") {
			t.Errorf("the next call gets %s", text)
		}
	})
}
