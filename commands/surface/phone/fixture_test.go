package phone

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	_ "github.com/mattn/go-sqlite3"
	"golang.org/x/time/rate"

	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store"
)

// home is a listener with its own database, an adjustable clock and a searchable log.
type home struct {
	*Phone
	t      testing.TB
	folder string
	path   string // path of the database, in folder if it is a file
	client *http.Client

	mu      sync.Mutex
	logs    bytes.Buffer
	forward time.Duration
}

// Write appends to the log.
func (h *home) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.logs.Write(p)
}

func (h *home) logged() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.logs.String()
}

func (h *home) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.forward)
}

func (h *home) step(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forward += d
}

// newHome starts a listener with limits that no test reaches, except those that change sets.
func newHome(t testing.TB, o Options, change func(*Phone)) *home {
	t.Helper()
	h := &home{t: t, folder: t.TempDir(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	h.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	log := slog.New(slog.NewJSONHandler(h, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h.path = enginetest.PlaceAt(t, filepath.Join(h.folder, "mailroom.db"))
	r, err := router.Open(t.Context(), enginetest.Placed(ledger.Options{Path: h.path, Instance: "test", Now: h.now, Log: log, Bell: store.NewLocalBell()}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if _, _, err := agents.Add(t.Context(), r.Ledger, agents.Update{Name: "builder"}); err != nil {
		t.Fatal(err)
	}
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	if h.Phone, err = open(t.Context(), r.Ledger, log, o); err != nil {
		t.Fatal(err)
	}
	h.strangers, h.codes = rate.NewLimiter(rate.Inf, 0), rate.NewLimiter(rate.Inf, 0)
	h.devices.PerSecond = 1_000_000
	if change != nil {
		change(h.Phone)
	}
	h.Serve(h.handler)
	t.Cleanup(h.Close)
	t.Cleanup(h.client.CloseIdleConnections)
	return h
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// code returns the code of a failure, or "" for a success.
func (a answer) code() string {
	var f struct{ Error, Message string }
	if json.Unmarshal([]byte(a.body), &f) != nil || f.Message == "" {
		return ""
	}
	return f.Error
}

// read returns the value of a key in the body.
func (a answer) read(key string) string {
	var keys map[string]any
	if json.Unmarshal([]byte(a.body), &keys) != nil || keys[key] == nil {
		return ""
	}
	return fmt.Sprint(keys[key])
}

// ask sends a request and checks the headers that every answer must have.
func (h *home) ask(method, path, body string, change func(*http.Request)) answer {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.Address+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(req)
	}
	res, err := h.client.Do(req)
	if err != nil {
		h.t.Error(err)
		return answer{header: http.Header{}}
	}
	defer res.Body.Close()
	read, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Errorf("%s %s: %v", method, path, err)
	}
	a := answer{res.StatusCode, res.Header, string(read)}
	h.strict(method+" "+path, a)
	return a
}

// strict checks the headers that every answer must have.
func (h *home) strict(what string, a answer) {
	h.t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self'; manifest-src 'self'; style-src 'self'; " +
			"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; worker-src 'self'; trusted-types mailroom",
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Set-Cookie": "", "Access-Control-Allow-Origin": "",
	} {
		if got := a.header.Values(name); len(got) > 1 || a.header.Get(name) != want {
			h.t.Errorf("%s: %s is %q; want %q", what, name, got, want)
		}
	}
	static := a.header.Get("ETag") != ""
	if caching := a.header.Get("Cache-Control"); caching != map[bool]string{true: "no-cache", false: "no-store"}[static] {
		h.t.Errorf("%s: Cache-Control is %q", what, caching)
	}
	if !static && a.header.Get("Content-Type") != "application/json" {
		h.t.Errorf("%s: Content-Type is %q", what, a.header.Get("Content-Type"))
	}
	if a.status >= 400 && a.header.Get("Content-Length") != "0" && !strings.HasPrefix(what, "HEAD") && (a.code() == "" || a.read("success") != "false") {
		h.t.Errorf("%s: the failure is %q", what, a.body)
	}
}

// phone is a device of a test.
type phone struct {
	h               *home
	id, token       string
	identity        *age.X25519Identity
	fingerprint, to string
}

// newRecipient creates an age key.
func (h *home) newRecipient() (*age.X25519Identity, string) {
	h.t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		h.t.Fatal(err)
	}
	return identity, identity.Recipient().String()
}

func (h *home) code() string {
	h.t.Helper()
	code, _, err := questions.StartPairing(h.t.Context(), h.ledger)
	if err != nil {
		h.t.Fatal(err)
	}
	return code
}

// pairBody returns the body of a pairing request.
func pairBody(code, name, recipient string) string {
	body, _ := json.Marshal(map[string]string{"code": code, "name": name, "recipient": recipient})
	return string(body)
}

// waits pairs a phone without approving it.
func (h *home) waits(name string) *phone {
	h.t.Helper()
	p := &phone{h: h}
	p.identity, p.to = h.newRecipient()
	a := h.ask("POST", "/api/pair", pairBody(h.code(), name, p.to), nil)
	if p.id, p.token, p.fingerprint = a.read("device"), a.read("token"), a.read("fingerprint"); a.status != 200 || a.read("state") != "waiting" || p.token == "" {
		h.t.Fatalf("pairing: %d %s", a.status, a.body)
	}
	return p
}

// phone pairs a phone and approves it.
func (h *home) phone(name string) *phone {
	h.t.Helper()
	p := h.waits(name)
	if _, err := person.Approve(h.t.Context(), h.ledger, questions.Fingerprint(p.to)); err != nil {
		h.t.Fatal(err)
	}
	return p
}

// ask sends a request with the token of a device.
func (p *phone) ask(method, path, body string) answer {
	p.h.t.Helper()
	return p.h.ask(method, path, body, bearer(p.token))
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func set(pairs ...string) func(*http.Request) {
	return func(r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			r.Header.Add(pairs[i], pairs[i+1])
		}
	}
}

func both(changes ...func(*http.Request)) func(*http.Request) {
	return func(r *http.Request) {
		for _, change := range changes {
			if change != nil {
				change(r)
			}
		}
	}
}

// question asks a question. With encrypted, its body is encrypted for the devices.
func (h *home) question(body string, encrypted bool, ttl time.Duration, devices ...*phone) string {
	h.t.Helper()
	id, err := questions.NewSignalID(h.ledger, "q-")
	if err != nil {
		h.t.Fatal(err)
	}
	if encrypted {
		body = h.seal(body, devices...)
	}
	if _, _, err := questions.Ask(h.t.Context(), h.ledger, questions.Draft{
		ID: id, Asker: "builder", Encrypted: encrypted, Body: body, TTL: ttl, Devices: ids(devices),
	}); err != nil {
		h.t.Fatal(err)
	}
	return id
}

func (h *home) alert(body string, encrypted bool, devices ...*phone) string {
	h.t.Helper()
	id, err := questions.NewSignalID(h.ledger, "a-")
	if err != nil {
		h.t.Fatal(err)
	}
	if encrypted {
		body = h.seal(body, devices...)
	}
	if _, _, err := questions.AlertUser(h.t.Context(), h.ledger, questions.AlertDraft{ID: id, Sender: "builder", Encrypted: encrypted, Body: body, Devices: ids(devices)}); err != nil {
		h.t.Fatal(err)
	}
	return id
}

func ids(devices []*phone) (list []string) {
	for _, d := range devices {
		list = append(list, d.id)
	}
	return list
}

// seal encrypts a text for devices as an age file, in base64.
func (h *home) seal(text string, devices ...*phone) string {
	h.t.Helper()
	var recipients []age.Recipient
	for _, d := range devices {
		recipients = append(recipients, d.identity.Recipient())
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, recipients...)
	if err != nil {
		h.t.Fatal(err)
	}
	io.WriteString(w, text)
	if err := w.Close(); err != nil {
		h.t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(sealed.Bytes())
}

// open decrypts an age file with the key of a device.
func (p *phone) open(sealed string) string {
	p.h.t.Helper()
	file, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		p.h.t.Fatal(err)
	}
	r, err := age.Decrypt(bytes.NewReader(file), p.identity)
	if err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// cells runs a query and returns its first column.
func (h *home) cells(query string) (list []string) {
	h.t.Helper()
	table, err := h.ledger.Query(h.t.Context(), query, store.Bound{Rows: 1000})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, row := range table.Rows.Values() {
		list = append(list, fmt.Sprint(row[0]))
	}
	return list
}

// hidden reads a value that no query through the router may read.
func (h *home) hidden(query string) (value string) {
	h.t.Helper()
	if err := enginetest.Plain(h.t, h.path).QueryRowContext(h.t.Context(), query).Scan(&value); err != nil {
		h.t.Fatal(err)
	}
	return value
}
