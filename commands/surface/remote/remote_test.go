package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/want"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, place := range map[string]Place{
		"ssh://studio":                      {Scheme: "ssh", Host: "studio"},
		"SSH://me@studio:2222/":             {Scheme: "ssh", User: "me", Host: "studio", Port: "2222"},
		"ssh://studio/srv/my%20shop/x.db":   {Scheme: "ssh", Host: "studio", Path: "/srv/my shop/x.db"},
		"ssh://me@[fe80::1]:22/~/shop/x.db": {Scheme: "ssh", User: "me", Host: "fe80::1", Port: "22", Path: "~/shop/x.db"},
		"unix:/srv/my shop/x.sock":          {Scheme: "unix", Path: "/srv/my shop/x.sock"},
		"unix:///srv/x.sock":                {Scheme: "unix", Path: "/srv/x.sock"},
		"https://studio.local:9464/":        {Scheme: "https", Host: "studio.local", Port: "9464"},
		"https://[fe80::1]":                 {Scheme: "https", Host: "fe80::1"},
		"http://127.0.0.1:9464":             {Scheme: "http", Host: "127.0.0.1", Port: "9464"},
	} {
		p, err := Parse(text)
		want.Equal(t, "error", err, nil)
		want.Equal(t, text, p, place)
		again, err := Parse(p.String())
		want.Equal(t, "error", err, nil)
		want.Equal(t, text+" as "+p.String(), again, place)
	}
	for _, text := range []string{
		"shop.db", "ssh://", "ssh:///x.db", "ssh://-oProxyCommand=x", "ssh://-l@studio", "ssh://a%20b@studio", "ssh://me:secret@studio",
		"ssh://studio:0", "ssh://studio:99999", "ssh://studio/x?y", "ssh://studio/x#y", "ssh://studio/~", "ssh://%zz",
		"unix:x.sock", "unix:", "https://", "https://me@studio", "https://studio/x", "https://studio/#code", "http://studio:9464",
		"http://10.0.0.1:9464", "http://127.0.0.1.example.org",
	} {
		_, err := Parse(text)
		want.Equal(t, text, orchestrator.CodeOf(err), orchestrator.InvalidParams)
	}
}

// TestPlain checks that control sequences other than colors are removed, however the text is split into pieces.
func TestPlain(t *testing.T) {
	t.Parallel()
	for text, passed := range map[string]string{
		"a\tb\n":                          "a\tb\n",
		"\x1b[1;31mred\x1b[0m":            "\x1b[1;31mred\x1b[0m",
		"\x1b[2Jgone\x1b[Hhome":           "[2Jgone[Hhome",
		"\x1b]0;title\a":                  "]0;title",
		"a\rb\bc\x00\x7f":                 "abc",
		"é 中 😀":                           "é 中 😀",
		"\u0085\u009b31m":                 "31m",
		"\xff\xfe!":                       "!",
		"\x1b[" + strings.Repeat("1", 99): "[" + strings.Repeat("1", 99),
	} {
		for size := 1; size <= len(text); size++ {
			var out bytes.Buffer
			p := &plain{out: &out}
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				if _, err := p.Write([]byte(rest[:n])); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			want.Equal(t, fmt.Sprintf("%q in pieces of %d", text, size), out.String(), passed)
		}
	}
}

// pair connects a client to a server that runs lines with run.
func pair(t *testing.T, run func(ctx context.Context, s *Session) int) (c *Client, cut func()) {
	t.Helper()
	here, there := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- NewServer(run, "").Serve(t.Context(), there, "v1") }()
	conn := NewConn(here, here, here.Close).(*pipeConn)
	if err := conn.greeted(Place{Scheme: "ssh", Host: "there"}); err != nil {
		t.Fatal(err)
	}
	c = NewClient(Place{Scheme: "ssh", Host: "there"}, "", "", func(context.Context) (net.Conn, error) { return conn, nil })
	t.Cleanup(func() {
		c.Close()
		here.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c, func() { here.Close() }
}

// TestRun checks that a line has the streams, files and exit status of this side.
func TestRun(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	long := strings.Repeat("0123456789abcdef", 10_000)
	if err := os.WriteFile(file, []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _ := pair(t, func(_ context.Context, s *Session) int {
		in, err := io.ReadAll(s.In)
		fmt.Fprintf(s.Out, "%d %v %s\n", len(in), err, s.Env["LANG"])
		content, err := s.ReadFile(file)
		fmt.Fprintf(s.Out, "%t %v %t\n", string(content) == long, err, s.Exists(file))
		_, err = s.ReadFile("/etc/passwd")
		fmt.Fprintf(s.Err, "%v %t\x1b[2J\n", err, s.Exists("/etc/passwd"))
		_, err = s.ReadFile(file + ".none")
		fmt.Fprintln(s.Err, err != nil, s.Exists(file+".none"))
		s.Fresh()
		if err := s.Deliver([]byte(long)); err != nil {
			fmt.Fprintln(s.Err, err)
		}
		return 65
	})
	for range 2 { // over one connection
		var out, told bytes.Buffer
		fresh := 0
		status, err := c.Run(t.Context(), &Request{Args: []string{"send", "@" + file, "--file=" + file + ".none"}, Env: map[string]string{"LANG": "C"}},
			Streams{In: strings.NewReader(long), Out: &out, Err: &told, Fresh: func() { fresh++ }})
		want.Equal(t, "forgotten", fresh, 1)
		want.Equal(t, "error", err, nil)
		want.Equal(t, "status", status, 65)
		want.Equal(t, "output", out.String(), "160000 <nil> C\ntrue <nil> true\n"+long)
		want.Equal(t, "told", told.String(), "the command line does not name the file /etc/passwd false[2J\ntrue false\n")
	}
}

// TestNames checks that the other side gets only the files that the line names for reading.
func TestNames(t *testing.T) {
	t.Parallel()
	for line, is := range map[string]bool{
		"send bob @f": true, "send bob --file f": true, "send bob --file=f": true, "send --payload=@f": true, "send --payload @f": true,
		"send bob f": false, "f": false, "send bob -- @f": false, "send bob --file g f": false, "send --payload=f": false, "send bob x@f": false,
	} {
		req := Request{Args: strings.Fields(line)}
		want.Equal(t, line, req.names("f"), is)
	}
}

// TestWritesAfterTheEnd checks that a goroutine that a line has left behind can write nothing and does no harm.
func TestWritesAfterTheEnd(t *testing.T) {
	t.Parallel()
	wrote := make(chan error, 2)
	ended := make(chan struct{})
	c, _ := pair(t, func(_ context.Context, s *Session) int {
		go func() {
			<-ended
			_, err := s.Err.Write([]byte("late"))
			wrote <- err
		}()
		return 0
	})
	_, err := c.Run(t.Context(), &Request{}, Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
	want.Equal(t, "error", err, nil)
	_, err = c.Run(t.Context(), &Request{}, Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}) // the first has ended by now
	want.Equal(t, "error", err, nil)
	close(ended)
	want.Equal(t, "a late write fails", <-wrote != nil, true)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestNotWritten checks that a delivery that could not be written here counts as not written, before the line ends
// here.
func TestNotWritten(t *testing.T) {
	t.Parallel()
	got := make(chan error, 1)
	c, _ := pair(t, func(_ context.Context, s *Session) int {
		got <- s.Deliver([]byte("hello"))
		return 0
	})
	_, err := c.Run(t.Context(), &Request{}, Streams{In: strings.NewReader(""), Out: broken{}, Err: io.Discard})
	want.Equal(t, "here", errors.Is(err, syscall.EPIPE), true)
	select {
	case err := <-got:
		want.Equal(t, "there", err != nil, true)
	default:
		t.Error("it has not ended there")
	}
}

// TestStopped checks that a signal reaches the line on the other side, and that after a lost connection the line ends
// there and its outcome is unknown here.
func TestStopped(t *testing.T) {
	t.Parallel()
	began, causes := make(chan struct{}, 1), make(chan error, 1)
	c, cut := pair(t, func(ctx context.Context, s *Session) int {
		began <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return 130
	})
	signals := make(chan int, 1)
	run := func() (int, error) {
		return c.Run(t.Context(), &Request{}, Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Signals: signals})
	}
	signals <- int(syscall.SIGINT)
	status, err := run()
	want.Equal(t, "error", err, nil)
	want.Equal(t, "status", status, 130)
	<-began
	want.Equal(t, "cause", (<-causes).Error(), "interrupt signal received")
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := c.Run(ctx, &Request{}, Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
		ended <- err
	}()
	<-began
	cancel()
	want.Equal(t, "a line that was given up", <-ended, context.Canceled)
	<-causes
	go func() {
		_, err := run()
		ended <- err
	}()
	<-began
	cut()
	err = <-ended
	want.Equal(t, "code", orchestrator.CodeOf(err), orchestrator.Unavailable)
	want.Equal(t, "said", strings.Contains(err.Error(), "the outcome is unknown"), true)
	if <-causes == nil {
		t.Error("what ran there was not told to stop")
	}
}

// TestGreeting checks that the output of a shell at its start is skipped, and that the error names a program of
// another version, or a missing one.
func TestGreeting(t *testing.T) {
	t.Parallel()
	for text, code := range map[string]orchestrator.Code{
		"Welcome!\n\x1b[2Jmailroom-remote 1 v2\n": "", "mailroom-remote 2 v2\n": orchestrator.Conflict,
		"sh: mailroom: not found\n": orchestrator.Unavailable, "": orchestrator.Unavailable,
		strings.Repeat("noise\n", 20_000): orchestrator.Unavailable,
	} {
		conn := NewConn(strings.NewReader(text), io.Discard, nil).(*pipeConn)
		err := conn.greeted(Place{Scheme: "ssh", Host: "there"})
		if code == "" {
			want.Equal(t, "error", err, nil)
		} else {
			want.Equal(t, orchestrator.Clip(text), orchestrator.CodeOf(err), code)
		}
	}
}
