package surface

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/transport"
)

// fort is a daemon's endpoints with every vocabulary, a clock that can be set, and a log that can be searched.
type fort struct {
	*endpoints
	web    *web
	folder string

	mu      sync.Mutex
	log     bytes.Buffer
	forward time.Duration // of its clock, before the real one
}

// Write appends to the log.
func (f *fort) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(p)
}

func (f *fort) logged() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.String()
}

func (f *fort) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Add(f.forward)
}

func (f *fort) step(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forward += d
}

// until asks until something holds.
func (f *fort) until(holds func() bool) {
	f.t.Helper()
	for !holds() {
		if f.t.Context().Err() != nil {
			f.t.Fatal("it never holds")
		}
		runtime.Gosched()
	}
}

// newFort serves a new database with some agents in it.
func newFort(t testing.TB, o webOptions, agents ...string) *fort {
	t.Helper()
	f := &fort{folder: t.TempDir()}
	log := slog.New(slog.NewJSONHandler(f, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r, err := orchestrator.Open(t.Context(), orchestrator.Options{
		Path: filepath.Join(f.folder, "mailroom.db"), Instance: "test", Now: f.now, Log: log, Bell: orchestrator.NewLocalBell(),
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	for _, name := range agents {
		if _, _, err := r.AddAgent(t.Context(), orchestrator.AgentUpdate{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if o.listen == "" {
		o.listen = "127.0.0.1:0"
	}
	if o.ratePerSecond == 0 {
		o.ratePerSecond = 100_000
	}
	env := commands.Env{Router: r, Log: log, Catalogue: catalogue()}
	if f.web, err = listenWeb(t.Context(), env, o, newMetrics(r, "v1.2.3", log), "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.web.close)
	f.endpoints = &endpoints{t, r, f.web.Address}
	return f
}

// tool calls a tool over MCP, and returns the whole answer.
func (e *endpoints) tool(token, path, name, args string) (status int, answer string) {
	e.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, args)
	status, _, answer = e.request(http.MethodPost, path, body, mcpClient(bearer(token)))
	return status, answer
}

// mcpClient makes a request one of a client of MCP.
func mcpClient(change func(*http.Request)) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("MCP-Protocol-Version", "2025-11-25")
		if change != nil {
			change(r)
		}
	}
}

// failure reads the code and the hint of a refusal.
func failure(body string) (code, hint string) {
	var f struct{ Error, Message, Hint string }
	if json.Unmarshal([]byte(body), &f) != nil || f.Message == "" {
		return "", ""
	}
	return f.Error, f.Hint
}

func set(pairs ...string) func(*http.Request) {
	return func(r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			r.Header.Add(pairs[i], pairs[i+1])
		}
	}
}

func both(changes ...func(*http.Request)) func(*http.Request) {
	return func(r *http.Request) {
		for _, change := range changes {
			change(r)
		}
	}
}

// rows counts what is in the tables that a command could change.
func (f *fort) rows() (n int64) {
	f.t.Helper()
	table, err := f.router.Query(f.t.Context(), `SELECT (SELECT count(*) FROM agent_message) + (SELECT count(*) FROM agents) +
		(SELECT count(*) FROM message_trace) + (SELECT count(*) FROM command_trace) + (SELECT count(*) FROM settings)`, 1)
	if err != nil {
		f.t.Fatal(err)
	}
	return table.Rows[0].Values[0].(int64)
}
