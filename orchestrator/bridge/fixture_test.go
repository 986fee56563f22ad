package bridge_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/bridge"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/transport"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// logbook is a log that a test reads.
type logbook struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func newLogbook() *logbook { return &logbook{Handler: slog.DiscardHandler} }

func (b *logbook) Enabled(context.Context, slog.Level) bool { return true }

func (b *logbook) Handle(_ context.Context, r slog.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	b.lines = append(b.lines, line)
	return nil
}

// told returns the number of warnings that contain a text.
func (b *logbook) told(text string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.lines {
		if strings.HasPrefix(line, "WARN") && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// office is a database and a root of inbox folders.
type office struct {
	*enginetest.Fixture
	root string
	log  *logbook
}

func open(t *testing.T, db string, log slog.Handler) *delivery.Engine {
	t.Helper()
	r, err := router.Open(t.Context(), ledger.Options{
		Path: db, Log: slog.New(log),
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{},
			"dir": transport.Dir{}},
	})
	must(t, err)
	return r
}

// newOffice creates an office of agents. An agent whose name ends with ":" reads its folder, which is created; the
// others read their inboxes.
func newOffice(t *testing.T, agents ...string) *office {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	o := &office{Fixture: &enginetest.Fixture{T: t, Path: filepath.Join(folder, "mailroom.db")},
		root: filepath.Join(folder, "messages"), log: newLogbook()}
	o.Engine = open(t, o.Path, o.log)
	t.Cleanup(func() { must(t, o.Close()) })
	for _, name := range agents {
		o.add(name)
	}
	return o
}

func (o *office) add(agent string) {
	o.T.Helper()
	u := agents.Update{Name: strings.TrimSuffix(agent, ":")}
	deliver := "inbox"
	if strings.HasSuffix(agent, ":") {
		deliver = "dir:" + o.root
		must(o.T, os.MkdirAll(o.path(u.Name), 0o700))
	}
	u.Deliver = &deliver
	_, _, err := agents.Add(o.T.Context(), o.Ledger, u)
	must(o.T, err)
}

func (o *office) options() bridge.Options {
	return bridge.Options{Root: o.root, Name: "watchdog", Log: slog.New(o.log)}
}

// once calls Once.
func (o *office) once() bridge.Counts {
	o.T.Helper()
	counts, err := bridge.Once(o.T.Context(), o.Engine, o.options())
	must(o.T, err)
	return counts
}

func (o *office) wantRows(query string, want ...string) {
	o.T.Helper()
	if got := o.Rows(query); !slices.Equal(got, want) {
		o.T.Errorf("%s: got %q; want %q", query, got, want)
	}
}

func (o *office) path(names ...string) string {
	return filepath.Join(append([]string{o.root}, names...)...)
}

// write writes a file with a time of an hour ago, so that it counts as finished.
func (o *office) write(text string, names ...string) {
	o.T.Helper()
	path := o.path(names...)
	must(o.T, os.MkdirAll(filepath.Dir(path), 0o700))
	must(o.T, os.WriteFile(path, []byte(text), 0o600))
	o.age(path)
}

// age sets a file's time to an hour ago.
func (o *office) age(path string) {
	o.T.Helper()
	at := time.Now().Add(-time.Hour)
	must(o.T, os.Chtimes(path, at, at))
}

func (o *office) exists(names ...string) bool {
	_, err := os.Lstat(o.path(names...))
	return err == nil
}

// note returns a message in document 002's form.
func note(id, from, to string) string {
	return fmt.Sprintf(`{
  "id": %q,
  "from": %q,
  "to": %q,
  "type": "note",
  "priority": "normal",
  "payload": {
    "of": %q
  },
  "timestamp": "2025-01-23T12:00:00.1234567Z",
  "status": "pending",
  "replyTo": null
}
`, id, from, to, id)
}

// later sets a file's time to n milliseconds after a day in the past.
func later(t *testing.T, path string, n int) {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(n) * time.Millisecond)
	must(t, os.Chtimes(path, at, at))
}
