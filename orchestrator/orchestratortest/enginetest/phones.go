package enginetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/push"
	"mailroom/orchestrator/questions"
)

// NewPhones creates a database with the agents builder and reviewer, and devices that receive pushes through the
// scripted transport.
func NewPhones(t *testing.T, devices int) (f *Fixture, ids []string) {
	t.Helper()
	f = New(t, "builder", "reviewer")
	for i := range devices {
		d, _ := f.Pair(fmt.Sprintf("phone %d", i))
		if _, err := questions.ActivateDevice(t.Context(), f.Ledger, d.ID, d.Recipient); err != nil {
			t.Fatal(err)
		}
		endpoint := fmt.Sprintf("https://updates.push.services.mozilla.com/wpush/v2/%d", i)
		if err := questions.Subscribe(t.Context(), f.Ledger, d.ID, Subscription(endpoint)); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, d.ID)
	}
	return f, ids
}

// Subscription returns a subscription with the keys of RFC 8291, appendix A.
func Subscription(endpoint string) questions.Subscription {
	return questions.Subscription{
		Endpoint: endpoint,
		P256dh:   "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
		Auth:     "BTBZMqHH6r4Tts7J_aSIgg",
	}
}

// Pair pairs a device, which then waits for approval.
func (f *Fixture) Pair(name string) (d questions.Device, token string) {
	f.T.Helper()
	code, _, err := questions.StartPairing(f.T.Context(), f.Ledger)
	if err != nil {
		f.T.Fatal(err)
	}
	d, token, err = questions.Pair(f.T.Context(), f.Ledger,
		questions.PairRequest{Code: code, Name: name, Recipient: "age1" + strings.ReplaceAll(name, " ", "")})
	if err != nil {
		f.T.Fatal(err)
	}
	return d, token
}

// Question asks the user a question as the agent builder.
func (f *Fixture) Question(devices []string, change ...func(*questions.Draft)) questions.Question {
	f.T.Helper()
	id, err := questions.NewSignalID(f.Ledger, "q-")
	if err != nil {
		f.T.Fatal(err)
	}
	d := questions.Draft{ID: id, Asker: "builder", Encrypted: true, Body: "c2VhbGVk", TTL: time.Hour, Devices: devices}
	for _, c := range change {
		c(&d)
	}
	q, _, err := questions.Ask(f.T.Context(), f.Ledger, d)
	if err != nil {
		f.T.Fatal(err)
	}
	return q
}

// Pushes delivers all messages that are due, and returns the pushes that devices received since the last call, as
// "device kind id status".
func (f *Fixture) Pushes() (list []string) {
	f.T.Helper()
	f.Deliver()
	f.Wire.mu.Lock()
	defer f.Wire.mu.Unlock()
	for _, m := range f.Wire.Arrived {
		var p push.Message
		if err := json.Unmarshal(m.Payload, &p); err != nil {
			f.T.Fatal(err)
		}
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", m.Recipient, p.Kind, p.ID, p.Status)))
	}
	f.Wire.Arrived = nil
	return list
}
