package questions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/store"
)

func device(f *enginetest.Fixture, id string) questions.Device {
	f.T.Helper()
	list, err := questions.Devices(f.T.Context(), f.Ledger)
	if err != nil {
		f.T.Fatal(err)
	}
	for _, d := range list {
		if d.ID == id {
			return d
		}
	}
	f.T.Fatalf("there is no device %s", id)
	return questions.Device{}
}

// A code is valid once, for five minutes, in any form of typing.
func TestPairingCode(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	pair := func(code string) error {
		_, _, err := questions.Pair(t.Context(), f.Ledger,
			questions.PairRequest{Code: code, Name: "phone", Recipient: "age1x"})
		return err
	}
	code, expires, err := questions.StartPairing(t.Context(), f.Ledger)
	if err != nil || len(code) != 14 || expires != "2026-01-02T03:09:05.000Z" {
		t.Fatal(code, expires, err)
	}
	if err := pair(" " + strings.ToLower(strings.ReplaceAll(code, "-", " "))); err != nil {
		t.Fatal(err)
	}
	want.Code(t, pair(code), orchestrator.PermissionDenied)
	if code, _, err = questions.StartPairing(t.Context(), f.Ledger); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(5 * time.Minute)
	want.Code(t, pair(code), orchestrator.PermissionDenied)
	for _, wrong := range []string{"", "x", strings.Repeat("0", 12), strings.Repeat("A", 1000), "ÄÄÄÄ-ÄÄÄÄ-ÄÄÄÄ"} {
		want.Code(t, pair(wrong), orchestrator.PermissionDenied)
	}
	if code, _, err = questions.StartPairing(t.Context(), f.Ledger); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", " ", "a\nb", strings.Repeat("x", 65)} {
		_, _, err := questions.Pair(t.Context(), f.Ledger,
			questions.PairRequest{Code: code, Name: name, Recipient: "age1x"})
		want.Code(t, err, orchestrator.InvalidParams)
	}
	if err := pair(code); err != nil {
		t.Errorf("a request that was no good used the code up: %v", err)
	}
}

// Five wrong guesses with the correct first part end a code. Random guesses do not affect it.
func TestPairingCodeIsGuessed(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	guess := func(code string) error {
		_, _, err := questions.Pair(t.Context(), f.Ledger,
			questions.PairRequest{Code: code, Name: "phone", Recipient: "age1x"})
		return err
	}
	code, _, err := questions.StartPairing(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	other := func(c byte) string {
		if c == '0' {
			return "1"
		}
		return "0"
	}
	release := func() {}
	if !f.OnServer() { // which cannot be blocked as a whole
		release = f.Jam()
	}
	for range 100 { // random guesses need no write lock, and so block nobody
		want.Code(t, guess(other(code[0])+code[1:]), orchestrator.PermissionDenied)
	}
	release()
	for range 4 {
		want.Code(t, guess(code[:13]+other(code[13])), orchestrator.PermissionDenied)
	}
	if err := guess(code); err != nil {
		t.Fatalf("the fifth try was right: %v", err)
	}
	if code, _, err = questions.StartPairing(t.Context(), f.Ledger); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		want.Code(t, guess(code[:13]+other(code[13])), orchestrator.PermissionDenied)
	}
	want.Code(t, guess(code), orchestrator.PermissionDenied)
}

// A device first waits, is active after its key was approved, and is rejected after it was revoked.
func TestDeviceLife(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "builder")
	d, token := f.Pair("phone")
	if d.State != questions.DeviceWaiting || d.Fingerprint != questions.Fingerprint(d.Recipient) ||
		!questions.SameFingerprint(strings.ToLower(strings.ReplaceAll(d.Fingerprint, "-", "")), d.Fingerprint) {
		t.Fatalf("%+v", d)
	}
	if got, err := questions.DeviceOfToken(t.Context(), f.Ledger, token); err != nil || got.ID != d.ID {
		t.Fatal(got, err)
	}
	for _, wrong := range []string{"", token + "x", "mailroom_device_", strings.Repeat("x", 200)} {
		_, err := questions.DeviceOfToken(t.Context(), f.Ledger, wrong)
		want.Code(t, err, orchestrator.Unauthenticated)
	}
	if _, err := questions.ActivateDevice(t.Context(), f.Ledger, d.ID,
		"age1other"); orchestrator.CodeOf(err) != orchestrator.Conflict {
		t.Errorf("another key was approved: %v", err)
	}
	if _, err := questions.Answer(t.Context(), f.Ledger, f.Question(nil).ID, d.ID,
		"x"); orchestrator.CodeOf(err) != orchestrator.PermissionDenied {
		t.Errorf("a device that waits answered: %v", err)
	}
	if got, err := questions.ActivateDevice(t.Context(), f.Ledger, d.ID, d.Recipient); err != nil ||
		got.State != questions.DeviceActive || got.ApprovedAt == "" {
		t.Fatal(got, err)
	}
	if _, err := questions.RevokeDevice(t.Context(), f.Ledger, d.ID); err != nil {
		t.Fatal(err)
	}
	_, err := questions.DeviceOfToken(t.Context(), f.Ledger, token)
	want.Code(t, err, orchestrator.Unauthenticated)
	_, err = questions.ActivateDevice(t.Context(), f.Ledger, d.ID, d.Recipient)
	want.Code(t, err, orchestrator.Conflict)
	_, err = questions.Answer(t.Context(), f.Ledger, f.Question(nil).ID, d.ID, "x")
	want.Code(t, err, orchestrator.PermissionDenied)
	_, err = questions.RevokeDevice(t.Context(), f.Ledger, "d-nothing")
	want.Code(t, err, orchestrator.NotFound)
	if n := f.Rows(`SELECT count(*) FROM message_trace WHERE error LIKE '%'||?||'%' OR detail LIKE '%'||?||'%'`, token,
		token); n[0] != "0" {
		t.Error("the trace has a token")
	}
}

// Content that was sealed before a device was approved is not shown on it.
func TestSignalsForADevice(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "builder")
	sealed := f.Question(nil)
	for _, id := range []string{"a-old", "a-anew"} {
		if _, _, err := questions.AlertUser(t.Context(), f.Ledger,
			questions.AlertDraft{ID: id, Sender: "builder", Encrypted: true, Body: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	open := f.Question(nil, func(d *questions.Draft) { d.Encrypted, d.Body = false, `{"question":"?"}` })
	f.Clock.Advance(time.Second)
	d, _ := f.Pair("phone")
	d, err := questions.ActivateDevice(t.Context(), f.Ledger, d.ID, d.Recipient)
	if err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(time.Second)
	later := f.Question(nil)
	if err := questions.ReplaceAlert(t.Context(), f.Ledger, "a-anew", "x", "y"); err != nil {
		t.Fatal(err)
	}
	want.Code(t, questions.ReplaceAlert(t.Context(), f.Ledger, "a-anew", "x", "z"), orchestrator.Conflict)
	want.Code(t, questions.ReplaceAlert(t.Context(), f.Ledger, "a-none", "x", "z"), orchestrator.NotFound)
	questions, alerts, err := questions.SignalsFor(t.Context(), f.Ledger, d)
	if len(alerts) != 1 || alerts[0].Body != "y" {
		t.Errorf("%+v", alerts)
	}
	if err != nil || len(questions) != 2 || questions[0].ID != open.ID || questions[1].ID != later.ID {
		t.Errorf("%+v, %v; not %s", questions, err, sealed.ID)
	}
}

// An attempt at a device has all required data, and none of it can be read with SQL.
func TestPushSecret(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	f.Set("signal.url", "https://Phone.example.com/")
	f.Set("signal.push_hosts", "push.example.com:8443, 10.0.0.5")
	var got push.Secret
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		if err := json.Unmarshal([]byte(a.Secret), &got); err != nil {
			t.Error(err)
		}
		return make([]error, len(a.Messages))
	})
	f.Question(ids)
	f.Pushes()
	public, err := questions.VAPIDPublicKey(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	if got.VAPIDPublic != public || got.VAPIDPrivate == "" || got.Subscriber != "https://phone.example.com" ||
		got.P256dh != enginetest.Subscription("").P256dh || len(got.Hosts) != 2 || got.AllowPrivate {
		t.Errorf("%+v", got)
	}
	if d := device(f, ids[0]); d.PushOutcome != "delivered" || d.PushedAt == "" ||
		d.PushHost != "updates.push.services.mozilla.com" {
		t.Errorf("%+v", d)
	}
	for _, table := range []string{"signal_subscriptions", "signal_keys", "signal_pairings"} {
		if _, err := f.Query(t.Context(), `SELECT * FROM `+table, store.Bound{Rows: 1}); err == nil {
			t.Errorf("%s can be read", table)
		}
	}
}

// 404 and 410 end a subscription and cancel its waiting pushes; a new subscription is used.
func TestDeviceGone(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 2)
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		if a.Recipient == "device:"+ids[0] {
			return []error{fmt.Errorf("410: %w", orchestrator.ErrGone)}
		}
		return []error{nil}
	})
	q := f.Question(ids)
	f.Question(ids)
	f.Pushes()
	if d := device(f, ids[0]); !strings.Contains(d.PushProblem, "410") || d.State != questions.DeviceActive {
		t.Errorf("%+v", d)
	}
	want.Rows(t, f.Rows(`SELECT status, count(*) FROM agent_message WHERE recipient = ? GROUP BY 1 ORDER BY 1`,
		"device:"+ids[0]), "cancelled 1", "failed 1")
	want.Rows(t, f.Rows(`SELECT count(*) FROM agent_message WHERE message_type = 'error_report'`), "0")
	f.Question(ids)
	if got := f.Pushes(); len(got) != 1 {
		t.Errorf("pushed to a device that is gone: %q", got)
	}
	f.Wire.Set(nil)
	if err := questions.Subscribe(t.Context(), f.Ledger, ids[0],
		enginetest.Subscription("https://fcm.googleapis.com/x")); err != nil {
		t.Fatal(err)
	}
	f.Question(ids)
	if got := f.Pushes(); len(got) != 2 {
		t.Errorf("%q", got)
	}
	if _, err := questions.Answer(t.Context(), f.Ledger, q.ID, ids[0], "it can still answer"); err != nil {
		t.Error(err)
	}
}

// A device that subscribed again during an attempt is not given up because of its old address.
func TestDeviceSubscribesDuringAttempt(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	other := f.Open()
	f.Wire.Set(func(context.Context, orchestrator.Attempt) []error {
		f.Wire.Set(nil)
		if err := questions.Subscribe(t.Context(), other.Ledger, ids[0],
			enginetest.Subscription("https://fcm.googleapis.com/new")); err != nil {
			t.Error(err)
		}
		return []error{fmt.Errorf("404: %w", orchestrator.ErrGone)}
	})
	q := f.Question(ids)
	f.Pushes()
	f.Clock.Advance(31 * time.Second)
	want.Lines(t, f.Pushes(), "device:"+ids[0]+" question "+q.ID)
	if d := device(f, ids[0]); d.PushProblem != "" {
		t.Errorf("%+v", d)
	}
}

// Waiting pushes to a revoked or unsubscribed device are cancelled.
func TestNothingIsPushedToWhoLeft(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 2)
	f.Question(ids)
	if err := questions.Unsubscribe(t.Context(), f.Ledger, ids[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := questions.RevokeDevice(t.Context(), f.Ledger, ids[1]); err != nil {
		t.Fatal(err)
	}
	f.Question(ids)
	want.Lines(t, f.Pushes())
	want.Rows(t, f.Rows(`SELECT status, count(*) FROM agent_message GROUP BY 1`), "cancelled 2")
	err := questions.Subscribe(t.Context(), f.Ledger, ids[1], enginetest.Subscription("https://fcm.googleapis.com/x"))
	want.Code(t, err, orchestrator.PermissionDenied)
}

// Devices are not agents, and nobody can send messages to one.
func TestDevicesAreNoAgents(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	sent, err := messages.Send(t.Context(), f.Ledger,
		orchestrator.Draft{Sender: "builder", Recipient: "all", Type: "note", Payload: []byte(`1`)})
	if err != nil || len(sent.Recipients) != 2 {
		t.Errorf("%v, %v", sent.Recipients, err)
	}
	_, err = messages.Send(t.Context(), f.Ledger,
		orchestrator.Draft{Sender: "builder", Recipient: "device:" + ids[0], Type: "note", Payload: []byte(`1`)})
	want.Code(t, err, orchestrator.InvalidParams)
	_, err = agents.Get(t.Context(), f.Ledger, "device:"+ids[0])
	want.Code(t, err, orchestrator.NotFound)
	for name, code := range map[string]orchestrator.Code{"user": orchestrator.InvalidParams,
		"device:" + ids[0]: orchestrator.NotFound} {
		_, err := removal.Remove(t.Context(), f.Ledger, removal.Request{Name: name, Force: true})
		want.Code(t, err, code)
	}
	if list, err := agents.List(t.Context(), f.Ledger); err != nil || len(list) != 2 {
		t.Error(list, err)
	}
}

// A topic is notified of an encrypted question without its content. Its buttons answer an unencrypted question once.
func TestNtfy(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "builder")
	for _, bad := range []string{"http://ntfy.sh/topic", "https://evil.example/topic", "https://ntfy.sh/",
		"https://ntfy.sh/a/b", "ftp://ntfy.sh/a", "https://u:p@ntfy.sh/a"} {
		_, err := questions.SetNtfy(t.Context(), f.Ledger, questions.NtfyConfig{URL: bad})
		want.Code(t, err, orchestrator.InvalidParams)
	}
	if _, err := questions.SetNtfy(t.Context(), f.Ledger,
		questions.NtfyConfig{URL: "https://ntfy.sh/topic", Token: "secret"}); err != nil {
		t.Fatal(err)
	}
	var secret push.NtfySecret
	var bodies []string
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		var p push.Message
		if json.Unmarshal([]byte(a.Secret), &secret) != nil || json.Unmarshal(a.Messages[0].Payload, &p) != nil {
			t.Error("an attempt cannot be read")
		}
		bodies = append(bodies, p.Body)
		return []error{nil}
	})
	sealed := f.Question(nil)
	open := f.Question(nil, func(d *questions.Draft) { d.Encrypted, d.Body = false, `{"options":["a","b"]}` })
	f.Pushes()
	if len(bodies) != 2 || bodies[0] != "" || bodies[1] != open.Body || secret.Token != "secret" ||
		secret.URL != "https://ntfy.sh/topic" {
		t.Fatalf("%q, %+v", bodies, secret)
	}
	button := push.NtfyToken(secret.Key, open.ID, 1)
	want.Code(t, questions.NtfyOption(t.Context(), f.Ledger, open.ID, 0, button), orchestrator.PermissionDenied)
	want.Code(t, questions.NtfyOption(t.Context(), f.Ledger, sealed.ID, 1, button), orchestrator.PermissionDenied)
	want.Code(t, questions.NtfyOption(t.Context(), f.Ledger, sealed.ID, 1, push.NtfyToken(secret.Key, sealed.ID, 1)),
		orchestrator.PermissionDenied)
	want.Code(t, questions.NtfyOption(t.Context(), f.Ledger, open.ID, 1, ""), orchestrator.PermissionDenied)
	if err := questions.NtfyOption(t.Context(), f.Ledger, open.ID, 1, button); err != nil {
		t.Fatal(err)
	}
	want.Code(t, questions.NtfyOption(t.Context(), f.Ledger, open.ID, 1, button), orchestrator.Conflict)
	if q, _ := questions.Get(t.Context(), f.Ledger, open.ID); q.Answer != `{"option":1}` || q.AnsweredBy != "ntfy" {
		t.Errorf("%+v", q)
	}
	if _, err := questions.SetNtfy(t.Context(), f.Ledger, questions.NtfyConfig{}); err != nil {
		t.Fatal(err)
	}
	want.Code(t, questions.NtfyOption(t.Context(), f.Ledger, f.Question(nil).ID, 0, push.NtfyToken("", "", 0)),
		orchestrator.PermissionDenied)
}

// A device is accepted even if the database cannot be written.
func TestDeviceOfAFullDatabase(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	d, token := f.Pair("phone")
	f.Clock.Advance(time.Hour)
	f.Forbid("UPDATE", "signal_devices", `true`, "full")
	if got, err := questions.DeviceOfToken(t.Context(), f.Ledger, token); err != nil || got.ID != d.ID {
		t.Errorf("%+v, %v", got, err)
	}
}
