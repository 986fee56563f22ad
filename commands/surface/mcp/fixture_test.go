package mcp

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/commands/surface/surfacetest"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator/orchestratortest/enginetest"
)

// endpoints are the endpoints of a new database, including tools.
type endpoints struct{ *surfacetest.Endpoints }

// newEndpoints serves a new database with some agents.
func newEndpoints(t testing.TB, agents ...string) *endpoints {
	t.Helper()
	e := &endpoints{surfacetest.New(t, agents...)}
	e.serve(e.Env, NewServer(e.Env, "v1.2.3").Handlers())
	return e
}

// serve serves commands and handlers at a new address until the end of the test.
func (e *endpoints) serve(env commands.Env, handlers map[string]http.Handler) {
	e.T.Helper()
	w, err := web.Listen(e.T.Context(), env,
		web.Options{Address: "127.0.0.1:0", RatePerSecond: 10_000, WithToken: handlers})
	if err != nil {
		e.T.Fatal(err)
	}
	e.T.Cleanup(w.Close)
	e.Address = w.Address
}

// roundTrip is a function that implements http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// tools connects an agent's client to one of the tool endpoints.
func (e *endpoints) tools(path, agent string, admin bool, o *sdk.ClientOptions) *sdk.ClientSession {
	e.T.Helper()
	show := surfacetest.Bearer(e.Token(agent, admin))
	return connected(e.T, o, &sdk.StreamableClientTransport{
		Endpoint: e.Address + path, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			show(r)
			return http.DefaultTransport.RoundTrip(r)
		})},
	})
}

func connected(t testing.TB, o *sdk.ClientOptions, transport sdk.Transport) *sdk.ClientSession {
	t.Helper()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// piped serves a client on pipes, as a process does on standard input and output. hangUp closes the pipes and returns
// when the server has ended.
func piped(t testing.TB, s *offered, agent string, o *sdk.ClientOptions) (_ *sdk.ClientSession, hangUp func()) {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer out.Close()
		caller := commands.Caller{Name: agent, Session: "default"}
		// a client closes both pipes at once
		if err := s.serveStream(context.WithoutCancel(t.Context()), caller, in, out); err != nil &&
			!errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("serving %s: %v", agent, err)
		}
	}()
	hangUp = func() {
		toServer.Close()
		<-ended
	}
	t.Cleanup(hangUp)
	return connected(t, o, &sdk.IOTransport{Reader: fromServer, Writer: toServer}), hangUp
}

// called calls a tool and returns the text of the answer for the model.
func called(t *testing.T, s *sdk.ClientSession, tool, args string) (text string, failed bool) {
	t.Helper()
	p := &sdk.CallToolParams{Name: tool}
	if args != "" {
		p.Arguments = json.RawMessage(args)
	}
	r, err := s.CallTool(t.Context(), p)
	if err != nil {
		t.Fatalf("%s %s: %v", tool, args, err)
	}
	return r.Content[0].(*sdk.TextContent).Text, r.IsError
}

// done calls a tool and fails the test if the call fails.
func done(t *testing.T, s *sdk.ClientSession, tool, args string) string {
	t.Helper()
	text, failed := called(t, s, tool, args)
	if failed {
		t.Fatalf("%s %s: %s", tool, args, text)
	}
	return text
}

// value runs a query on a separate connection, as another program does.
func (e *endpoints) value(query string, args ...any) (got string) {
	e.T.Helper()
	db := enginetest.Plain(e.T, e.Router.Path())
	defer db.Close()
	if err := db.QueryRow(query, args...).Scan(&got); err != nil && err != sql.ErrNoRows {
		e.T.Fatalf("%s: %v", query, err)
	}
	return got
}

// await repeats a query, with pauses, until the result is as wanted.
func (e *endpoints) await(want, query string, args ...any) {
	e.T.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for e.value(query, args...) != want {
		select {
		case <-again.C:
		case <-e.T.Context().Done():
			e.T.Fatalf("%s never gave %s", query, want)
		}
	}
}
