package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"filippo.io/age"

	"mailroom/commands/surface/phone"
	"mailroom/commands/surface/surfacetest"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// asDevice adds the token of a session and that of a device to a request.
func asDevice(session, device string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+session)
		r.Header.Set("Mailroom-Device", device)
	}
}

// enrol makes the browser of a session a device and returns its token and fingerprint.
func (f *fort) enrol(session string) (token, fingerprint string) {
	f.T.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		f.T.Fatal(err)
	}
	status, _, answer := f.Request("POST", web.DeskPath+"/device", `{"name":"Firefox on Linux","recipient":"`+
		identity.Recipient().String()+`"}`, asDevice(session, ""))
	var r struct{ Token, Fingerprint, State string }
	if err := json.Unmarshal([]byte(answer), &r); err != nil || status != 200 || r.State != "waiting" {
		f.T.Fatalf("%d %s %v", status, answer, err)
	}
	return r.Token, r.Fingerprint
}

// TestDesk checks that a desk requires both a session and a device, and that nothing can be read before somebody on
// the machine has approved the device.
func TestDesk(t *testing.T) {
	t.Parallel()
	f := newConsole(t, "ann")
	session := f.session()
	device, fingerprint := f.enrol(session)
	read := func(change func(*http.Request)) (status int, answer string) {
		status, _, answer = f.Request("GET", web.DeskPath+"/signals", "", change)
		return status, answer
	}
	if status, answer := read(asDevice(session, device)); status != 403 ||
		!strings.Contains(answer, "is not approved yet") {
		t.Errorf("a desk that waits: %d %s", status, answer)
	}
	if _, err := person.Approve(t.Context(), f.Router.Ledger, fingerprint); err != nil {
		t.Fatal(err)
	}
	if status, answer := read(asDevice(session, device)); status != 200 || !strings.Contains(answer, `"questions":[]`) {
		t.Errorf("a desk: %d %s", status, answer)
	}
	code, _, err := questions.StartPairing(t.Context(), f.Router.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	_, ofPhone, err := questions.Pair(t.Context(), f.Router.Ledger,
		questions.PairRequest{Code: code, Name: "pixel", Recipient: "age1"})
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*http.Request){
		"no session": func(r *http.Request) { r.Header.Set("Mailroom-Device", device) },
		"no device":  asDevice(session, ""),
		"a phone":    asDevice(session, ofPhone), "the device as a session": asDevice(device, device),
		"the session as a device": asDevice(session, session),
	} {
		if status, answer := read(change); status != 401 {
			t.Errorf("%s: %d %s", what, status, answer)
		}
	}
	if status, answer := read(asDevice(f.Token("ann", true), device)); status != 403 {
		t.Errorf("an administrator's token: %d %s", status, answer)
	}
	app, err := phone.Listen(t.Context(), f.Router.Ledger, f.Env.Log, phone.Options{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(app.Close)
	phones := surfacetest.On(t, f.Router)
	phones.Address = app.Address
	if status, _, answer := phones.Request("GET", "/api/signals", "", surfacetest.Bearer(device)); status != 401 {
		t.Errorf("the desk's token where phones ask: %d %s", status, answer)
	}
	f.Request("DELETE", web.SessionPath, "", surfacetest.Bearer(session))
	if status, answer := read(asDevice(session, device)); status != 401 {
		t.Errorf("after the session's end: %d %s", status, answer)
	}
	if status, answer := read(asDevice(f.session(), device)); status != 200 {
		t.Errorf("another session: %d %s", status, answer)
	}
}

// TestDeskRefuses checks that input of a desk is validated like that of a phone, and that nobody can fill the table
// with desks.
func TestDeskRefuses(t *testing.T) {
	t.Parallel()
	f := newConsole(t)
	session := f.session()
	for _, body := range []string{``, `{}`, `{"name":"x","recipient":"age1"}`,
		`{"name":"x","recipient":"age1","code":"x"}`} {
		if status, _, answer := f.Request("POST", web.DeskPath+"/device", body, asDevice(session, "")); status != 400 {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	busy := false
	for range 40 {
		status, _, _ := f.Request("POST", web.DeskPath+"/device", `{}`, asDevice(session, ""))
		busy = busy || status == http.StatusTooManyRequests
	}
	if !busy {
		t.Error("a session can enrol without end")
	}
	for _, path := range []string{"", "/", "/subscription", "/pair", "/device/x"} {
		if status, _, answer := f.Request("GET", web.DeskPath+path, "", asDevice(session, "")); status != 404 {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	without := newFort(t, web.Options{})
	if status, _, answer := without.Request("GET", web.DeskPath+"/device", "",
		surfacetest.Bearer(without.Token("ann", true))); status != 404 {
		t.Errorf("without the console: %d %s", status, answer)
	}
}
