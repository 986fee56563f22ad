package person_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/store"
)

// office is an engine on a real file with a clock that the test controls.
type office struct {
	*delivery.Engine
	t    *testing.T
	path string

	clock *enginetest.Clock
	mu    sync.Mutex
	asked func()
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{t: t, path: enginetest.Place(t), clock: enginetest.NewClock()}
	o.Engine = enginetest.OpenWith(t, ledger.Options{Path: o.path, Now: o.now, Bell: store.NewLocalBell()})
	if _, err := o.Store.Create(); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *office) now() time.Time {
	o.mu.Lock()
	asked := o.asked
	o.mu.Unlock()
	at := o.clock.Now()
	if asked != nil {
		asked()
	}
	return at
}

// whenAsked sets a function that is called each time the clock is read; nil is none.
func (o *office) whenAsked(do func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = do
}

// phone is a device that acts as the app does.
type phone struct {
	o        *office
	id       string
	identity *age.X25519Identity
}

// pair pairs a phone, which then waits for approval.
func (o *office) pair() *phone {
	o.t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		o.t.Fatal(err)
	}
	code, _, err := questions.StartPairing(o.t.Context(), o.Ledger)
	if err != nil {
		o.t.Fatal(err)
	}
	d, _, err := questions.Pair(o.t.Context(), o.Ledger,
		questions.PairRequest{Code: code, Name: "Phone", Recipient: identity.Recipient().String()})
	if err != nil {
		o.t.Fatal(err)
	}
	return &phone{o, d.ID, identity}
}

func (p *phone) fingerprint() string {
	return questions.Fingerprint(p.identity.Recipient().String())
}

// phone pairs a phone and approves it.
func (o *office) phone() *phone {
	o.t.Helper()
	p := o.pair()
	if _, err := person.Approve(o.t.Context(), o.Ledger, p.fingerprint()); err != nil {
		o.t.Fatal(err)
	}
	return p
}

// read decrypts sealed content.
func (p *phone) read(sealed string) (map[string]any, error) {
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return nil, err
	}
	plain, err := age.Decrypt(bytes.NewReader(raw), p.identity)
	if err != nil {
		return nil, err
	}
	var content map[string]any
	return content, json.NewDecoder(plain).Decode(&content)
}

// mustRead decrypts content that this phone must be able to read.
func (p *phone) mustRead(sealed string) map[string]any {
	p.o.t.Helper()
	content, err := p.read(sealed)
	if err != nil {
		p.o.t.Fatal(err)
	}
	return content
}

// said is an answer that is being prepared; tests may change it before it is sealed.
type said struct {
	reply, mac string // of the question
	fields     map[string]any
}

// answer prepares an answer to a question: the index of an option, or a text.
func (p *phone) answer(q questions.Question, what any) *said {
	p.o.t.Helper()
	content := p.mustRead(q.Body)
	s := &said{reply: content["reply"].(string), mac: content["mac"].(string)}
	s.fields = map[string]any{"v": 1, "id": q.ID, "time": "2026-01-02T03:05:00.000Z"}
	switch what.(type) {
	case int:
		s.fields["option"] = what
	case string:
		s.fields["text"] = what
	}
	return s.sign()
}

// sign computes the HMAC over the current fields.
func (s *said) sign() *said {
	key, _ := base64.RawURLEncoding.DecodeString(s.mac)
	var what []string
	if option, ok := s.fields["option"]; ok {
		number, _ := json.Marshal(option)
		what = append(what, "option:"+string(number))
	}
	if text, ok := s.fields["text"].(string); ok {
		what = append(what, "text:"+text)
	}
	h := hmac.New(sha256.New, key)
	io.WriteString(h,
		strings.Join([]string{"mailroom answer v1", s.fields["id"].(string), strings.Join(what, "\n"),
			s.fields["time"].(string)}, "\n"))
	s.fields["mac"] = base64.RawURLEncoding.EncodeToString(h.Sum(nil))
	return s
}

func (s *said) plain() string {
	plain, err := json.Marshal(s.fields)
	if err != nil {
		panic(err)
	}
	return string(plain)
}

func (s *said) seal() string { return sealTo(s.reply, []byte(s.plain())) }

func sealTo(recipient string, plain []byte) string {
	to, err := age.ParseX25519Recipient(recipient)
	if err != nil {
		panic(err)
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, to)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// ask asks an encrypted question as the agent builder.
func (o *office) ask(options ...string) person.Asked {
	o.t.Helper()
	asked, err := person.Ask(ledger.WithIdentity(o.t.Context(), "builder"), o.Ledger,
		person.Question{Asker: "builder", Question: "Deploy?", Options: options, Encrypted: true})
	if err != nil {
		o.t.Fatal(err)
	}
	return asked
}

func (o *office) put(id, device, answer string) {
	o.t.Helper()
	if _, err := questions.Answer(o.t.Context(), o.Ledger, id, device, answer); err != nil {
		o.t.Fatal(err)
	}
}

func (o *office) get(id string) (person.Response, error) {
	return person.Read(o.t.Context(), o.Ledger, id, "builder", 0)
}

// answered checks that a question has an answer.
func (o *office) answered(id, want string) {
	o.t.Helper()
	r, err := o.get(id)
	if err != nil || !r.Answered || r.Text != want {
		o.t.Fatalf("the answer is %+v, %v; want %q", r, err, want)
	}
}

// files lists the files in a subfolder of the key folder.
func (o *office) files(folder string) (names []string) {
	entries, err := os.ReadDir(filepath.Join(o.Ledger.FilePrefix()+"-signal", folder))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		o.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// rename moves the key of a question to another question.
func (o *office) rename(from, to string) {
	o.t.Helper()
	replies := filepath.Join(o.Ledger.FilePrefix()+"-signal", "replies")
	if err := os.Rename(filepath.Join(replies, from), filepath.Join(replies, to)); err != nil {
		o.t.Fatal(err)
	}
}

var background = context.Background()
