package transport_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/transport"
)

// A phoneOffice is a database with a phone and an ntfy topic. The push service responds with a chosen status and a
// Retry-After of 77 s. The office has its own clock.
type phoneOffice struct {
	*delivery.Engine
	t      *testing.T
	phone  *pushService
	topic  *ntfyServer
	device string
	status atomic.Int32
}

func newPhoneOffice(t *testing.T) *phoneOffice {
	t.Helper()
	o := &phoneOffice{t: t, topic: newNtfyServer(t, nil)}
	o.status.Store(http.StatusCreated)
	o.phone = newPushService(t, func(w http.ResponseWriter, _ *http.Request, _ *pushRequest) {
		w.Header().Set("Retry-After", "77")
		w.WriteHeader(int(o.status.Load()))
	})
	o.Engine = enginetest.OpenWith(t, ledger.Options{
		Path: filepath.Join(t.TempDir(), "m.db"), Bell: store.NewLocalBell(),
		Now: func() time.Time { return time.Date(2025, 10, 26, 10, 30, 0, 0, time.UTC) },
		Transports: map[string]orchestrator.Transport{
			"inbox": transport.Inbox{}, "push": o.phone.push(transport.Surroundings{}),
			"ntfy": o.topic.ntfy(transport.Surroundings{}),
		},
	})
	for key, value := range map[string]string{
		"signal.url": "https://phone.example.com", "signal.push_hosts": o.phone.secret.Hosts[0] + "," +
			o.topic.secret.Hosts[0], "signal.allow_private": "on",
	} {
		_, err := o.SetSetting(t.Context(), key, value)
		must(t, err)
	}
	code, _, err := questions.StartPairing(t.Context(), o.Ledger)
	must(t, err)
	d, _, err := questions.Pair(t.Context(), o.Ledger,
		questions.PairRequest{Code: code, Name: "phone", Recipient: "age1phone"})
	must(t, err)
	o.device = d.ID
	_, err = questions.ActivateDevice(t.Context(), o.Ledger, d.ID, "age1phone")
	must(t, err)
	must(t, questions.Subscribe(t.Context(), o.Ledger, d.ID, questions.Subscription{
		Endpoint: o.phone.secret.Endpoint, P256dh: o.phone.secret.P256dh, Auth: o.phone.secret.Auth,
	}))
	o.phone.secret.VAPIDPublic, err = questions.VAPIDPublicKey(t.Context(), o.Ledger) // the sender's key
	must(t, err)
	_, err = questions.SetNtfy(t.Context(), o.Ledger, questions.NtfyConfig{URL: o.topic.secret.URL, Token: ntfyToken})
	must(t, err)
	return o
}

// deliver delivers the messages that are due.
func (o *phoneOffice) deliver() {
	o.t.Helper()
	_, err := o.DeliverAll(o.t.Context(), delivery.Options{})
	must(o.t, err)
}

// ask asks the user a question, delivers it, and returns the question's ID.
func (o *phoneOffice) ask(encrypted bool, body string) string {
	o.t.Helper()
	id, err := questions.NewSignalID(o.Ledger, "q-")
	must(o.t, err)
	_, _, err = questions.Ask(ledger.WithIdentity(o.t.Context(), "builder"), o.Ledger, questions.Draft{
		ID: id, Asker: "builder", Encrypted: encrypted, Body: body, Priority: 1, TTL: time.Hour,
		Devices: []string{o.device},
	})
	must(o.t, err)
	o.deliver()
	return id
}

// column returns the first column of a query's result.
func (o *phoneOffice) column(query string) (values []string) {
	o.t.Helper()
	table, err := o.Query(o.t.Context(), query, store.Bound{Rows: 100})
	must(o.t, err)
	for _, row := range table.Rows.Values() {
		values = append(values, fmt.Sprint(row[0]))
	}
	return values
}

// A question and its end reach the phone, and the topic as far as the topic may have them.
func TestPushByRouter(t *testing.T) {
	t.Parallel()
	o := newPhoneOffice(t)
	id := o.ask(true, "AAAA")
	_, err := questions.Cancel(t.Context(), o.Ledger, id, "builder")
	must(t, err)
	o.deliver()
	pushes, shown := o.phone.all(), o.topic.all()
	if len(pushes) != 2 || len(shown) != 2 {
		t.Fatalf("%d pushes, shown %q", len(pushes), shown)
	}
	for i, want := range []string{`{"kind":"question","id":"` + id + `","ciphertext":"AAAA"}`,
		`{"kind":"ended","id":"` + id + `","status":"cancelled"}`} {
		if pushes[i].payload != want || pushes[i].header.Get("Urgency") != "high" {
			t.Errorf("%q, %v; want %q", pushes[i].payload, pushes[i].header, want)
		}
	}
	if ttl := pushes[0].header.Get("TTL"); ttl != "3600" {
		t.Errorf("kept for %s s; the question lives an hour", ttl)
	}
	if !strings.Contains(shown[0], "A question is waiting") || strings.Contains(shown[0], "AAAA") ||
		!strings.Contains(shown[1], "was canceled") {
		t.Errorf("%q", shown)
	}
	if said := o.column(`SELECT detail FROM message_trace WHERE detail LIKE '%HTTP 201 Created%'`); len(said) != 2 {
		t.Errorf("the trace has %d answers of the push service", len(said))
	}
}

// The button of a notification answers with its option.
func TestNtfyButtonByRouter(t *testing.T) {
	t.Parallel()
	o := newPhoneOffice(t)
	id := o.ask(false, `{"from":"builder","question":"Deploy?","options":["Yes","No"]}`)
	pressed := regexp.MustCompile(`https://phone\.example\.com/api/once/([^/]+)/1/([0-9a-f]{32})"`).FindStringSubmatch(o.topic.all()[0])
	if pressed == nil || pressed[1] != id {
		t.Fatalf("%q has no button for %s", o.topic.all(), id)
	}
	must(t, questions.NtfyOption(t.Context(), o.Ledger, id, 1, pressed[2]))
	q, err := questions.Get(t.Context(), o.Ledger, id)
	must(t, err)
	var answer struct{ Option int }
	must(t, json.Unmarshal([]byte(q.Answer), &answer))
	if q.Status != questions.Answered || answer.Option != 1 || q.AnsweredBy != "ntfy" {
		t.Errorf("%+v", q)
	}
}

// The router waits as long as a push service asks, and contacts it no more for a subscription that has ended. The
// trace reports this without the address.
func TestPushFailuresByRouter(t *testing.T) {
	t.Parallel()
	o := newPhoneOffice(t)
	o.status.Store(http.StatusTooManyRequests)
	o.ask(true, "AAAA")
	if due := o.column(`SELECT next_attempt_at FROM agent_message WHERE status = 'retry'`); len(due) != 1 ||
		due[0] != "2025-10-26T10:31:17.000Z" {
		t.Errorf("due at %q", due)
	}
	o.status.Store(http.StatusGone)
	o.ask(true, "BBBB")
	o.ask(true, "CCCC")
	if n := len(o.phone.all()); n != 2 {
		t.Errorf("%d requests; want one for each of the first two questions", n)
	}
	devices, err := questions.Devices(t.Context(), o.Ledger)
	must(t, err)
	for _, d := range devices {
		if gone := strings.Contains(d.PushProblem, "410"); gone != (d.ID == o.device) {
			t.Errorf("%+v", d)
		}
	}
	for _, secret := range []string{"the-secret", o.phone.secret.Auth, o.phone.secret.P256dh, ntfyToken} {
		for _, text := range append(o.column(`SELECT detail FROM message_trace`),
			o.column(`SELECT error_message FROM agent_message`)...) {
			if strings.Contains(text, secret) {
				t.Errorf("%q shows %s", text, secret)
			}
		}
	}
}
