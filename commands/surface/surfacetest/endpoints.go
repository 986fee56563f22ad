package surfacetest

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/transport"
)

// Endpoints is a client of the endpoints at an address, with the database behind them, an adjustable clock and a
// searchable log. Its methods are safe for concurrent use.
type Endpoints struct {
	T       testing.TB
	Router  *delivery.Engine
	Env     commands.Env // for the server of the database
	Folder  string       // folder of the database, if it is a file
	Address string       // http://127.0.0.1:PORT, once something is served

	mu      sync.Mutex
	log     bytes.Buffer
	forward time.Duration // offset of the database's clock from the real one
}

// New opens a new database with some agents until the end of the test. The test serves it and sets Address.
func New(t testing.TB, names ...string) *Endpoints {
	t.Helper()
	folder := t.TempDir()
	e := &Endpoints{T: t, Folder: folder}
	log := slog.New(slog.NewJSONHandler(e, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r, err := router.Open(t.Context(), enginetest.Placed(ledger.Options{
		Path: enginetest.PlaceAt(t, filepath.Join(folder, "mailroom.db")), Instance: "test", Now: e.now, Log: log,
		Bell: store.NewLocalBell(),
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{},
			"webhook": new(transport.Webhook)},
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	for _, name := range names {
		if _, _, err := agents.Add(t.Context(), r.Ledger, agents.Update{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	e.Router, e.Env = r, commands.Env{Engine: r, Log: log, Catalogue: Catalogue()}
	return e
}

// On returns the endpoints of an open database, without an adjustable clock and a log.
func On(t testing.TB, r *delivery.Engine) *Endpoints {
	return &Endpoints{T: t, Router: r,
		Env: commands.Env{Engine: r, Log: slog.New(slog.DiscardHandler), Catalogue: Catalogue()}}
}

// Write appends to the log.
func (e *Endpoints) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log.Write(p)
}

// Logged returns the log since the last call of TakeLog.
func (e *Endpoints) Logged() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log.String()
}

// TakeLog returns the log and clears it.
func (e *Endpoints) TakeLog() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.log.Reset()
	return e.log.String()
}

func (e *Endpoints) now() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Now().Add(e.forward)
}

// Step sets the database's clock forward.
func (e *Endpoints) Step(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forward += d
}

// Token issues a token for an agent.
func (e *Endpoints) Token(agent string, admin bool) string {
	e.T.Helper()
	secret, _, err := agents.IssueToken(e.T.Context(), e.Router.Ledger, agent, admin, 0)
	if err != nil {
		e.T.Fatal(err)
	}
	return secret
}

// Request sends a request and reads the whole answer. change alters the request before it is sent.
func (e *Endpoints) Request(method, path, body string, change func(*http.Request)) (status int, header http.Header,
	answer string) {
	e.T.Helper()
	req, err := http.NewRequestWithContext(e.T.Context(), method, e.Address+path, bytes.NewBufferString(body))
	if err != nil {
		e.T.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(req)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		e.T.Fatal(err)
	}
	defer res.Body.Close()
	read, err := io.ReadAll(res.Body)
	if err != nil {
		e.T.Fatal(err)
	}
	return res.StatusCode, res.Header, string(read)
}

// Get sends a GET request without a token.
func (e *Endpoints) Get(path, host string) (status int, body string) {
	e.T.Helper()
	status, _, body = e.Request(http.MethodGet, path, "", func(r *http.Request) { r.Host = host })
	return status, body
}

// Run runs a command over HTTP with a token.
func (e *Endpoints) Run(token, command, params string) (status int, answer string) {
	e.T.Helper()
	status, _, answer = e.Request(http.MethodPost, "/v1/commands/"+command, params, Bearer(token))
	return status, answer
}

// Bearer returns a function that adds a token to a request.
func Bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}
