package phone_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/questions"
)

// asked is a question as held by its asker, with the keys for the answer. The encryption is implemented here
// independently of the product, so that both must follow the documents.
type asked struct {
	id       string
	identity *age.X25519Identity
	mac      []byte
}

// said is the content of a question or an alert, with the fields of the document.
type said map[string]any

// seal encrypts a document to recipients, as base64.
func seal(t *testing.T, document any, recipients ...string) string {
	t.Helper()
	var to []age.Recipient
	for _, text := range recipients {
		recipient, err := age.ParseX25519Recipient(text)
		if err != nil {
			t.Fatal(err)
		}
		to = append(to, recipient)
	}
	var sealed bytes.Buffer
	writer, err := age.Encrypt(&sealed, to...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(writer, js(document)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(sealed.Bytes())
}

// newAsked creates the asker's side of a question.
func newAsked(t *testing.T) asked {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	mac := make([]byte, 32)
	if _, err := rand.Read(mac); err != nil {
		t.Fatal(err)
	}
	return asked{identity: identity, mac: mac}
}

// ask asks a question of the device. It completes s with the fields of every question.
func (m *machine) ask(d questions.Device, encrypted bool, s said) asked {
	m.t.Helper()
	id, err := questions.NewSignalID(m.Ledger, "q-")
	if err != nil {
		m.t.Fatal(err)
	}
	return m.askAs(id, d, encrypted, s)
}

// askAs asks a question with an arbitrary ID.
func (m *machine) askAs(id string, d questions.Device, encrypted bool, s said) asked {
	m.t.Helper()
	q := newAsked(m.t)
	q.id = id
	now := time.Now().UTC()
	document := said{"v": 1, "kind": "question", "id": id, "from": "builder", "priority": "normal",
		"createdAt": now.Format(time.RFC3339Nano), "expiresAt": now.Add(time.Hour).Format(time.RFC3339Nano)}
	for name, value := range s {
		document[name] = value
	}
	body := js(document)
	if encrypted {
		document["reply"], document["mac"] = q.identity.Recipient().String(), base64.RawURLEncoding.EncodeToString(q.mac)
		body = seal(m.t, document, d.Recipient)
	}
	_, _, err := questions.Ask(ledger.WithIdentity(m.t.Context(), "builder"), m.Ledger, questions.Draft{
		ID: id, Asker: "builder", Encrypted: encrypted, Body: body, TTL: time.Hour, Devices: []string{d.ID},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return q
}

// alert sends an alert to the device.
func (m *machine) alert(d questions.Device, encrypted bool, s said) string {
	m.t.Helper()
	id, err := questions.NewSignalID(m.Ledger, "a-")
	if err != nil {
		m.t.Fatal(err)
	}
	document := said{"v": 1, "kind": "alert", "id": id, "from": "builder", "alertType": "info", "priority": "normal",
		"createdAt": time.Now().UTC().Format(time.RFC3339Nano)}
	for name, value := range s {
		document[name] = value
	}
	body := js(document)
	if encrypted {
		body = seal(m.t, document, d.Recipient)
	}
	_, _, err = questions.AlertUser(ledger.WithIdentity(m.t.Context(), "builder"), m.Ledger, questions.AlertDraft{
		ID: id, Sender: "builder", Encrypted: encrypted, Body: body, Devices: []string{d.ID},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return id
}

// answer waits until a question has ended and returns the answer: "option:1", "text:..", or both in two lines.
func (m *machine) answer(q asked) string {
	m.t.Helper()
	over, err := questions.Wait(m.t.Context(), m.Ledger, q.id, patience)
	if err != nil {
		m.t.Fatal(err)
	}
	if over.Status != questions.Answered {
		m.t.Fatalf("the question is %s", over.Status)
	}
	if !over.Encrypted {
		return over.Answer
	}
	what, err := q.open(over.Answer)
	if err != nil {
		m.t.Fatal(err)
	}
	return what
}

// open decrypts an answer and checks its author.
func (q asked) open(answer string) (string, error) {
	sealed, err := base64.StdEncoding.Strict().DecodeString(answer)
	if err != nil {
		return "", err
	}
	reader, err := age.Decrypt(bytes.NewReader(sealed), q.identity)
	if err != nil {
		return "", err
	}
	var a struct {
		V         int
		ID        string
		Option    *int
		Text      *string
		Time, MAC string
	}
	decoder := json.NewDecoder(reader)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&a); err != nil {
		return "", err
	}
	var said []string
	if a.Option != nil {
		said = append(said, fmt.Sprintf("option:%d", *a.Option))
	}
	if a.Text != nil {
		said = append(said, "text:"+*a.Text)
	}
	what := strings.Join(said, "\n")
	hash := hmac.New(sha256.New, q.mac)
	hash.Write([]byte(strings.Join([]string{"mailroom answer v1", a.ID, what, a.Time}, "\n")))
	if a.MAC != base64.RawURLEncoding.EncodeToString(hash.Sum(nil)) {
		return "", fmt.Errorf("the MAC of %+v is wrong", a)
	}
	if at, err := time.Parse(time.RFC3339, a.Time); err != nil || a.V != 1 || a.ID != q.id || time.Since(at).Abs() > time.Hour {
		return "", fmt.Errorf("the answer is %+v: %w", a, err)
	}
	return what, nil
}
