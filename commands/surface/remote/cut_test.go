package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/commands/surface/listener"
	"mailroom/orchestrator/orchestratortest/want"
)

// frail is a connection that is cut after a number of bytes.
type frail struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (c *frail) pass(b []byte, pass func([]byte) (int, error)) (int, error) {
	c.mu.Lock()
	most := min(c.left, len(b))
	c.mu.Unlock()
	if most == 0 {
		c.Close()
		return 0, errors.New("cut")
	}
	n, err := pass(b[:most])
	c.mu.Lock()
	c.left -= min(n, c.left)
	c.mu.Unlock()
	if err == nil && n < len(b) && n == most {
		err = c.over()
	}
	return n, err
}

// over cuts the connection if its bytes are used up.
func (c *frail) over() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left > 0 {
		return nil
	}
	c.Close()
	return errors.New("cut")
}

func (c *frail) Write(b []byte) (int, error) { return c.pass(b, c.Conn.Write) }

func (c *frail) Read(b []byte) (int, error) {
	n, err := c.pass(b, c.Conn.Read)
	if n > 0 {
		err = nil
	}
	return n, err
}

// pipes is a listener of pipes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *pipes) Close() error   { return nil }
func (l *pipes) Addr() net.Addr { return pipeAddr{} }

// mailbox is a database with one reader and a log of the sent messages, one entry per key.
type mailbox struct {
	mu           sync.Mutex
	unread, read []string
	sent         []string
	keys         map[string]bool
}

func (m *mailbox) run(_ context.Context, s *Session) int {
	if s.Args[0] == "send" {
		text := new(bytes.Buffer)
		text.ReadFrom(s.In)
		m.mu.Lock()
		if !m.keys[s.Args[1]] {
			m.keys[s.Args[1]] = true
			m.sent = append(m.sent, text.String())
		}
		m.mu.Unlock()
		fmt.Fprint(s.Out, "sent")
		return 0
	}
	m.mu.Lock()
	if len(m.unread) == 0 {
		m.mu.Unlock()
		return 1
	}
	took := m.unread[0]
	m.unread = m.unread[1:]
	m.mu.Unlock()
	err := s.Deliver([]byte(took))
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.unread = slices.Insert(m.unread, 0, took)
	} else {
		m.read = append(m.read, took)
	}
	return 0
}

// TestCutAnywhere checks that, wherever a connection is cut, nothing is lost, printed twice or sent twice.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	whole := 0
	for at := 1; whole < 3; at += 11 { // until three runs were not cut
		synctest.Test(t, func(t *testing.T) {
			box := &mailbox{unread: []string{"one ", strings.Repeat("two ", 50_000), "three "}, keys: map[string]bool{}}
			all := slices.Clone(box.unread)
			l := &pipes{make(chan net.Conn), make(chan struct{})}
			server := &http.Server{Handler: NewServer(box.run, "").Handler(), Protocols: new(http.Protocols), HTTP2: listener.Alive()}
			server.Protocols.SetUnencryptedHTTP2(true)
			go server.Serve(l)
			dials := 0
			c := NewClient(Place{Scheme: "unix", Path: "/x"}, "", "", func(context.Context) (net.Conn, error) {
				here, there := net.Pipe()
				l.conns <- there
				if dials++; dials > 2 {
					return here, nil
				}
				return &frail{Conn: here, left: at * dials}, nil
			})
			var got []string
			for range 10 {
				var out bytes.Buffer
				_, err := c.Run(t.Context(), &Request{Args: []string{"read"}},
					Streams{In: strings.NewReader(""), Out: &out, Err: new(bytes.Buffer), Again: true})
				want.Equal(t, "error of a read", err, nil)
				if out.Len() > 0 {
					got = append(got, out.String())
				}
				<-time.After(grace / 2) // a delivery may still be held after the cut
			}
			slices.Sort(got)
			slices.Sort(all)
			slices.Sort(box.read)
			var said bytes.Buffer
			_, err := c.Run(t.Context(), &Request{Args: []string{"send", "key"}},
				Streams{In: strings.NewReader("a text"), Out: &said, Err: new(bytes.Buffer), Again: true})
			want.Equal(t, "error of a send", err, nil)
			want.Equal(t, fmt.Sprintf("cut at %d: printed", at), slices.Equal(got, all), true)
			want.Equal(t, fmt.Sprintf("cut at %d: read", at), slices.Equal(box.read, all), true)
			want.Equal(t, fmt.Sprintf("cut at %d: sent", at), strings.Join(box.sent, ","), "a text")
			want.Equal(t, "answer", said.String(), "sent")
			if dials == 1 {
				whole++
			}
			c.Close()
			close(l.closed)
			server.Close()
		})
		if at > 3000 {
			at += 4999
		}
	}
}
