package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mailroom/commands/surface/cli"
	"mailroom/orchestrator/orchestratortest/enginetest"
)

// project runs commands on one database as a user whose state is in separate folders.
type project struct {
	t   *testing.T
	env map[string]string
}

func newProject(t *testing.T) *project {
	t.Helper()
	d := &project{t, map[string]string{"MAILROOM_DB": filepath.Join(t.TempDir(), "mailroom.db"), "HOME": t.TempDir(),
		"XDG_STATE_HOME": t.TempDir(), "NO_COLOR": "1", "MAILROOM_OUTPUT": "json"}}
	t.Setenv("XDG_STATE_HOME", d.env["XDG_STATE_HOME"]) // where trust is stored
	d.run("init")
	return d
}

func (d *project) program(out io.Writer) *cli.Program {
	return &cli.Program{Config: config(), In: strings.NewReader(""), Out: out, Err: io.Discard,
		Getenv: func(name string) string { return d.env[name] }}
}

// run runs a command and returns its output.
func (d *project) run(args ...string) string {
	d.t.Helper()
	var out bytes.Buffer
	d.program(&out).Run(d.t.Context(), append([]string{"mailroom"}, args...))
	return out.String()
}

// first returns the value of a key in the first line of a command that then continues. stop ends the command.
func (d *project) first(key string, args ...string) (value string, stop func()) {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	said, saying := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.program(saying).Run(ctx, append([]string{"mailroom"}, args...))
		saying.Close()
	}()
	lines := bufio.NewScanner(said)
	var line map[string]any
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &line) != nil {
		d.t.Errorf("%v prints %q", args, lines.Text())
	}
	value, _ = line[key].(string)
	go io.Copy(io.Discard, said)
	return value, sync.OnceFunc(func() { cancel(); <-ended })
}

// visited is a server that records its requests.
type visited struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

// visit starts a server that answers as h does.
func visit(t *testing.T, h http.Handler) *visited {
	t.Helper()
	v := &visited{}
	v.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		v.asked = append(v.asked, r.URL.Path)
		v.mu.Unlock()
		h.ServeHTTP(rw, r)
	}))
	t.Cleanup(v.Close)
	return v
}

func (v *visited) visits() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked
}

// unauthorized answers as a daemon does to a client without a token.
var unauthorized = http.HandlerFunc(func(rw http.ResponseWriter,
	_ *http.Request) {
	rw.WriteHeader(http.StatusUnauthorized)
})

// says adds rows of daemons that seem to listen at these addresses, and to be older than any other.
func (d *project) says(addresses ...string) {
	d.t.Helper()
	c := enginetest.Plain(d.t, d.env["MAILROOM_DB"])
	for _, address := range addresses {
		if _, err := c.Exec(`INSERT INTO daemons (instance, host, pid, started_at, seen_at, listening)
			SELECT ?1, host, pid, '2000-01-01T00:00:00.000Z', '9999-01-01T00:00:00.000Z', ?1 FROM daemons LIMIT 1`,
			address); err != nil {
			d.t.Fatal(err)
		}
	}
}

// TestConsoleIsLedNowhereElse checks that whatever the table of daemons contains, the console opens at a daemon of
// this user, or serves itself, and that for an untrusted database no server is contacted.
func TestConsoleIsLedNowhereElse(t *testing.T) {
	d := newProject(t)
	real, stop := d.first("listening", "serve", "--listen", "127.0.0.1:0")
	defer stop()
	daemon, err := url.Parse(real)
	if err != nil || daemon.Host == "" {
		t.Fatal(real, err)
	}
	// relay forwards the challenge and returns the proof.
	relay := visit(t, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(daemon) }})
	phish := visit(t, unauthorized)
	d.says(phish.URL, phish.URL+"/phish", strings.Replace(phish.URL, "//", "//user@", 1), phish.URL+"?x", relay.URL)
	opened := func() string {
		t.Helper()
		link, stop := d.first("url", "console", "--print")
		stop()
		return link
	}
	if link := opened(); !strings.HasPrefix(link, real+"/#code=") {
		t.Errorf("beside forged rows the console opens at %s; the daemon is at %s", link, real)
	}
	if visits := phish.visits(); len(visits) > 1 || len(relay.visits()) != 1 {
		t.Errorf("asked: %v %v", visits, relay.visits())
	}

	d.run("trust", "--remove")
	asked := len(phish.visits()) + len(relay.visits())
	if link := opened(); link == "" || strings.HasPrefix(link, real+"/") || strings.HasPrefix(link, phish.URL) ||
		strings.HasPrefix(link, relay.URL) {
		t.Errorf("where the database is not trusted, the console opens at %s", link)
	}
	if now := len(phish.visits()) + len(relay.visits()); now != asked {
		t.Errorf("where the database is not trusted, %d requests go out", now-asked)
	}

	d.run("trust")
	stop()
	if link := opened(); link == "" || strings.HasPrefix(link, phish.URL) || strings.HasPrefix(link, relay.URL) {
		t.Errorf("without a daemon of this user, the console opens at %s", link)
	}
}

// TestConsoleOfAnotherUser checks that a daemon that stores its state elsewhere does not count as a daemon of this
// user.
func TestConsoleOfAnotherUser(t *testing.T) {
	d := newProject(t)
	real, stop := d.first("listening", "serve", "--listen", "127.0.0.1:0")
	defer stop()
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // for later processes, but not for the daemon
	d.run("trust")
	link, stopped := d.first("url", "console", "--print")
	stopped()
	if link == "" || strings.HasPrefix(link, real+"/") {
		t.Errorf("the console opens at %s, the daemon of another user is at %s", link, real)
	}
}

// TestSignalDoctorCallsNobody checks that signal.url is requested only if the database is trusted.
func TestSignalDoctorCallsNobody(t *testing.T) {
	d := newProject(t)
	app := visit(t, unauthorized)
	d.run("setting", "set", "signal.url", strings.Replace(app.URL, "127.0.0.1", "localhost", 1))
	d.run("trust", "--remove")
	if said := d.run("signal", "doctor"); len(app.visits()) > 0 || !strings.Contains(said, "not trusted") {
		t.Errorf("%v were asked for, and it prints %s", app.visits(), said)
	}
	if said := d.run("signal", "pair"); !strings.Contains(said, "not trusted") {
		t.Errorf("signal pair prints %s", said)
	}
	d.run("trust")
	if said := d.run("signal", "doctor"); len(app.visits()) != 1 ||
		!strings.Contains(said, "another program answers at that address") && !strings.Contains(said, "401") {
		t.Errorf("trusted: %v were asked for, and it prints %s", app.visits(), said)
	}
}
