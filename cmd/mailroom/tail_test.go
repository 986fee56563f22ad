package main

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// tailed is a running `mailroom tail --json`.
type tailed struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Reader
}

func (o *office) tail(args ...string) *tailed {
	o.t.Helper()
	return o.follow(o.command(append([]string{"tail"}, args...)...))
}

// follow starts a process that runs tail.
func (o *office) follow(cmd *exec.Cmd) *tailed {
	o.t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { cmd.Process.Kill() })
	return &tailed{o.t, cmd, bufio.NewReader(out)}
}

// line reads one line.
func (s *tailed) line() string {
	s.t.Helper()
	text, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatalf("tail ends: %v", err)
	}
	return strings.TrimSpace(text)
}

// shows reads lines up to an event of a message and returns how many events were left out before it.
func (s *tailed) shows(event, id string) (leftOut int) {
	s.t.Helper()
	for {
		var e struct {
			Event   string
			LeftOut int    `json:"left_out"`
			ID      string `json:"message_id"`
		}
		text := s.line()
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			s.t.Fatalf("%s: %v", text, err)
		}
		if leftOut += e.LeftOut; e.Event == event && e.ID == id {
			return leftOut
		}
	}
}

// interrupted sends SIGINT, as Ctrl-C does, and checks the exit status.
func (s *tailed) interrupted() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		s.t.Fatal(err)
	}
	want.Equal(s.t, "exit status", exitStatus(s.t, s.cmd), 130)
}

// TestTail checks that tail shows the last events and then new ones, of all agents or of one, until Ctrl-C, and that
// it goes on when a daemon ends.
func TestTail(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b", "c")
	first := o.run("send", "b", "one", "--as", "a")["message_id"].(string)
	all, ofB := o.tail("-n", "1", "--json"), o.tail("--agent", "b", "--json")
	want.Equal(t, "left out", all.shows("created", first), 0)
	ofB.shows("created", first)
	o.run("send", "c", "two", "--as", "a")
	daemon := o.command("serve")
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	all.shows("delivered", first)
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	daemon.Wait()
	third := o.run("send", "b", "three", "--as", "a")["message_id"].(string)
	all.shows("created", third)
	var e struct{ Recipient string }
	for range 2 { // delivered and created, none of c
		if err := json.Unmarshal([]byte(ofB.line()), &e); err != nil || e.Recipient != "b" {
			t.Errorf("%+v, %v", e, err)
		}
	}
	all.interrupted()
	ofB.interrupted()
}

// TestTailLeavesOut checks that tail, if events happen faster than it can write, reports how many it has left out and
// goes on with the newest.
func TestTailLeavesOut(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	id := o.run("send", "b", "one", "--as", "a")["message_id"].(string)
	s := o.tail("-n", "1", "--json")
	s.shows("created", id)
	const many = 50_000
	o.rows(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
		INSERT INTO message_trace (message_id, at, event) SELECT 'm' || i, '2026-01-02T03:04:05.678Z', 'overdue'
			FROM n`)
	last := o.run("send", "b", "two", "--as", "a")["message_id"].(string)
	if left := s.shows("created", last); left < many/2 || left > many {
		t.Errorf("%d events of %d are left out", left, many)
	}
	s.interrupted()
}

// TestTailAfterRestore checks that tail reports once that the database was replaced by an earlier one, and goes on.
func TestTailAfterRestore(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has its own backups")
	o := newOffice(t, "a", "b")
	first := o.run("send", "b", "one", "--as", "a")["message_id"].(string)
	o.run("backup", o.db+".copy")
	for range 5 {
		o.run("send", "b", "gone", "--as", "a")
	}
	newest := o.run("send", "b", "gone as well", "--as", "a")["message_id"].(string)
	s, inWords := o.tail("--json"), o.tail("--text", "-n", "0")
	s.shows("created", newest)
	o.run("restore", o.db+".copy", "--force")
	want.Equal(t, "line", s.line(), `{"begun_anew":true}`)
	s.shows("created", first)
	want.Equal(t, "line", inWords.line(),
		"An earlier database replaced this one, or traces were cleared. The last events are now:")
	second := o.run("send", "b", "two", "--as", "a")["message_id"].(string)
	s.shows("created", second)
	if said := inWords.line(); !strings.Contains(said, "created       "+second) {
		t.Error(said)
	}
	s.interrupted()
	inWords.interrupted()
}
