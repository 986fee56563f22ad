package transport_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mailroom/orchestrator/transport"
)

// wire starts a server without HTTP: it reads a request and lets talk respond. over is closed at the end of the
// test. wire returns the server's address.
func wire(t *testing.T, talk func(conn net.Conn, over <-chan struct{})) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	over := make(chan struct{})
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					io.Copy(io.Discard, r.Body)
					talk(conn, over)
				}
			})
		}
	})
	t.Cleanup(func() {
		close(over)
		listener.Close()
		serving.Wait()
	})
	return "http://" + listener.Addr().String() + "/"
}

// Whatever a receiver does, the attempt ends, its error describes what happened, and it counts as delivered only if
// the status does.
func TestWebhookBrokenReceivers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer string
		hang   bool   // instead of closing the connection
		want   string // in the error; "" is delivered
	}{
		"closes at once":        {"", false, "no answer from 127.0.0.1"},
		"closes in the status":  {"HTTP/1.1 20", false, "no answer"},
		"closes in the headers": {"HTTP/1.1 200 OK\r\nContent-Le", false, "no answer"},
		"closes in the body":    {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nthanks", false, ""},
		"closes in a failure's body": {"HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\nsorry", false,
			"answered 500 Internal Server Error: sorry"},
		"drips its body":         {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nt", true, ""},
		"drips a failure's body": {"HTTP/1.1 502 No\r\nContent-Length: 100\r\n\r\ns", true, "answered 502"},
		"never ends":             {"HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 1<<20), true, ""},
		"breaks its chunks":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false, ""},
		"switches protocols": {"HTTP/1.1 101 OK\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", true,
			"answered 101"},
		"is another server":     {"SSH-2.0-OpenSSH_9.6\r\n", false, "malformed"},
		"talks garbage":         {"\x00\x1b[2J" + strings.Repeat("\xff", 3000) + "\r\n\r\n", false, "malformed"},
		"talks without end":     {strings.Repeat("x", 1<<20), true, "no answer"},
		"sends endless headers": {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1<<17), true, "no answer"},
		"has two lengths": {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", false,
			"no answer"},
		"has no such version": {"HTTP/x 200 OK\r\n\r\n", false, "malformed"},
		"has no such status":  {"HTTP/1.1 abc OK\r\n\r\n", false, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := wire(t, func(conn net.Conn, over <-chan struct{}) {
				io.WriteString(conn, test.answer)
				if test.hang {
					<-over
				}
			})
			r := newReceiver(t, false, nil)
			w := r.webhook(transport.Surroundings{Patience: time.Millisecond})
			a, report := r.attempt(note("m", `1`))
			a.Address = address
			err := errors.Join(w.Deliver(t.Context(), a)...)
			if test.want == "" && err != nil || test.want != "" &&
				(err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v; want %q", err, test.want)
			}
			if text := fmt.Sprint(err); len(text) > 600 || strings.ContainsAny(text+*report, "\x1b\x00") ||
				len(*report) > 16<<10 {
				t.Errorf("the receiver's text comes through: %d bytes %q, %d bytes reported", len(text), text,
					len(*report))
			}
			a.Address = r.address
			must(t, errors.Join(w.Deliver(t.Context(), a)...))
		})
	}
}

// An attempt ends with its context, wherever the receiver delays it, and leaves the transport usable.
func TestWebhookHangs(t *testing.T) {
	t.Parallel()
	for name, sends := range map[string]string{
		"before the status": "", "in the status": "HTTP/1.1 2", "in the headers": "HTTP/1.1 200 OK\r\nX-",
		"after a preliminary answer": "HTTP/1.1 103 Early Hints\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			enough := errors.New("the time is up")
			r := newReceiver(t, false, nil)
			w := r.webhook(transport.Surroundings{})
			a, _ := r.attempt(note("m", `1`))
			a.Address = wire(t, func(conn net.Conn, over <-chan struct{}) {
				io.WriteString(conn, sends)
				cancel(enough)
				<-over
			})
			if err := errors.Join(w.Deliver(ctx, a)...); !errors.Is(err, enough) {
				t.Errorf("%v; want what ended the context", err)
			}
			a.Address = r.address
			must(t, errors.Join(w.Deliver(t.Context(), a)...))
		})
	}
}

// Nothing is delivered to a receiver that is down or does not prove its identity.
func TestWebhookUnreachable(t *testing.T) {
	t.Parallel()
	secure, plain := newReceiver(t, true, nil), newReceiver(t, false, nil)
	trusting := secure.webhook(transport.Surroundings{})
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	port := func(address string) string { return address[strings.LastIndex(address, ":"):] }
	for _, test := range []struct {
		what, address, want string
		by                  *transport.Webhook
	}{
		{"a certificate that nobody vouches for", secure.address, "certificate",
			plain.webhook(transport.Surroundings{TLS: &tls.Config{}})},
		{"a certificate for another name", "https://localhost" + port(secure.server.URL), "certificate",
			transport.NewWebhook(transport.Surroundings{TLS: &tls.Config{RootCAs: x509.NewCertPool()}})},
		{"no TLS", "https://127.0.0.1" + port(plain.server.URL) + "/", "TLS", trusting},
		{"TLS unasked for", "http://127.0.0.1" + port(secure.server.URL) + "/", "answered 400", trusting},
		{"nothing there", down.URL + "/", "connection refused", trusting},
		{"an unknown name", "http://nowhere.example/", "no such host", trusting},
	} {
		a, _ := secure.attempt(note("m", `1`))
		a.Address = test.address
		err := errors.Join(test.by.Deliver(t.Context(), a)...)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", test.what, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "key=1") {
			t.Errorf("%s: the error shows the query, which can hold a key: %v", test.what, err)
		}
	}
	if got := append(secure.all(), plain.all()...); len(got) != 0 {
		t.Errorf("%d requests arrived", len(got))
	}
}

// A response that refuses a request before reading it is a refusal, and the request is not repeated.
func TestWebhookRefusedUnread(t *testing.T) {
	t.Parallel()
	var count atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		count.Add(1)
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	t.Cleanup(server.Close)
	r := newReceiver(t, false, nil)
	w := r.webhook(transport.Surroundings{})
	a, _ := r.attempt(note("m", `"`+strings.Repeat("x", 1<<20-2)+`"`))
	a.Address = server.URL + "/"
	if err := errors.Join(w.Deliver(t.Context(), a)...); err == nil || count.Load() != 1 {
		t.Errorf("%v, after %d requests", err, count.Load())
	}
}

// A connection that the receiver closes after a response does no harm. If the receiver closes it on a request, the
// attempt fails and does not repeat the request, because the receiver may have read it.
func TestWebhookKeptConnections(t *testing.T) {
	t.Parallel()
	var asked, connections atomic.Int32
	r := newReceiver(t, false, func(w http.ResponseWriter, _ *http.Request, q *request) {
		asked.Add(1)
		if q.messageID == "dropped" {
			panic(http.ErrAbortHandler)
		}
	})
	w := r.webhook(transport.Surroundings{Dialling: func(string) error {
		connections.Add(1)
		return nil
	}})
	for _, id := range []string{"a", "b", "dropped", "c"} {
		a, _ := r.attempt(note(id, `1`))
		if err := errors.Join(w.Deliver(t.Context(), a)...); (err != nil) != (id == "dropped") {
			t.Errorf("%s: %v", id, err)
		}
	}
	if asked.Load() != 4 || connections.Load() != 2 {
		t.Errorf("%d requests over %d connections; want 4 over 2", asked.Load(), connections.Load())
	}
}

// Attempts leave no resources behind, whether they succeed or fail. This test does not run in parallel with others,
// because they start goroutines too.
func TestWebhookLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("attempts", func(t *testing.T) {
		for _, secure := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			r := newReceiver(t, secure, func(w http.ResponseWriter, hr *http.Request, q *request) {
				switch q.messageID {
				case "talks":
					io.WriteString(w, strings.Repeat("x", 1<<20))
				case "hangs":
					cancel()
					<-hr.Context().Done()
				}
			})
			w := r.webhook(transport.Surroundings{Idle: 100 * time.Millisecond})
			for _, id := range []string{"a", "talks", "b", "hangs"} {
				a, _ := r.attempt(note(id, `1`))
				if err := errors.Join(w.Deliver(ctx, a)...); (err != nil) != (id == "hangs") {
					t.Errorf("%s: %v", id, err)
				}
			}
		}
	})
	goleak.VerifyNone(t, before)
}
