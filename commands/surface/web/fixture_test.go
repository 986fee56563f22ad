package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"mailroom/commands/surface/mcp"
	"mailroom/commands/surface/surfacetest"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator/store"
)

var bearer = surfacetest.Bearer

const commandsPath = "/v1/commands/"

// fort is the endpoints of a new database, with every vocabulary and the other endpoints of a daemon.
type fort struct {
	*surfacetest.Endpoints
	web *web.Server
}

// newFort serves a new database with some agents.
func newFort(t testing.TB, o web.Options, agents ...string) *fort {
	t.Helper()
	f := &fort{Endpoints: surfacetest.New(t, agents...)}
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	if o.RatePerSecond == 0 {
		o.RatePerSecond = 100_000
	}
	o.Version = "v1.2.3"
	well := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprintln(rw, "ok") })
	o.Open = map[string]http.Handler{"/healthz": well}
	o.Local = map[string]http.Handler{"/readyz": well, "/metrics": well}
	o.WithToken = mcp.NewServer(f.Env, o.Version).Handlers()
	var err error
	if f.web, err = web.Listen(t.Context(), f.Env, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.web.Close)
	f.Address = f.web.Address
	return f
}

// until waits, with pauses, until a condition holds.
func (f *fort) until(holds func() bool) {
	f.T.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-f.T.Context().Done():
			f.T.Fatal("it never holds")
		}
	}
}

// tool calls a tool over MCP and returns the whole answer.
func (f *fort) tool(token, path, name, args string) (status int, answer string) {
	f.T.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name,
		args)
	status, _, answer = f.Request(http.MethodPost, path, body, mcpClient(bearer(token)))
	return status, answer
}

// failure returns the code and the hint of a refusal.
func failure(body string) (code, hint string) {
	var f struct{ Error, Message, Hint string }
	if json.Unmarshal([]byte(body), &f) != nil || f.Message == "" {
		return "", ""
	}
	return f.Error, f.Hint
}

// rows counts the rows that a command could change.
func (f *fort) rows() (n int64) {
	f.T.Helper()
	return f.number(`SELECT (SELECT count(*) FROM agent_message) + (SELECT count(*) FROM agents) +
		(SELECT count(*) FROM message_trace) + (SELECT count(*) FROM command_trace) + (SELECT count(*) FROM settings)`)
}

// number returns the number that a query selects.
func (f *fort) number(query string) (n int64) {
	f.T.Helper()
	table, err := f.Router.Query(f.T.Context(), query, store.Bound{Rows: 1})
	if err == nil {
		n, err = table.Rows.Values()[0][0].(json.Number).Int64()
	}
	if err != nil {
		f.T.Fatal(err)
	}
	return n
}

// mcpClient makes a request one of an MCP client and then applies change.
func mcpClient(change func(*http.Request)) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("MCP-Protocol-Version", "2025-11-25")
		if change != nil {
			change(r)
		}
	}
}

// set adds headers to a request. pairs alternates names and values.
func set(pairs ...string) func(*http.Request) {
	return func(r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			r.Header.Add(pairs[i], pairs[i+1])
		}
	}
}

// both applies several changes to a request.
func both(changes ...func(*http.Request)) func(*http.Request) {
	return func(r *http.Request) {
		for _, change := range changes {
			change(r)
		}
	}
}
