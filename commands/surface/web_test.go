package surface

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"mailroom/commands"
	"mailroom/commands/admin"
	"mailroom/commands/coral"
	"mailroom/commands/ralph"
	"mailroom/commands/relay"
	"mailroom/commands/route"
	"mailroom/commands/team"
	"mailroom/orchestrator"
	"mailroom/orchestrator/transport"
)

// catalogue is that of the program, for tests that need real commands.
func catalogue() *commands.Catalogue {
	return commands.NewCatalogue(route.Definitions(), relay.Definitions(), team.Definitions(), coral.Definitions(), ralph.Definitions(), admin.Definitions())
}

// endpoints are those of a daemon on a router of the test's.
type endpoints struct {
	t       testing.TB
	router  *orchestrator.Router
	address string
}

// listenOn serves a router's endpoints until the test ends.
func listenOn(t *testing.T, r *orchestrator.Router, o webOptions) (*web, error) {
	t.Helper()
	return listenWith(t, envOf(r), o)
}

// envOf is what commands on a router of the test's may touch.
func envOf(r *orchestrator.Router) commands.Env {
	return commands.Env{Router: r, Log: slog.New(slog.DiscardHandler), Catalogue: catalogue()}
}

func listenWith(t *testing.T, env commands.Env, o webOptions) (*web, error) {
	t.Helper()
	if o.ratePerSecond == 0 {
		o.ratePerSecond = 10_000
	}
	w, err := listenWeb(t.Context(), env, o, newMetrics(env.Router, "v1.2.3", env.Log), "v1.2.3")
	if err == nil {
		t.Cleanup(w.close)
	}
	return w, err
}

func listenTo(t *testing.T, r *orchestrator.Router) *endpoints {
	t.Helper()
	w, err := listenOn(t, r, webOptions{listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	return &endpoints{t, r, w.Address}
}

// newEndpoints serves a new database with some agents in it.
func newEndpoints(t *testing.T, agents ...string) *endpoints {
	t.Helper()
	return newEndpointsWith(t, webOptions{listen: "127.0.0.1:0"}, agents...)
}

func newEndpointsWith(t *testing.T, o webOptions, agents ...string) *endpoints {
	t.Helper()
	r := openWith(t, orchestrator.Options{
		Path: t.TempDir() + "/mailroom.db", Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}},
	})
	for _, name := range agents {
		if _, _, err := r.AddAgent(t.Context(), orchestrator.AgentUpdate{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	w, err := listenOn(t, r, o)
	if err != nil {
		t.Fatal(err)
	}
	return &endpoints{t, r, w.Address}
}

// token issues one for an agent.
func (e *endpoints) token(agent string, admin bool) string {
	e.t.Helper()
	secret, _, err := e.router.IssueToken(e.t.Context(), agent, admin, 0)
	if err != nil {
		e.t.Fatal(err)
	}
	return secret
}

// request makes one; change alters it before it is sent.
func (e *endpoints) request(method, path, body string, change func(*http.Request)) (status int, header http.Header, answer string) {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), method, e.address+path, bytes.NewBufferString(body))
	if err != nil {
		e.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(req)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer res.Body.Close()
	read, err := io.ReadAll(res.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(read)
}

// get makes a request without a token.
func (e *endpoints) get(path, host string) (status int, body string) {
	e.t.Helper()
	status, _, body = e.request(http.MethodGet, path, "", func(r *http.Request) { r.Host = host })
	return status, body
}

// run runs a command with a token.
func (e *endpoints) run(token, command, params string) (status int, answer string) {
	e.t.Helper()
	status, _, answer = e.request(http.MethodPost, commandsPath+command, params, bearer(token))
	return status, answer
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}
