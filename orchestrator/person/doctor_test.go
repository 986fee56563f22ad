package person_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	app "mailroom/commands/surface/phone"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// found returns the doctor's finding of a check; there must be exactly one.
func (o *office) found(check string) overview.Finding {
	o.t.Helper()
	var list overview.Findings
	for _, f := range person.Doctor(o.t.Context(), o.Ledger, false) {
		if f.Title() == check {
			list = append(list, f)
		}
	}
	if len(list) != 1 {
		o.t.Fatalf("the doctor finds %+v of %s", list, check)
	}
	return list[0]
}

// finds fails the test unless the doctor's finding of a check has a level and contains a text.
func (o *office) finds(check, level, says string) {
	o.t.Helper()
	if f := o.found(check); f.Level != level || !strings.Contains(f.Says, says) || (level == "problem" && f.Do == "") {
		o.t.Errorf("the doctor finds %+v; want %s: %s", f, level, says)
	}
}

func (o *office) set(key, value string) {
	o.t.Helper()
	if _, err := o.SetSetting(o.t.Context(), key, value); err != nil {
		o.t.Fatal(err)
	}
}

// TestDoctorAddress checks the findings about the address of the app and the clocks.
func TestDoctorAddress(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.finds("address", "problem", "signal.url is not set")
	answer := http.FileServerFS(app.Files())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", o.now().UTC().Format(http.TimeFormat))
		answer.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	o.set("signal.url", server.URL)
	o.finds("address", "note", "only this machine can reach")
	o.finds("app", "ok", server.URL)
	o.finds("clock", "ok", "")
	real := o.clock.Now()
	answer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", real.Add(time.Hour).Format(http.TimeFormat))
		http.ServeFileFS(w, r, app.Files(), r.URL.Path[1:])
	})
	o.finds("clock", "problem", "differ by 1h0m0s")
	for says, other := range map[string]http.HandlerFunc{
		"404": http.NotFound,
		"302": func(w http.ResponseWriter,
			r *http.Request) {
			http.Redirect(w, r, "/", http.StatusFound)
		},
		"another program answers at that address": func(w http.ResponseWriter,
			_ *http.Request) {
			w.Write([]byte(`{"name":"Grafana"}`))
		},
	} {
		answer = other
		o.finds("app", "problem", says)
	}
	server.Close()
	o.finds("app", "problem", "refused")
}

// TestDoctorDevices checks the findings about devices that cannot be notified.
func TestDoctorDevices(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.finds("devices", "problem", "no device can read")
	o.finds("push keys", "ok", "")
	p := o.pair()
	check := "device " + p.id
	o.finds(check, "note", "waiting for approval")
	if f := o.found(check); strings.Contains(f.Do+f.Says, p.fingerprint()) ||
		!strings.Contains(f.Do, "from the phone's screen") {
		t.Errorf("it says %s", f.Do)
	}
	if _, err := person.Approve(t.Context(), o.Ledger, p.fingerprint()); err != nil {
		t.Fatal(err)
	}
	o.finds("devices", "ok", "1 device can read")
	o.finds(check, "problem", "has not subscribed")
	if err := questions.Subscribe(t.Context(), o.Ledger, p.id, questions.Subscription{
		Endpoint: "https://updates.push.services.mozilla.com/wpush/v2/x", Auth: "BTBZMqHH6r4Tts7J_aSIgg",
		P256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
	}); err != nil {
		t.Fatal(err)
	}
	o.finds(check, "ok", "no push has been sent yet")
	o.exec(`UPDATE signal_devices SET pushed_at = '2026-01-02T03:00:00.000Z', push_outcome = 'delivered'`)
	o.finds(check, "ok", "the last push at 2026-01-02T03:00:00.000Z: delivered")
	o.exec(`UPDATE signal_devices SET push_outcome = 'the service answered 500'`)
	o.finds(check, "problem", "the service answered 500")
	o.exec(`UPDATE signal_devices SET push_problem = '2026-01-02T03:00:00.000Z gone'`)
	o.finds(check, "problem", "have failed since")
	o.exec(`UPDATE signal_devices SET recipient = 'age1other'`)
	o.finds(check, "problem", "nobody approved its key")
	o.finds("devices", "problem", "no device can read")
	if tried := person.Doctor(t.Context(), o.Ledger, true)[0]; tried.Title() != "trial "+p.id ||
		tried.Level != "problem" || !strings.Contains(tried.Says, `no transport "push"`) {
		t.Errorf("a test without a transport: %+v", tried)
	}
}

// TestDoctorNtfy checks the findings about topics that cannot be notified, or whose notifications have no address.
func TestDoctorNtfy(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	if _, err := questions.SetNtfy(t.Context(), o.Ledger,
		questions.NtfyConfig{URL: "https://ntfy.sh/a-topic"}); err != nil {
		t.Fatal(err)
	}
	o.finds("device ntfy", "note", "no buttons and no address")
	o.set("signal.url", "http://127.0.0.1:1")
	o.finds("device ntfy", "ok", "through ntfy.sh; no push has been sent yet")
	o.exec(`UPDATE signal_devices SET push_problem = '2026-01-02T03:00:00.000Z gone'`)
	if f := o.found("device ntfy"); f.Level != "problem" || !strings.Contains(f.Do, "mailroom signal ntfy") {
		t.Errorf("the doctor finds %+v", f)
	}
}

// TestDoctorAnswers checks the findings about keys without a question, and questions without keys.
func TestDoctorAnswers(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.phone()
	asked := o.ask()
	o.finds("answers", "ok", "")
	o.rename(asked.ID, "q-01KDYA9W8FZ6ZC3T0N8X5JQ2WR")
	var says []string
	for _, f := range person.Doctor(t.Context(), o.Ledger, false) {
		if f.Code == "answers" {
			says = append(says, f.Level+" "+f.Says)
		}
	}
	if len(says) != 2 || !strings.HasPrefix(says[0], "note found keys of 1 question;") ||
		!strings.HasPrefix(says[1], "problem cannot decrypt the answers to 1 open question,") {
		t.Errorf("the doctor finds %q", says)
	}
	if err := os.Chmod(filepath.Join(o.Ledger.FilePrefix()+"-signal", "replies", "q-01KDYA9W8FZ6ZC3T0N8X5JQ2WR"),
		0o644); err != nil {
		t.Fatal(err)
	}
	o.finds("key folder", "problem", "mode 0644")
}

// TestDoctorKeptAlerts checks that the key to alerts that no phone has read yet is one that others must not access.
func TestDoctorKeptAlerts(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	if _, err := person.Tell(ledger.WithIdentity(t.Context(), "builder"), o.Ledger,
		person.Alert{Sender: "builder", Message: "Done", Encrypted: true}); err != nil {
		t.Fatal(err)
	}
	o.finds("key folder", "ok", "")
	kept := filepath.Join(o.Ledger.FilePrefix()+"-signal", "k-keptalerts")
	if err := os.Chmod(kept, 0o640); err != nil {
		t.Fatal(err)
	}
	o.finds("key folder", "problem", "mode 0640")
	if err := errors.Join(os.Chmod(kept, 0o600),
		os.WriteFile(kept, []byte(`{"identity":"AGE-SECRET-KEY-1Canary"}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	o.finds("key folder", "problem", "does not contain a valid key")
	for _, f := range person.Doctor(t.Context(), o.Ledger, false) {
		if strings.Contains(f.Says+f.Do, "Canary") {
			t.Errorf("the doctor says %+v", f)
		}
	}
}
