package console_test

import (
	"fmt"
	"strings"
	"testing"

	"mailroom/commands/surface/phone/browsertest"
	"mailroom/orchestrator/agents"
)

// newDesk is newRoom at an address that a browser can keep keys for.
func newDesk(t *testing.T, names ...string) *room {
	t.Helper()
	r := newRoom(t, names...)
	r.keepsAddress()
	return r
}

// pairs pairs the browser of a page as a device, and approves it at the machine's command line. It returns the device's id.
func (r *room) pairs(p *browsertest.Page) (device string) {
	r.t.Helper()
	p.Click("Pair this desk")
	p.Click("Pair it")
	p.Reads("Approve this desk")
	var print string
	p.Eval(`document.querySelector(".fingerprint").textContent`, &print)
	p.Reads("mailroom signal device approve " + print)
	if status, answer := r.Run(r.session(), "signal_device_approve", fmt.Sprintf(`{"fingerprint":%q}`, print)); status != 403 {
		r.t.Errorf("a session approves a device: %d %s", status, answer)
	}
	approved := r.does("signal_device_approve", fmt.Sprintf(`{"fingerprint":%q}`, print))["device"].(map[string]any)
	if approved["kind"] != "desk" || approved["state"] != "active" {
		r.t.Fatalf("the desk is %v", approved)
	}
	p.Reads("Unpair this desk…")
	return approved["id"].(string)
}

// session opens a session of the console without a browser.
func (r *room) session() string {
	r.t.Helper()
	code, err := agents.IssueCode(r.t.Context(), r.Router.Ledger)
	if err != nil {
		r.t.Fatal(err)
	}
	token, _, err := agents.OpenSession(r.t.Context(), r.Router.Ledger, code)
	if err != nil {
		r.t.Fatal(err)
	}
	return token
}

// asks has an agent ask an encrypted question, and returns its id.
func (r *room) asks(asker, question string, options ...string) string {
	r.t.Helper()
	list := "[]"
	if len(options) > 0 {
		list = `["` + strings.Join(options, `","`) + `"]`
	}
	return r.does("ask_question", fmt.Sprintf(`{"source":%q,"question":%q,"options":%s,"context":"It is tagged."}`, asker, question, list))["questionId"].(string)
}

// hears holds what the asker gets as the answer to what it should be.
func (r *room) hears(asker, question, want string) {
	r.t.Helper()
	if got := r.does("get_response", fmt.Sprintf(`{"questionId":%q}`, question)); got["response"] != want {
		r.t.Errorf("%s gets %v; want %q", asker, got, want)
	}
}

// shows reports whether a page has a text anywhere in its document.
func shows(p *browsertest.Page, text string) (there bool) {
	p.Eval(fmt.Sprintf(`document.documentElement.outerHTML.includes(%q)`, text), &there)
	return there
}

// A browser is paired as a device. An encrypted question comes live, and is answered with an option or in words; a browser that is not paired
// shows nothing of it.
func TestDesk(t *testing.T) {
	t.Parallel()
	r := newDesk(t, "ann", "bob")
	d := r.opens(1440, false, "/questions")
	d.Reads("No device is paired, so nobody can answer.")
	desk := r.pairs(d.Page)

	other := r.opens(1440, false, "/questions")
	question := r.asks("ann", "Shall the canary fly?", "Let it fly", "Keep it")
	d.Reads("Shall the canary fly?")
	d.Reads("It is tagged.")
	other.Reads("1 encrypted question")
	other.Reads("ann")
	if shows(other.Page, "canary") || shows(other.Page, "tagged") || shows(other.Page, "Let it fly") {
		t.Error("a browser that is not paired shows what is encrypted")
	}
	d.Click("Let it fly")
	d.Reads("You answered: Let it fly")
	r.hears("ann", question, "Let it fly")
	d.Until(`document.querySelector(".answered").innerText.includes("Let it fly")`)

	question = r.asks("bob", "What is its name?")
	d.Type("Your answer to bob", "Pip & <b>Pop</b>")
	d.Click("Send answer")
	d.Reads("You answered: Pip & <b>Pop</b>")
	r.hears("bob", question, "Pip & <b>Pop</b>")
	if by := r.does("signal_list", `{"all":true}`)["questions"].([]any)[0].(map[string]any)["answeredBy"]; by != desk {
		t.Errorf("it was answered by %v", by)
	}
}

// TestDeskFirefox pairs the other kind of browser, which answers.
func TestDeskFirefox(t *testing.T) {
	t.Parallel()
	ctx := browsertest.Start(t, browsertest.FirefoxPrograms...)
	r := serveRoom(t, "ann")
	r.keepsAddress()
	page := browsertest.StartFirefox(ctx, t, browsertest.NewDesktop(ctx, t), browsertest.NewPushService(ctx, t)).NewPage()
	code, err := agents.IssueCode(t.Context(), r.Router.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	page.Open(r.Address + "/questions#code=" + code)
	r.pairs(page)
	question := r.asks("ann", "Shall it fly?", "Yes", "No")
	page.Reads("Shall it fly?")
	page.Click("No")
	page.Reads("You answered: No")
	r.hears("ann", question, "No")
}
