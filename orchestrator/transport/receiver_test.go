package transport_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest"
	"mailroom/orchestrator/transport"
)

// A receiver is an HTTP server such as others write: it verifies requests with the libraries of the specifications.
type receiver struct {
	t       *testing.T
	server  *httptest.Server
	names   *nameServer
	secret  string
	address string // by the name example.com
	answer  func(w http.ResponseWriter, r *http.Request, request *request)

	mu       sync.Mutex
	requests []*request
	broken   bool // it refuses everything
}

// request is a verified request.
type request struct {
	id        string // webhook-id
	body      []byte
	event     *cloudevents.Event
	messageID string
	payload   json.RawMessage
	protocol  int // HTTP's major version
	target    string
	header    http.Header
}

// newReceiver starts a receiver. It responds with answer, or with 204 if answer is nil.
func newReceiver(t *testing.T, secure bool, answer func(http.ResponseWriter, *http.Request, *request)) *receiver {
	t.Helper()
	r := &receiver{t: t, secret: new(transport.Webhook).NewSecret(), answer: answer}
	r.server = httptest.NewUnstartedServer(r)
	r.server.EnableHTTP2 = true
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	scheme := "http"
	if secure {
		scheme = "https"
		r.server.StartTLS()
	} else {
		r.server.Start()
	}
	t.Cleanup(r.server.Close)
	r.names = newNameServer(t, func(name string) []netip.Addr {
		if name == "example.com." {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}
		return nil
	})
	_, port, err := net.SplitHostPort(r.server.Listener.Addr().String())
	must(t, err)
	r.address = scheme + "://example.com:" + port + "/hooks/builder?key=1"
	return r
}

// webhook returns a transport that resolves names to the receiver and trusts its certificate.
func (r *receiver) webhook(s transport.Surroundings) *transport.Webhook {
	s.Resolver = r.names.resolver()
	if certificate := r.server.Certificate(); certificate != nil && s.TLS == nil {
		roots := x509.NewCertPool()
		roots.AddCert(certificate)
		s.TLS = &tls.Config{RootCAs: roots}
	}
	return transport.NewWebhook(s)
}

func (r *receiver) prepare(a *orchestrator.Attempt) { a.Secret, a.AllowPrivate = r.secret, true }

// attempt returns an attempt to deliver to the receiver, and its report.
func (r *receiver) attempt(ms ...orchestrator.Message) (a orchestrator.Attempt, report *string) {
	report = new(string)
	a = orchestrator.Attempt{
		Recipient: "builder", Address: r.address, Messages: ms, Report: func(text string) { *report = text },
	}
	r.prepare(&a)
	return a, report
}

func (r *receiver) arrived(*testing.T) (list []orchestratortest.Arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.requests {
		list = append(list, orchestratortest.Arrival{ID: q.messageID, Payload: q.payload})
	}
	return list
}

// fail makes the receiver refuse everything until restore is called.
func (r *receiver) fail(*testing.T) (restore func()) {
	set := func(broken bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.broken = broken
	}
	set(true)
	return func() { set(false) }
}

func (r *receiver) all() []*request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*request(nil), r.requests...)
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	q := r.verify(hr)
	if q == nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	broken := r.broken
	if !broken {
		r.requests = append(r.requests, q)
	}
	r.mu.Unlock()
	if broken {
		http.Error(w, "the shelf is full", http.StatusInternalServerError)
		return
	}
	if r.answer != nil {
		r.answer(w, hr, q)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// verify checks a request against the specifications. It ignores a request that its client aborted.
func (r *receiver) verify(hr *http.Request) *request {
	body, err := io.ReadAll(hr.Body)
	if err != nil {
		return nil
	}
	hook, err := standardwebhooks.NewWebhook(r.secret)
	if err == nil {
		err = hook.Verify(body, hr.Header)
	}
	if err != nil {
		r.t.Errorf("Standard Webhooks: %v\n%v", err, hr.Header)
		return nil
	}
	// The SDK's JSON parser fails at a number that exceeds float64, which JSON allows and agents may send.
	readable := bytes.ReplaceAll(body, []byte(`1e400`), []byte(`1e300`))
	hr.Body = io.NopCloser(bytes.NewReader(readable))
	event, err := cloudevents.NewEventFromHTTPRequest(hr)
	if err == nil {
		err = event.Validate()
	}
	if err != nil {
		r.t.Errorf("CloudEvents: %v\n%.300s", err, body)
		return nil
	}
	var sent struct {
		Data struct {
			MessageID string          `json:"message_id"`
			Payload   json.RawMessage `json:"payload"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &sent); err != nil || sent.Data.MessageID != event.ID() ||
		!bytes.Contains(readable, event.Data()) {
		r.t.Errorf("the event %q carries %q: %v", event.ID(), sent.Data.MessageID, err)
		return nil
	}
	return &request{
		id: hr.Header.Get("webhook-id"), body: body, event: event, messageID: sent.Data.MessageID,
		payload:  sent.Data.Payload,
		protocol: hr.ProtoMajor, target: hr.Method + " " + hr.URL.RequestURI(), header: hr.Header,
	}
}

// A nameServer answers queries for the IPv4 addresses of names over UDP, like a DNS server. Names that it does not
// know do not exist.
type nameServer struct {
	conn   net.PacketConn
	lookup func(name string) []netip.Addr

	mu   sync.Mutex
	open chan struct{} // when closed, it answers
}

func newNameServer(t *testing.T, lookup func(name string) []netip.Addr) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	n := &nameServer{conn: conn, lookup: lookup, open: make(chan struct{})}
	close(n.open)
	var serving sync.WaitGroup
	serving.Go(n.serve)
	t.Cleanup(func() {
		conn.Close()
		serving.Wait()
	})
	return n
}

// block keeps the server from answering until release is called.
func (n *nameServer) block() (release func()) {
	gate := make(chan struct{})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open = gate
	return func() { close(gate) }
}

func (n *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", n.conn.LocalAddr().String())
	}}
}

func (n *nameServer) serve() {
	for {
		question := make([]byte, 1500)
		size, from, err := n.conn.ReadFrom(question)
		if err != nil {
			return
		}
		n.mu.Lock()
		open := n.open
		n.mu.Unlock()
		go func() {
			<-open
			n.conn.WriteTo(n.reply(question[:size]), from)
		}()
	}
}

// reply returns the reply to a query. Source: RFC 1035, part 4.
func (n *nameServer) reply(question []byte) []byte {
	const header, typeA = 12, 1
	end, name := header, ""
	for question[end] != 0 {
		length := int(question[end])
		name += string(question[end+1:end+1+length]) + "."
		end += 1 + length
	}
	end += 1 + 4
	kind := binary.BigEndian.Uint16(question[end-4:])
	addresses := n.lookup(strings.ToLower(name))
	flags := uint16(0x8180)
	if addresses == nil {
		flags |= 3 // no such name
	}
	if kind != typeA {
		addresses = nil
	}
	reply := append([]byte(nil), question[:2]...)
	for _, number := range []uint16{flags, 1, uint16(len(addresses)), 0, 0} {
		reply = binary.BigEndian.AppendUint16(reply, number)
	}
	reply = append(reply, question[header:end]...)
	for _, ip := range addresses {
		reply = append(reply, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4) // the name above; class IN, TTL 0
		reply = append(reply, ip.AsSlice()...)
	}
	return reply
}
