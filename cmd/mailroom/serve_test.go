package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/commands/surface/cli"
)

// serving is a `mailroom serve` in its own process.
type serving struct {
	cmd     *exec.Cmd
	address string
	phone   string // address of the phone app
	logs    io.Reader
	log     *bufio.Scanner // reads logs
}

func (o *office) serve(flags ...string) *serving {
	o.t.Helper()
	return o.serveAt("127.0.0.1:0", flags...)
}

// serveAt starts a daemon that listens at an address.
func (o *office) serveAt(listen string, flags ...string) *serving {
	o.t.Helper()
	s := &serving{cmd: o.network.within(o.command(append([]string{"serve", "--listen", listen, "--log-level", "info"}, flags...)...))}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		o.t.Fatal(err)
	}
	logs, err := s.cmd.StderrPipe()
	if err != nil {
		o.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { s.cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		o.t.Fatal(err)
	}
	var hello struct{ Listening, Phone, Database string }
	if err := json.Unmarshal(line, &hello); err != nil || hello.Database != o.db {
		o.t.Fatalf("first line %s: %v", line, err)
	}
	s.address, s.phone, s.logs, s.log = hello.Listening, hello.Phone, logs, bufio.NewScanner(logs)
	return s
}

// until reads the log up to the first line that contains text.
func (s *serving) until(t *testing.T, text string) {
	t.Helper()
	for s.log.Scan() {
		if strings.Contains(s.log.Text(), text) {
			return
		}
	}
	t.Fatalf("the log ends without %q", text)
}

// hold blocks deliveries to a JSONL file until the test ends, as a rotation does.
func hold(t *testing.T, path string) {
	t.Helper()
	side, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { side.Close() })
	if err := unix.Flock(int(side.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}

// patience is how long a test waits for something that another program does on its own.
const patience = 2 * time.Minute

// until polls until reached returns true, and fails the test with what if that takes too long. It pauses between
// polls to leave the processor to the program that it waits for.
func (o *office) until(what string, reached func() bool) {
	o.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); !reached(); <-again.C {
		if time.Now().After(deadline) {
			o.t.Fatalf("it does not come about that %s", what)
		}
	}
}

// allRead reports whether an agent has read all its messages and no reader holds a lease. It uses one statement,
// because two would miss a lease that ends between them.
func (o *office) allRead(agent string) bool {
	return o.rows(`SELECT (SELECT count(*) FROM agent_inbox WHERE recipient = '` + agent + `' AND read_at = '')
		+ (SELECT count(*) FROM reading_lease)`)[0] == "0"
}

// await polls until a query returns exactly one row equal to want.
func (o *office) await(query, want string) {
	o.t.Helper()
	o.until(fmt.Sprintf("%s gives %s", query, want), func() bool {
		rows := o.rows(query)
		return len(rows) == 1 && rows[0] == want
	})
}

// TestServeStops checks that a blocked file delays no inbox, and that on SIGTERM the daemon releases the file's
// message without counting a retry and exits with 0.
func TestServeStops(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "held.jsonl")
	o := newOffice(t, "a", "held --deliver jsonl:"+file)
	hold(t, file)
	s := o.serve()
	o.run("send", "--sender", "a", "--recipient", "held", "--message-type", "note")
	o.await(`SELECT count(*) FROM agent_message WHERE recipient = 'held' AND lease_token <> ''`, "1")
	o.run("send", "--sender", "held", "--recipient", "a", "--message-type", "note")
	o.await(`SELECT count(*) FROM agent_inbox WHERE recipient = 'a'`, "1")
	for path, status := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200} {
		res, err := http.Get(s.address + path)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := exitStatus(t, s.cmd); got != 0 {
		t.Errorf("exit status %d; want 0", got)
	}
	if got := o.rows(`SELECT status, retry_count, lease_token FROM agent_message
		WHERE recipient = 'held'`); len(got) != 1 || got[0] != "pending|0|" {
		t.Errorf("the message after the stop: %v", got)
	}
	if got := o.rows(`SELECT count(*) FROM daemons`)[0]; got != "0" {
		t.Errorf("%s daemons are left", got)
	}
}

// TestServeStoppedWhileStarting checks that a daemon that is stopped before it has started also exits with 0.
func TestServeStoppedWhileStarting(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errors.New("terminated signal received"))
	p := cli.Standard(config())
	p.Out, p.Err = io.Discard, io.Discard
	if got := p.Run(ctx, []string{"mailroom", "--db", filepath.Join(t.TempDir(), "mailroom.db"), "serve"}); got != 0 {
		t.Errorf("exit status %d; want 0", got)
	}
}

// TestServeSecondSignal checks that a second signal ends the daemon without waiting for a delivery under way.
func TestServeSecondSignal(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "held.jsonl")
	o := newOffice(t, "a", "held --deliver jsonl:"+file)
	hold(t, file)
	s := o.serve()
	o.run("send", "--sender", "a", "--recipient", "held", "--message-type", "note")
	o.await(`SELECT count(*) FROM agent_message WHERE recipient = 'held' AND lease_token <> ''`, "1")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.until(t, "stopping")
	ended := make(chan int, 1)
	go func() { ended <- exitStatus(t, s.cmd) }()
	// The first of these signals may arrive before the daemon has restored the default handling of signals.
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case got := <-ended:
			if got != -1 {
				t.Errorf("exit status %d; want the end by the signal", got)
			}
			return
		case <-again.C:
			s.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
}
