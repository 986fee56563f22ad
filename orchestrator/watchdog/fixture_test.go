package watchdog_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/transport"
	"mailroom/orchestrator/watchdog"
)

// clock is a clock that only moves when it is told to.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// fixture is a database whose agents' sessions do what the test says.
type fixture struct {
	*delivery.Engine
	t       *testing.T
	folder  string
	path    string
	clock   *clock // nil: the system's
	control *net.UnixListener
}

// newFixture has the agents boss and pm.
func newFixture(t *testing.T, c *clock) *fixture {
	t.Helper()
	folder, err := os.MkdirTemp("", "wd") // t.TempDir's may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	f := &fixture{t: t, folder: folder, path: filepath.Join(folder, "mailroom.db"), clock: c}
	o := ledger.Options{
		Path: f.path, Log: slog.New(slog.DiscardHandler),
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{}, "exec": transport.Exec{}},
	}
	if c != nil {
		c.at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		o.Now = c.now
	}
	if f.Engine, err = router.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if f.control, err = net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(folder, "c"), Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.control.Close() })
	f.control.SetDeadline(time.Now().Add(2 * time.Minute)) // ends only a test that hangs
	f.add(agents.Update{Name: "boss"})
	f.add(agents.Update{Name: "pm"})
	return f
}

func (f *fixture) add(u agents.Update) {
	f.t.Helper()
	if _, _, err := agents.Add(f.t.Context(), f.Ledger, u); err != nil {
		f.t.Fatal(err)
	}
}

// notes is where the sessions of an agent note that they were started.
func (f *fixture) notes(agent string) string { return filepath.Join(f.folder, agent+".notes") }

// addActor adds an agent whose sessions do what the test says.
func (f *fixture) addActor(name string, change ...func(*agents.Update)) {
	f.t.Helper()
	f.addStarted(name, fmt.Sprintf("CONTROL='%s/c' ", f.folder), change...)
}

// addStarted adds an agent whose command is the test program with some environment.
func (f *fixture) addStarted(name, environment string, change ...func(*agents.Update)) {
	f.t.Helper()
	command := fmt.Sprintf("NOTES='%s' %s exec '%s' agent", f.notes(name), environment, os.Args[0])
	u := agents.Update{Name: name, StartCommand: &command, Folder: f.folder}
	for _, c := range change {
		c(&u)
	}
	f.add(u)
}

// watch runs a watchdog in this process until the test ends, or stop is called.
func (f *fixture) watch(change ...func(*watchdog.Watchdog)) (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	w := &watchdog.Watchdog{Router: f.Ledger, Log: slog.New(slog.DiscardHandler), Grace: time.Hour} // nothing needs SIGKILL
	for _, c := range change {
		c(w)
	}
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("the watchdog ended with %v", err)
		}
	})
	f.t.Cleanup(stop)
	return stop
}

// startWatchdog starts a watchdog in a process of its own.
func (f *fixture) startWatchdog() *exec.Cmd {
	f.t.Helper()
	cmd := exec.Command(os.Args[0], "watchdog", f.path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 6))
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

// send sends a message and delivers it.
func (f *fixture) send(recipient string) string {
	f.t.Helper()
	sent, err := messages.Send(f.t.Context(), f.Ledger, orchestrator.Draft{Sender: "boss", Recipient: recipient, Type: "task_assign"})
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.DeliverAll(f.t.Context(), delivery.Options{}); err != nil {
		f.t.Fatal(err)
	}
	return sent.MessageID
}

// rows runs a query and returns every row as text, columns separated by spaces.
func (f *fixture) rows(query string, params ...any) (rows []string) {
	f.t.Helper()
	table, err := f.Query(f.t.Context(), query, 1_000_000, params...)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, row := range table.Rows {
		rows = append(rows, strings.TrimSuffix(fmt.Sprintln(row.Values...), "\n"))
	}
	return rows
}

// until waits until a query gives one row.
func (f *fixture) until(row, query string, params ...any) {
	f.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	giveUp := time.After(2 * time.Minute) // ends only a test that hangs
	for {
		rows := f.rows(query, params...)
		if len(rows) == 1 && rows[0] == row {
			return
		}
		select {
		case <-tick.C:
		case <-giveUp:
			f.t.Fatalf("%s gives %q, never %q", query, rows, row)
		}
	}
}

// untilRun waits until the last run of an agent is in a state.
func (f *fixture) untilRun(agent string, state sessions.RunState) sessions.Run {
	f.t.Helper()
	f.until(string(state), `SELECT state FROM agent_runs WHERE agent = ?`, agent)
	return f.run(agent)
}

func (f *fixture) run(agent string) sessions.Run {
	f.t.Helper()
	s, err := overview.StandingOf(f.t.Context(), f.Ledger, agent)
	if err != nil || s.Run == nil {
		f.t.Fatalf("%+v, %v", s, err)
	}
	return *s.Run
}

// starts counts how often an agent was started, by its own notes, which must say that no two ran at once.
func (f *fixture) starts(agent string) int {
	f.t.Helper()
	text, err := os.ReadFile(f.notes(agent))
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	if strings.Contains(string(text), "overlap") {
		f.t.Errorf("two sessions of %s ran at once: %s", agent, text)
	}
	return strings.Count(string(text), "start\n")
}

// left lists the processes that the sessions of an agent have noted that they left running.
func (f *fixture) left(agent string) (pids []string) {
	text, _ := os.ReadFile(f.notes(agent)) // none was started
	for line := range strings.Lines(string(text)) {
		if pid, found := strings.CutPrefix(line, "left "); found {
			pids = append(pids, strings.TrimSpace(pid))
		}
	}
	return pids
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v; want %v", what, got, want)
	}
}
