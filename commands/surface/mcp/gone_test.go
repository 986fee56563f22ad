package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/commands/surface/surfacetest"
	"mailroom/orchestrator"
	"mailroom/orchestrator/reading"
)

// taken is an answer that marked something; back is closed when that is taken back.
type taken struct {
	Done bool `json:"done"`
	back chan struct{}
}

func (r taken) Settle(_ context.Context, _ commands.Env, written bool) error {
	if written {
		return errors.New("nobody is there to whom it could be written")
	}
	r.back <- struct{}{}
	return nil
}

// taker is a tool that takes something at the moment at which its client disconnects.
type taker struct {
	env           commands.Env
	started, back chan struct{}
}

func newTaker(e *endpoints) *taker {
	k := &taker{env: e.Env, started: make(chan struct{}, 1), back: make(chan struct{}, 4)}
	try := commands.Define(surfacetest.Vocabulary("try", "try"), "try",
		func(ctx context.Context, _ commands.Env, _ struct{}) (taken, error) {
			k.started <- struct{}{}
			<-ctx.Done()
			return taken{true, k.back}, nil
		})
	k.env.Catalogue = commands.NewCatalogue([]*commands.Definition{try.Definition})
	return k
}

// message returns a message of the protocol as an HTTP request.
func (e *endpoints) message(ctx context.Context, token, path, body string) *http.Request {
	e.T.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.Address+path, strings.NewReader(body))
	if err != nil {
		e.T.Fatal(err)
	}
	surfacetest.Bearer(token)(r)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	return r
}

const callTry = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"try","arguments":{}}}`

// post sends a message and reads the whole answer.
func (e *endpoints) post(token, path, body string) (status int, answer string) {
	e.T.Helper()
	return e.answerTo(e.message(e.T.Context(), token, path, body))
}

// answerTo sends a request and reads the whole answer.
func (e *endpoints) answerTo(r *http.Request) (status int, answer string) {
	e.T.Helper()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		e.T.Fatal(err)
	}
	defer res.Body.Close()
	read, err := io.ReadAll(res.Body)
	if err != nil {
		e.T.Fatal(err)
	}
	return res.StatusCode, string(read)
}

// waysToLeave are the ways in which a client can disconnect or cancel during a call of the taker.
var waysToLeave = map[string]func(*endpoints, *taker){
	"the HTTP request ends": func(e *endpoints, k *taker) {
		ctx, cancel := context.WithCancel(e.T.Context())
		ended, r := make(chan error, 1), e.message(ctx, e.Token("a", false), "/mcp", callTry)
		go func() {
			_, err := http.DefaultClient.Do(r)
			ended <- err
		}()
		<-k.started
		cancel()
		<-ended
	},
	"cancelled over HTTP": func(e *endpoints, k *taker) {
		token, answered := e.Token("a", false), make(chan string, 1)
		go func() {
			_, answer := e.post(token, "/mcp", callTry)
			answered <- answer
		}()
		<-k.started
		// A notification of another client, for another request, or at another endpoint cancels nothing.
		e.post(e.Token("b", false), "/mcp",
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		e.post(token, "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}`)
		e.post(token, "/mcp/test", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		select {
		case <-answered:
			e.T.Error("a notification that was not for it ended the call")
			return
		case <-time.After(100 * time.Millisecond): // if it ends, it does so at once
		}
		if status, _ := e.post(token, "/mcp",
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`); status != http.StatusAccepted {
			e.T.Errorf("the notification: %d", status)
		}
		<-answered
	},
	"cancelled over pipes": func(e *endpoints, k *taker) {
		s, _ := piped(e.T, NewServer(k.env, "v1").offering(false), "a", nil)
		ctx, cancel := context.WithCancel(e.T.Context())
		go func() {
			<-k.started
			cancel()
		}()
		if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "try"}); err == nil {
			e.T.Error("a call that was called off has an answer")
		}
	},
	"the pipe is closed": func(e *endpoints, k *taker) {
		s, hangUp := piped(e.T, NewServer(k.env, "v1").offering(false), "a", nil)
		go s.CallTool(e.T.Context(), &sdk.CallToolParams{Name: "try"})
		<-k.started
		hangUp()
	},
}

// TestClientGone checks that everything that a call has taken is taken back if its client disconnects or cancels it.
func TestClientGone(t *testing.T) {
	t.Parallel()
	for name, leave := range waysToLeave {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoints(t, "a", "b")
			k := newTaker(e)
			e.serve(k.env, NewServer(k.env, "v1").Handlers())
			leave(e, k)
			<-k.back
			if len(k.back) > 0 {
				t.Error("it was taken back twice")
			}
		})
	}
}

// TestAnswerNotTaken checks that a message whose answer could not be written is unread, and that the next reader gets
// it.
func TestAnswerNotTaken(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	b := e.tools("/mcp/relay", "b", false, nil)
	handlers := NewServer(e.Env, "v1").Handlers()
	handlers["/unwritable"] = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		handlers["/mcp/relay"].ServeHTTP(unwritable{rw}, r)
	})
	e.serve(e.Env, handlers)
	for name, lose := range map[string]func(call string){
		"HTTP": func(call string) {
			e.post(e.Token("a", false), "/unwritable", call)
		},
		"pipes": func(call string) {
			in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` +
				"\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + call + "\n")
			stay, hangUp := io.Pipe()
			out := &breaking{word: "fragile", hangUp: hangUp}
			NewServer(e.Env, "v1").offering(false, "relay").serveStream(t.Context(),
				commands.Caller{Name: "a", Session: "default"}, io.MultiReader(in, stay), out)
		},
	} {
		done(t, b, "send_message", `{"target":"a","message_type":"PING","message":"fragile `+name+`"}`)
		lose(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_messages","arguments":{}}}`)
		e.await("1", `SELECT count(*) FROM message_trace WHERE event = 'released' AND message_id =
			(SELECT message_id FROM agent_message WHERE payload LIKE ?)`, "%"+name+"%")
		if text := done(t, e.tools("/mcp/relay", "a", false, nil), "get_messages", `{}`); !strings.Contains(text,
			"fragile "+name) {
			t.Errorf("%s: the next who asks gets %s", name, text)
		}
	}
}

// unwritable is the writer for a client that has disconnected.
type unwritable struct{ http.ResponseWriter }

func (unwritable) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// breaking is a pipe that breaks when a certain word is written to it.
type breaking struct {
	word   string
	hangUp *io.PipeWriter
}

func (w *breaking) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.word)) {
		w.hangUp.Close()
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// TestWaiterGone checks that a wait whose client has disconnected takes nothing, and that another waiter of the agent
// gets the message.
func TestWaiterGone(t *testing.T) {
	t.Parallel()
	const wait = `{"timeoutMs":60000,"waitFor":"b"}`
	for _, way := range []string{"http", "pipes", "closed"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			e := newEndpoints(t, "a", "b")
			b := e.tools("/mcp/relay", "b", false, nil)
			var s *sdk.ClientSession
			var hangUp func()
			if way == "http" {
				s = e.tools("/mcp/coral", "a", false, nil)
			} else {
				s, hangUp = piped(t, NewServer(e.Env, "v1").offering(false, "coral"), "a", nil)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := s.CallTool(ctx,
					&sdk.CallToolParams{Name: "wait_for_mentions", Arguments: json.RawMessage(wait)})
				ended <- err
			}()
			e.await("1", `SELECT count(*) FROM waits`)
			if way == "closed" {
				hangUp()
			}
			cancel()
			if err := <-ended; err == nil {
				t.Fatal("the wait has an answer")
			}
			e.await("0", `SELECT count(*) FROM waits`)
			done(t, b, "send_message", `{"target":"a","message_type":"PING","message":"still here"}`)
			if text := done(t, e.tools("/mcp/coral", "a", false, nil), "wait_for_mentions",
				wait); !strings.Contains(text, "still here") {
				t.Errorf("another waiter gets %s", text)
			}
		})
	}
}

// TestFailsAfterItHasTaken checks that a message is unread if the command that took it then fails or panics.
func TestFailsAfterItHasTaken(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error": func() error { return orchestrator.Errorf(orchestrator.Unavailable, "the server went away") },
		"panic": func() error { panic("a bug") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoints(t, "a", "b")
			take := commands.Define(surfacetest.Vocabulary("try", "try"), "try",
				func(ctx context.Context, env commands.Env, _ struct{}) (struct{}, error) {
					lease := commands.Lease(env.Caller, "try", 0)
					ms, _, err := reading.Wait(ctx, env.Ledger, reading.Options{Recipient: "a", Limit: 10, Lease: lease})
					if err != nil || len(ms) != 1 {
						t.Errorf("it takes %d messages: %v", len(ms), err)
					}
					commands.Hand(ctx, env, ms, lease, func(ms []orchestrator.Message) any { return ms })
					return struct{}{}, fail()
				})
			env := e.Env
			env.Catalogue = commands.NewCatalogue([]*commands.Definition{take.Definition})
			server := NewServer(env, "v1")
			s, _ := piped(t, server.offering(false), "a", nil)
			done(t, e.tools("/mcp/relay", "b", false, nil), "send_message",
				`{"target":"a","message_type":"PING","message":"fragile"}`)
			result, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "try", Arguments: json.RawMessage(`{}`)})
			if err != nil || !result.IsError {
				t.Errorf("it did not fail: %v %+v", err, result)
			}
			e.await("0", `SELECT count(*) FROM reading_lease`)
			e.await("1", `SELECT count(*) FROM agent_inbox WHERE recipient = 'a' AND read_at = ''`)
		})
	}
}

// TestStandardInputEndsBeforeAnswers checks that a server ends, and gives back its messages, if its standard input
// has ended and nobody reads its answers.
func TestStandardInputEndsBeforeAnswers(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	done(t, e.tools("/mcp/relay", "b", false, nil), "send_message",
		`{"target":"a","message_type":"PING","message":"fragile"}`)
	in := strings.NewReader(hello + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_messages","arguments":{}}}` + "\n")
	full, out := io.Pipe()
	defer full.Close()
	go full.Read(make([]byte, 64<<10)) // reads the first answer only
	err := NewServer(e.Env, "v1").offering(false, "relay").serveStream(t.Context(),
		commands.Caller{Name: "a", Session: "default"}, in, out)
	if err != nil {
		t.Error(err)
	}
	e.await("1", `SELECT count(*) FROM agent_inbox WHERE recipient = 'a' AND read_at = ''`)
}
