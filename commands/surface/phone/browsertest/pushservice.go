package browsertest

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// Push is a message from an application server to the push service. Source: RFC 8030.
type Push struct {
	Path   string // of the endpoint
	Header http.Header
	Body   []byte // encrypted, as in RFC 8291
}

// Receipt is a browser's response to a push. Source: autopush, "ack" and "nack".
type Receipt struct {
	Version string // of the message: "1" is the first message to any browser
	Code    int    // 100 delivered, 101 could not be decrypted, 102 not delivered for another reason
}

// PushService is a push service for browsers, like the one that Mozilla runs. A Firefox connects to it at Socket. The
// endpoints are on a TLS server, since browsers require that.
type PushService struct {
	t        *testing.T
	ctx      context.Context
	tls      *httptest.Server
	socket   *httptest.Server
	clients  sync.WaitGroup
	pushes   feed[Push]
	receipts feed[Receipt]

	mu    sync.Mutex
	on    func(*Push) int
	paths map[string]func(Push) error // by the path of the endpoint
	sent  int
}

// NewPushService starts a push service.
func NewPushService(ctx context.Context, t *testing.T) *PushService {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	s := &PushService{t: t, ctx: ctx, paths: map[string]func(Push) error{}}
	s.tls = httptest.NewTLSServer(http.HandlerFunc(s.push))
	s.socket = httptest.NewServer(http.HandlerFunc(s.connect))
	t.Cleanup(func() {
		cancel()
		s.socket.Close()
		s.tls.Close()
		s.clients.Wait()
	})
	return s
}

// Socket returns the address to which a browser connects.
func (s *PushService) Socket() string { return "ws" + strings.TrimPrefix(s.socket.URL, "http") + "/" }

// Host returns the host of the endpoints, with its port.
func (s *PushService) Host() string { return strings.TrimPrefix(s.tls.URL, "https://") }

// CertificateFile writes the certificate of the endpoints to a file, for SSL_CERT_FILE.
func (s *PushService) CertificateFile() string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "push-service.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: s.tls.Certificate().Raw}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// On sets a function that is called for every push before the push is forwarded. The function may change the body,
// and returns the status of the answer; the push is forwarded only if the status is 201. It is called from other
// goroutines, one call at a time. nil removes the function.
func (s *PushService) On(f func(*Push) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = f
}

// Next waits for the next push of an application server and returns it as it was forwarded.
func (s *PushService) Next() Push {
	s.t.Helper()
	p, err := s.pushes.next(s.ctx, nil)
	if err != nil {
		s.t.Fatalf("nothing is pushed: %v", err)
	}
	return p
}

// Received waits for the browser's next response to a push.
func (s *PushService) Received() Receipt {
	s.t.Helper()
	r, err := s.receipts.next(s.ctx, nil)
	if err != nil {
		s.t.Fatalf("the browser says nothing of a push: %v", err)
	}
	return r
}

// subscribe creates an endpoint.
func (s *PushService) subscribe(to func(Push) error) (endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := fmt.Sprintf("/push/%d", len(s.paths)+1)
	s.paths[path] = to
	return s.tls.URL + path
}

// push accepts a message of an application server.
func (s *PushService) push(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p := Push{Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	s.mu.Lock()
	defer s.mu.Unlock()
	to, known := s.paths[p.Path]
	status := http.StatusCreated
	if !known {
		status = http.StatusGone
	} else if s.on != nil {
		status = s.on(&p)
	}
	if status == http.StatusCreated {
		s.pushes.add(p)
		if err := to(p); err != nil {
			status = http.StatusServiceUnavailable
		}
	}
	w.WriteHeader(status)
}

// connect serves a browser over its WebSocket until the browser disconnects.
func (s *PushService) connect(w http.ResponseWriter, r *http.Request) {
	s.clients.Add(1)
	defer s.clients.Done()
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: []string{"push-notification"}})
	if err != nil {
		return // the browser reports the error
	}
	defer c.CloseNow()
	for {
		var m struct {
			MessageType, ChannelID, Version string
			Code                            int
			Updates                         []struct {
				Version string
				Code    int
			}
		}
		if wsjson.Read(s.ctx, c, &m) != nil {
			return
		}
		answer := map[string]any{"messageType": m.MessageType, "status": 200}
		switch m.MessageType {
		case "hello":
			answer["uaid"], answer["use_webpush"], answer["broadcasts"] = "0123456789abcdef0123456789abcdef", true, map[string]any{}
		case "register":
			answer["channelID"] = m.ChannelID
			answer["pushEndpoint"] = s.subscribe(func(p Push) error { return s.notify(c, m.ChannelID, p) })
		case "unregister":
			answer["channelID"] = m.ChannelID
		case "ack":
			for _, u := range m.Updates {
				s.receipts.add(Receipt{u.Version, u.Code})
			}
			continue
		case "nack":
			s.receipts.add(Receipt{m.Version, m.Code})
			continue
		default:
			continue
		}
		if wsjson.Write(s.ctx, c, answer) != nil {
			return
		}
	}
}

// notify sends a push to a browser. The caller holds the lock.
func (s *PushService) notify(c *websocket.Conn, channel string, p Push) error {
	s.sent++
	return wsjson.Write(s.ctx, c, map[string]any{
		"messageType": "notification", "channelID": channel, "version": strconv.Itoa(s.sent),
		"data": base64.RawURLEncoding.EncodeToString(p.Body), "headers": map[string]any{"encoding": p.Header.Get("Content-Encoding")},
	})
}
