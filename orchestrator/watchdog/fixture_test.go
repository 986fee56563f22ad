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
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/transport"
	"mailroom/orchestrator/watchdog"
)

// fixture is a database whose agents' sessions are controlled by the test.
type fixture struct {
	*enginetest.Fixture
	folder  string
	control *net.UnixListener
}

// newFixture creates a fixture with the agents boss and pm. c may be nil, for the system's clock.
func newFixture(t *testing.T, c *enginetest.Clock) *fixture {
	t.Helper()
	folder, err := os.MkdirTemp("", "wd") // t.TempDir's path may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	f := &fixture{Fixture: &enginetest.Fixture{T: t, Path: filepath.Join(folder, "mailroom.db"), Clock: c},
		folder: folder}
	o := ledger.Options{
		Path: f.Path,
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{},
			"exec": transport.Exec{}},
	}
	if c != nil {
		o.Now = c.Now
	}
	f.Engine = enginetest.OpenWith(t, o)
	if f.control, err = net.ListenUnix("unix",
		&net.UnixAddr{Name: filepath.Join(folder, "c"), Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.control.Close() })
	f.control.SetDeadline(time.Now().Add(2 * time.Minute)) // ends only a test that hangs
	f.AddAll("boss", "pm")
	return f
}

// notes returns the file in which the sessions of an agent record their starts.
func (f *fixture) notes(agent string) string { return filepath.Join(f.folder, agent+".notes") }

// addActor adds an agent whose sessions are controlled by the test.
func (f *fixture) addActor(name string, change ...func(*agents.Update)) {
	f.T.Helper()
	f.addStarted(name, fmt.Sprintf("CONTROL='%s/c' ", f.folder), change...)
}

// addStarted adds an agent whose command is the test program with some environment.
func (f *fixture) addStarted(name, environment string, change ...func(*agents.Update)) {
	f.T.Helper()
	command := fmt.Sprintf("NOTES='%s' %s exec '%s' agent", f.notes(name), environment, os.Args[0])
	u := agents.Update{Name: name, StartCommand: &command, Folder: f.folder}
	for _, c := range change {
		c(&u)
	}
	f.Add(u)
}

// watch runs a watchdog in this process until the test ends or stop is called.
func (f *fixture) watch(change ...func(*watchdog.Watchdog)) (stop func()) {
	f.T.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.T.Context()))
	w := &watchdog.Watchdog{Ledger: f.Ledger, Log: slog.New(slog.DiscardHandler), Grace: time.Hour} // no SIGKILL
	for _, c := range change {
		c(w)
	}
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			f.T.Errorf("the watchdog ended with %v", err)
		}
	})
	f.T.Cleanup(stop)
	return stop
}

// startWatchdog starts a watchdog in a separate process.
func (f *fixture) startWatchdog() *exec.Cmd {
	f.T.Helper()
	cmd := exec.Command(os.Args[0], "watchdog", f.Path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 6))
	}
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

// task sends a task and delivers it.
func (f *fixture) task(recipient string) string {
	f.T.Helper()
	sent, err := messages.Send(f.T.Context(), f.Ledger,
		orchestrator.Draft{Sender: "boss", Recipient: recipient, Type: "task_assign"})
	if err != nil {
		f.T.Fatal(err)
	}
	if _, err := f.DeliverAll(f.T.Context(), delivery.Options{}); err != nil {
		f.T.Fatal(err)
	}
	return sent.MessageID
}

// until waits until a query returns one row with this text.
func (f *fixture) until(row, query string, params ...any) {
	f.T.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	giveUp := time.After(2 * time.Minute) // ends only a test that hangs
	for {
		rows := f.Rows(query, params...)
		if len(rows) == 1 && rows[0] == row {
			return
		}
		select {
		case <-tick.C:
		case <-giveUp:
			f.T.Fatalf("%s gives %q, never %q", query, rows, row)
		}
	}
}

// untilRun waits until the last run of an agent is in a state.
func (f *fixture) untilRun(agent string, state sessions.RunState) sessions.Run {
	f.T.Helper()
	f.until(string(state), `SELECT state FROM agent_runs WHERE agent = ?`, agent)
	return f.run(agent)
}

func (f *fixture) run(agent string) sessions.Run {
	f.T.Helper()
	s, err := overview.StandingOf(f.T.Context(), f.Ledger, agent)
	if err != nil || s.Run == nil {
		f.T.Fatalf("%+v, %v", s, err)
	}
	return *s.Run
}

// starts returns how often an agent was started, by its own records, and fails if two sessions ran at once.
func (f *fixture) starts(agent string) int {
	f.T.Helper()
	text, err := os.ReadFile(f.notes(agent))
	if err != nil && !os.IsNotExist(err) {
		f.T.Fatal(err)
	}
	if strings.Contains(string(text), "overlap") {
		f.T.Errorf("two sessions of %s ran at once: %s", agent, text)
	}
	return strings.Count(string(text), "start\n")
}

// left returns the background processes that the sessions of an agent have recorded.
func (f *fixture) left(agent string) (pids []string) {
	text, _ := os.ReadFile(f.notes(agent)) // the file may not exist yet
	for line := range strings.Lines(string(text)) {
		if pid, found := strings.CutPrefix(line, "left "); found {
			pids = append(pids, strings.TrimSpace(pid))
		}
	}
	return pids
}
