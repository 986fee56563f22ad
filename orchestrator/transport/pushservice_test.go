package transport_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/transport"
)

// pushPath is the path of the endpoint, with which anyone could push.
const pushPath = "/wpush/v2/gAAAAABk-the-secret-of-the-endpoint?key=the-key-of-the-endpoint"

// A pushService is the push service of one browser. It verifies the sender, and the browser decrypts.
type pushService struct {
	t       *testing.T
	server  *httptest.Server
	names   *nameServer
	secret  push.Secret
	browser *ecdh.PrivateKey
	auth    []byte
	answer  func(w http.ResponseWriter, r *http.Request, p *pushRequest) // nil: 201

	mu       sync.Mutex
	requests []*pushRequest
	broken   bool
}

// pushRequest is a verified and decrypted request.
type pushRequest struct {
	header   http.Header
	target   string
	protocol int
	body     []byte
	payload  string
	claims   jwt.MapClaims
}

// newPushService starts a push service. All names of lookup lead to it, and so does example.com.
func newPushService(t *testing.T, answer func(http.ResponseWriter, *http.Request, *pushRequest),
	known ...string) *pushService {
	t.Helper()
	p := &pushService{t: t, answer: answer, auth: make([]byte, 16)}
	p.server = httptest.NewUnstartedServer(p)
	p.server.EnableHTTP2 = true
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.StartTLS()
	t.Cleanup(p.server.Close)
	p.names = newNameServer(t, func(name string) []netip.Addr {
		if name == "example.com." || slices.Contains(known, name) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}
		return nil
	})
	rand.Read(p.auth)
	sender, err := ecdh.P256().GenerateKey(rand.Reader)
	must(t, err)
	p.browser, err = ecdh.P256().GenerateKey(rand.Reader)
	must(t, err)
	_, port, err := net.SplitHostPort(p.server.Listener.Addr().String())
	must(t, err)
	p.secret = push.Secret{
		Endpoint: "https://example.com:" + port + pushPath, P256dh: text64(p.browser.PublicKey().Bytes()),
		Auth:         text64(p.auth),
		VAPIDPrivate: text64(sender.Bytes()), VAPIDPublic: text64(sender.PublicKey().Bytes()),
		Subscriber: "https://phone.example.com",
		Hosts:      []string{"example.com:" + port}, AllowPrivate: true,
	}
	return p
}

func text64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// push returns a transport that resolves names to the service and trusts its certificate.
func (p *pushService) push(s transport.Surroundings) *transport.Push {
	s.Resolver, s.TLS = p.names.resolver(), trusting(p.server)
	return transport.NewPush(s)
}

// trusting returns the configuration of a client that trusts a server.
func trusting(server *httptest.Server) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return &tls.Config{RootCAs: roots}
}

func (p *pushService) prepare(a *orchestrator.Attempt) { a.Secret = asText(p.t, p.secret) }

func asText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	return string(text)
}

// attempt returns an attempt to push to the device, and its report.
func (p *pushService) attempt(ms ...orchestrator.Message) (a orchestrator.Attempt, report *string) {
	report = new(string)
	a = orchestrator.Attempt{
		Recipient: "device:d-1", Address: "d-1", Messages: ms, Report: func(text string) { *report = text },
	}
	p.prepare(&a)
	return a, report
}

// pushing returns a message whose payload is a push.
func pushing(t *testing.T, push push.Message) orchestrator.Message {
	t.Helper()
	m := note("msg-"+push.ID, asText(t, push))
	m.Sender, m.Recipient, m.Type = "system", "device:d-1", "push"
	return m
}

// question returns an encrypted question whose ciphertext has n characters.
func question(id string, n int) push.Message {
	return push.Message{Kind: push.Question, ID: id, Encrypted: true, Body: strings.Repeat("A", n)}
}

func (p *pushService) all() []*pushRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*pushRequest(nil), p.requests...)
}

// fail makes the service refuse everything until restore is called.
func (p *pushService) fail(*testing.T) (restore func()) {
	set := func(broken bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.broken = broken
	}
	set(true)
	return func() { set(false) }
}

func (p *pushService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client aborted the request
	}
	q := &pushRequest{header: r.Header, target: r.Method + " " + r.URL.RequestURI(), protocol: r.ProtoMajor, body: body}
	if err := errors.Join(p.identify(r, q), p.decrypt(q)); err != nil {
		p.t.Errorf("%v\n%v", err, r.Header)
	}
	p.mu.Lock()
	broken := p.broken
	if !broken {
		p.requests = append(p.requests, q)
	}
	p.mu.Unlock()
	switch {
	case broken:
		http.Error(w, "the shelf is full", http.StatusInternalServerError)
	case p.answer != nil:
		p.answer(w, r, q)
	default:
		w.WriteHeader(http.StatusCreated)
	}
}

// identify verifies the sender. Source: RFC 8292.
func (p *pushService) identify(r *http.Request, q *pushRequest) error {
	var token, key string
	if _, err := fmt.Sscanf(r.Header.Get("Authorization"), "vapid t=%s k=%s", &token, &key); err != nil {
		return err
	}
	point, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil || key != p.secret.VAPIDPublic {
		return fmt.Errorf("signed by %s: %w", key, err)
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return err
	}
	q.claims = jwt.MapClaims{}
	_, err = jwt.NewParser(jwt.WithValidMethods([]string{"ES256"}), jwt.WithAudience("https://"+r.Host),
		jwt.WithExpirationRequired()).
		ParseWithClaims(strings.TrimSuffix(token, ","), q.claims, func(*jwt.Token) (any, error) { return public, nil })
	if err != nil {
		return err
	}
	end, err := q.claims.GetExpirationTime()
	if err != nil || end.After(time.Now().Add(24*time.Hour)) {
		return fmt.Errorf("valid until %v: %w", end, err)
	}
	if subject, err := q.claims.GetSubject(); err != nil || subject != p.secret.Subscriber {
		return fmt.Errorf("sent for %q: %w", subject, err)
	}
	return nil
}

// decrypt decrypts a request like a browser. Source: RFC 8188, part 2, and RFC 8291, part 3.
func (p *pushService) decrypt(q *pushRequest) error {
	const fixed = 16 + 4 + 1
	if len(q.body) < fixed || len(q.body) < fixed+int(q.body[fixed-1])+17 {
		return fmt.Errorf("a body of %d bytes", len(q.body))
	}
	salt, size := q.body[:16], binary.BigEndian.Uint32(q.body[16:])
	point, record := q.body[fixed:fixed+int(q.body[fixed-1])], q.body[fixed+int(q.body[fixed-1]):]
	if len(record) > int(size) {
		return fmt.Errorf("a record of %d bytes where %d were announced", len(record), size)
	}
	sender, err := ecdh.P256().NewPublicKey(point)
	if err != nil {
		return err
	}
	shared, err := p.browser.ECDH(sender)
	if err != nil {
		return err
	}
	derive := func(secret, salt []byte, info string, n int) (key []byte) {
		key, err2 := hkdf.Key(sha256.New, secret, salt, info, n)
		err = errors.Join(err, err2)
		return key
	}
	root := derive(shared, p.auth, "WebPush: info\x00"+string(p.browser.PublicKey().Bytes())+string(point), 32)
	key, nonce := derive(root, salt, "Content-Encoding: aes128gcm\x00", 16),
		derive(root, salt, "Content-Encoding: nonce\x00", 12)
	block, err2 := aes.NewCipher(key)
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return err
	}
	clear, err := gcm.Open(nil, nonce, record, nil)
	if err != nil {
		return err
	}
	text := bytes.TrimRight(clear, "\x00")
	if !bytes.HasSuffix(text, []byte{2}) {
		return errors.New("the record is not the last one")
	}
	q.payload = string(text[:len(text)-1])
	return nil
}

// asQuestions is a transport of pushes for a test suite whose payloads are not pushes. It converts them to
// questions, and stores the content that a device can fetch if it received only an ID.
type asQuestions struct {
	orchestrator.Transport
	question func(payload string) string // the body of a question
	keep     func(id string, payload json.RawMessage)
}

func (q asQuestions) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	ms := slices.Clone(a.Messages)
	for i := range ms {
		q.keep(ms[i].ID, ms[i].Payload)
		ms[i].Payload = []byte(`{"kind":"question","id":` + raw(ms[i].ID) + `,"body":` +
			raw(q.question(string(ms[i].Payload))) + `}`)
	}
	a.Messages = ms
	return q.Transport.Deliver(ctx, a)
}

// raw returns text as a JSON string with unchanged bytes, even if they are not valid UTF-8.
func raw(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// shelf holds the content that devices can fetch.
type shelf struct {
	mu   sync.Mutex
	kept map[string]json.RawMessage
}

func (s *shelf) keep(id string, payload json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[string]json.RawMessage{}
	}
	s.kept[id] = payload
}

func (s *shelf) fetch(t *testing.T, id string) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	must(t, json.Compact(&b, s.kept[id]))
	return b.Bytes()
}

func (s *shelf) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.kept))
}

// arrived returns what the device has: the text of the push, or the text that it fetches.
func (p *pushService) arrived(t *testing.T, s *shelf) (list []orchestratortest.Arrival) {
	for _, q := range p.all() {
		var got struct {
			ID   string          `json:"id"`
			Text json.RawMessage `json:"text"`
		}
		must(t, json.Unmarshal([]byte(q.payload), &got))
		if got.Text == nil {
			got.Text = s.fetch(t, got.ID)
		}
		list = append(list, orchestratortest.Arrival{ID: got.ID, Payload: got.Text})
	}
	return list
}
