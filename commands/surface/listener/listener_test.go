package listener

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// visit sends a request on a connection that stays open, and reports whether there was an answer.
func visit(t *testing.T, s *Server) (c net.Conn, answered bool) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.Address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	line, err := bufio.NewReader(c).ReadString('\n')
	return c, err == nil && strings.Contains(line, "204")
}

// signalled waits for a signal.
func signalled(t *testing.T, what string, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(time.Minute):
		t.Fatalf("%s: nothing for a minute", what)
	}
}

// crowded serves at most most connections. idle is signaled each time the server considers a connection idle, which
// happens shortly after its client has the answer. busy is signaled while a POST is running, until release is closed.
func crowded(t *testing.T, most int64) (s *Server, idle, busy, release chan struct{}) {
	s, err := Open(t.Context(),
		Options{Name: "test", Address: "127.0.0.1:0", Bounds: Usual, Connections: most,
			Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	idle, busy, release = make(chan struct{}, 100), make(chan struct{}, 100), make(chan struct{})
	change := s.server.ConnState
	s.server.ConnState = func(c net.Conn, state http.ConnState) {
		change(c, state)
		if state == http.StateIdle {
			idle <- struct{}{}
		}
	}
	s.Serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			busy <- struct{}{}
			<-release
		}
		rw.WriteHeader(http.StatusNoContent)
	}))
	return s, idle, busy, release
}

// TestCrowd checks that one connection too many replaces the one that has been idle for the longest time, so that
// nobody can lock others out by holding connections. While all are busy, the new connection is closed.
func TestCrowd(t *testing.T) {
	t.Parallel()
	const most = 3
	s, idle, busy, release := crowded(t, most)
	var there []net.Conn
	for range 2 * most {
		c, answered := visit(t, s)
		if !answered {
			t.Fatalf("connection %d has no answer", len(there)+1)
		}
		there = append(there, c)
		signalled(t, "a connection that is idle", idle)
	}
	for _, c := range there[:most] {
		if rest, err := io.ReadAll(c); err != nil || strings.Contains(string(rest), "HTTP") {
			t.Errorf("an idle connection that had to go: %q, %v", rest, err)
		}
	}
	for _, c := range there[most:] {
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
		signalled(t, "a connection that must not go", busy)
	}
	for range 5 {
		if _, answered := visit(t, s); answered {
			t.Error("there is one connection more than there may be")
		}
	}
	close(release)
	s.Close()
	s.Close()
	if c, err := net.Dial("tcp", strings.TrimPrefix(s.Address, "http://")); err == nil {
		c.Close()
		t.Error("a listener that was closed takes connections")
	}
}

// TestClosedBeforeItServes checks that closing a listener right after Serve leaves nothing behind, even if serving
// has not begun.
func TestClosedBeforeItServes(t *testing.T) {
	t.Parallel()
	for range 50 {
		s, err := Open(t.Context(),
			Options{Name: "test", Address: "127.0.0.1:0", Bounds: Usual, Connections: 1,
				Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		s.Serve(http.NotFoundHandler())
		s.Close()
		if c, err := net.Dial("tcp", strings.TrimPrefix(s.Address, "http://")); err == nil {
			c.Close()
			t.Error("a listener that was closed takes connections")
		}
	}
}

func TestHostNames(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"a.example": "a.example", "a.example:80": "a.example", "[::1]": "::1", "[::1]:80": "::1", "a:b": "",
		"a:99999": "", "a:-1": "", "": "", ":80": "",
	} {
		if got := HostOf(header); got != want {
			t.Errorf("HostOf(%q) is %q; want %q", header, got, want)
		}
	}
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true,
		"::ffff:127.0.0.1": true,
		"":                 false, "localhost.": false, "0.0.0.0": false, "::": false, "localhost.example": false,
		"127.0.0.1.example": false, "2130706433": false, "10.0.0.1": false,
	} {
		if got := IsLoopback(host); got != want {
			t.Errorf("IsLoopback(%q) is %t", host, got)
		}
	}
	if n := Share(2); n < 8 || n > 1<<13 {
		t.Errorf("a half of the files is %d", n)
	}
}
