package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mailroom/orchestrator/orchestratortest/enginetest"
)

// exitStatus waits for a process and returns its exit status, or -1 if a signal ended it.
func exitStatus(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// TestWaitUnmarksWhenNobodyReads checks that a process whose standard output is a closed pipe lives on to mark the
// message as unread again.
func TestWaitUnmarksWhenNobodyReads(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	o.run("send", "--sender", "a", "--recipient", "b", "--message-type", "note")
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out.Close()
	defer in.Close()
	wait := o.command("wait", "--recipient", "b", "--timeout", "0")
	wait.Stdout = in
	if err := wait.Start(); err != nil {
		t.Fatal(err)
	}
	if got := exitStatus(t, wait); got != 141 {
		t.Errorf("exit status %d; want 141", got)
	}
	if got := o.run("wait", "--recipient", "b", "--timeout", "0")["count"]; got != 1.0 {
		t.Errorf("the next wait takes %v messages; want 1", got)
	}
}

// TestByteOrderMarks checks that a UTF-8 byte order mark, which PowerShell writes before a text, is skipped wherever
// text is read.
func TestByteOrderMarks(t *testing.T) {
	t.Parallel()
	const mark, line = "\ufeff", `{"sender":"a","recipient":"b","message_type":"note","payload":"ok"}`
	o := newOffice(t, "a", "b")
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return "@" + path
	}
	for _, c := range []struct {
		in, args string
		sent     int
	}{
		{mark + line + "\r\n" + mark + line + "\n" + mark + "\n" + mark, "send --stdin", 2},
		{mark + line, "send --stdin --atomic", 1},
		{mark + "ok\r\n", "send --as a b -", 1},
		{mark + `"ok"` + "\r\n", "send --as a --recipient b --message-type note --payload -", 1},
		{"", "send --as a --recipient b --message-type note --payload " + file(mark+`"ok"`), 1},
		{mark + line, "invoke send -", 1},
		{"", "invoke send " + file(mark+line), 1},
	} {
		cmd := o.command(strings.Fields(c.args)...)
		cmd.Stdin = strings.NewReader(c.in)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", c.args, err, out)
		}
		got := o.run("wait", "--recipient", "b", "--timeout", "0")
		messages, _ := got["messages"].([]any)
		for _, m := range messages {
			if m.(map[string]any)["payload"] != "ok" {
				t.Errorf("%s sends %v", c.args, m)
			}
		}
		if len(messages) != c.sent {
			t.Errorf("%s sends %d messages; want %d", c.args, len(messages), c.sent)
		}
	}
	// A UTF-16 byte order mark is not skipped but reported.
	for _, args := range []string{"send --as a b -", "invoke send -"} {
		cmd := o.command(strings.Fields(args)...)
		cmd.Stdin = strings.NewReader("\xff\xfeS\x00E\x00")
		if out, err := cmd.CombinedOutput(); err == nil ||
			!strings.Contains(string(out), "must be UTF-8, but is UTF-16") {
			t.Errorf("%s of UTF-16: %v: %s", args, err, out)
		}
	}
}

// TestReadIsTakenBackWhenStopped checks that a signal ends a command whose output is blocked on a full pipe, and that
// messages that it did not write out are unread again, however often the signal arrives.
func TestReadIsTakenBackWhenStopped(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b --inbox-view")
	o.run("send", "--sender", "a", "--recipient", "b", "--message-type", "note", "--payload",
		`"`+strings.Repeat("x", 100<<10)+`"`)
	o.run("send", "--sender", "a", "--recipient", "b", "--message-type", "note", "--payload", `"second"`)
	o.run("deliver_all")
	for _, c := range []struct {
		stop    syscall.Signal
		status  int
		command []string
	}{
		{syscall.SIGINT, 130, []string{"read", "b"}},
		{syscall.SIGINT, 130, []string{"wait", "b", "--text"}},
		{syscall.SIGTERM, 143, []string{"read", "b"}},
		{syscall.SIGHUP, 129, []string{"read", "b", "--text"}},
		{syscall.SIGHUP, 129, []string{"--as", "b", "ralph", "inbox"}},
	} {
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := o.command(c.command...)
		cmd.Stdout = in
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		in.Close()
		if _, err := io.ReadFull(out, make([]byte, 1000)); err != nil { // the command is writing now
			t.Fatal(err)
		}
		release := enginetest.Jam(t, o.db)
		// Repeats the signal while the command waits for its turn to mark the messages as unread.
		for range 50 {
			if err := cmd.Process.Signal(c.stop); err != nil {
				t.Fatal(err)
			}
			o.rows("SELECT 1")
		}
		release()
		if got := exitStatus(t, cmd); got != c.status {
			t.Errorf("%v ends %v with status %d; want %d", c.stop, c.command, got, c.status)
		}
		out.Close()
		if got := o.rows("SELECT count(*) FROM b_inbox"); got[0] != "2" {
			t.Fatalf("after %v and %v %s messages are unread; want 2", c.command, c.stop, got[0])
		}
	}
}

// TestOfSignalsUnderNohup checks that the tests that send signals also pass if they are started with SIGHUP ignored.
func TestOfSignalsUnderNohup(t *testing.T) {
	t.Parallel()
	const test = "TestReadIsTakenBackWhenStopped"
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `trap '' HUP INT; exec "$0" -test.v -test.run "^$1$"`,
		os.Args[0], test)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+test) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestHangupIsLeftIgnored checks that a command started with SIGHUP ignored, as nohup does, goes on after a hangup.
func TestHangupIsLeftIgnored(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	first := o.run("send", "b", "one", "--as", "a")["message_id"].(string)
	tail := o.command("tail", "--json")
	tail.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`}, tail.Args...)
	tail.Path = "/bin/sh"
	s := o.follow(tail)
	s.shows("created", first)
	if err := tail.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.shows("created", o.run("send", "b", "two", "--as", "a")["message_id"].(string))
	s.interrupted()
}

// TestLinesAreAnsweredOneByOne checks that each line is answered while standard input stays open, and that SIGINT
// ends the wait for more lines.
func TestLinesAreAnsweredOneByOne(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	send := o.command("send", "--stdin")
	in, err := send.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := send.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := send.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	for range 3 {
		if _, err := io.WriteString(in, `{"sender":"a","recipient":"b","message_type":"note"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := answers.ReadString('\n')
		if err != nil || !strings.Contains(answer, `"success":true`) {
			t.Fatalf("answer %q, %v", answer, err)
		}
	}
	if err := send.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(answers)
	if err != nil || !strings.Contains(string(rest), `"error":"unavailable"`) {
		t.Errorf("the last answer is %q, %v", rest, err)
	}
	if got := exitStatus(t, send); got != 130 {
		t.Errorf("exit status %d; want 130", got)
	}
	if got := o.rows("SELECT count(*) FROM agent_message"); got[0] != "3" {
		t.Errorf("%s messages were sent; want 3", got[0])
	}
}
