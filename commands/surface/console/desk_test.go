package console_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mailroom/commands/surface/phone/browsertest"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/store"
)

// newDesk returns a room with an address for which a browser can keep keys.
func newDesk(t *testing.T, names ...string) *room {
	t.Helper()
	r := newRoom(t, names...)
	r.keepsAddress()
	return r
}

// pairs pairs the browser of a page as a device, and approves it on the machine's command line. It returns the
// device's ID.
func (r *room) pairs(p *browsertest.Page) (device string) {
	r.t.Helper()
	p.Until(`!document.querySelector("[aria-busy=true]")`) // later content moves the button
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

// code issues a one-time login code.
func (r *room) code() string {
	r.t.Helper()
	code, err := agents.IssueCode(r.t.Context(), r.Router.Ledger)
	if err != nil {
		r.t.Fatal(err)
	}
	return code
}

// session opens a session of the console without a browser.
func (r *room) session() string {
	r.t.Helper()
	token, _, err := agents.OpenSession(r.t.Context(), r.Router.Ledger, r.code())
	if err != nil {
		r.t.Fatal(err)
	}
	return token
}

// asks makes an agent ask an encrypted question, and returns the question's ID.
func (r *room) asks(asker, question string, options ...string) string {
	r.t.Helper()
	list := "[]"
	if len(options) > 0 {
		list = `["` + strings.Join(options, `","`) + `"]`
	}
	return r.does("ask_question", fmt.Sprintf(`{"source":%q,"question":%q,"options":%s,"context":"It is tagged."}`, asker, question, list))["questionId"].(string)
}

// hears checks the answer that the asker gets.
func (r *room) hears(asker, question, want string) {
	r.t.Helper()
	if got := r.does("get_response", fmt.Sprintf(`{"questionId":%q}`, question)); got["response"] != want {
		r.t.Errorf("%s gets %v; want %q", asker, got, want)
	}
}

// takesBackFor makes a page hold answers for ms milliseconds instead of five seconds.
func (d *desk) takesBackFor(ms int) {
	d.Eval(fmt.Sprintf(`((set) => (window.setInterval = (beat, ms) => ms !== 250 ? set(beat, ms) : window.holds = set(() => {
		const now = Date.now, over = 5000 - %d;
		Date.now = () => now() + over;
		try { beat(); } finally { Date.now = now; }
	}, ms), null))(window.setEvery ??= setInterval)`, ms), nil)
}

const never = 1 << 30 // milliseconds

// shows reports whether a page contains a text anywhere in its document.
func shows(p *browsertest.Page, text string) (there bool) {
	p.Eval(fmt.Sprintf(`document.documentElement.outerHTML.includes(%q)`, text), &there)
	return there
}

// TestDesk pairs a browser as a device. An encrypted question arrives live and is answered with an option or a text.
// A browser that is not paired shows nothing of the question.
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
	d.Until(`document.querySelectorAll(".choice").length === 2`)
	d.Key("?")
	d.Reads("choose the option with that number")
	d.Key("Escape", "2")
	d.Key("j", "2")
	d.Reads("Your answer: Keep it")
	d.Click("Undo")
	d.Click("Let it fly")
	d.Reads("You answered: Let it fly")
	r.hears("ann", question, "Let it fly")
	d.Until(`document.querySelector(".answered").innerText.includes("Let it fly")`)

	d.takesBackFor(0)
	question = r.asks("bob", "What is its name?")
	d.Type("Your answer", "Pip & <b>Pop</b>")
	d.Click("Send answer")
	d.Reads("You answered: Pip & <b>Pop</b>")
	r.hears("bob", question, "Pip & <b>Pop</b>")
	if by := r.does("signal_list", `{"all":true}`)["questions"].([]any)[0].(map[string]any)["answeredBy"]; by != desk {
		t.Errorf("it was answered by %v", by)
	}
	err := r.Router.Ledger.Read(t.Context(), func(c *store.Conn) error {
		n, err := c.Number(`SELECT count(*) FROM command_trace WHERE name = 'desk answer'`)
		if err == nil && n != 2 {
			t.Errorf("of two answers %d are in the trace as those of a desk", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	question = r.asks("ann", "And when nobody waits?", "Go", "Drop it")
	d.takesBackFor(never)
	d.Until(`[...document.querySelectorAll(".choice")].some((choice) => choice.innerText === "Drop it")`)
	d.Key("j", "2")
	d.Until(`document.activeElement.innerText === "Drop it"`) // only focused: Enter presses it
	d.Key("Enter")
	d.Reads("Your answer: Drop it")
	d.CloseTab()
	if got := r.does("get_response", fmt.Sprintf(`{"questionId":%q,"wait_seconds":20}`, question)); got["response"] != "Drop it" {
		t.Errorf("after the tab was closed, ann gets %v", got)
	}
}

// TestDeskRefused checks that the page shows the reason, and the user's text again, if the daemon refuses an answer
// or the asker's check fails.
func TestDeskRefused(t *testing.T) {
	t.Parallel()
	r := newDesk(t, "ann")
	d := r.opens(1440, false, "/questions")
	r.pairs(d.Page)
	d.takesBackFor(0)
	question := r.asks("ann", "Shall it fly?", "Let it fly", "Keep it")
	d.Click("Add a comment")
	d.Type("Sent with the option that you press", "but slowly")
	const answers = `((asked) => (window.fetch = (path, o) => path.endsWith("/answer") ? (window.fetch = asked, %s) : asked(path, o), null))(fetch)`
	d.Eval(fmt.Sprintf(answers, `Promise.resolve(Response.json({ error: "unavailable", message: "The disk is full.", hint: "Make room." }, { status: 503 }))`), nil)
	d.Click("Let it fly")
	d.Reads("Your answer “Let it fly: but slowly” was not accepted.")
	d.Reads("The disk is full. Make room.")
	d.Until(`document.querySelector("textarea").value === "but slowly"`)

	d.Eval(fmt.Sprintf(answers, `asked(path, { ...o, body: JSON.stringify({ ciphertext: btoa("age-encryption.org/v1\n") }) })`), nil)
	d.Click("Let it fly")
	d.Until(`document.querySelector(".answered").innerText.includes("Let it fly")`)
	if got := r.does("get_response", fmt.Sprintf(`{"questionId":%q}`, question)); got["answered"] != false {
		t.Errorf("ann gets %v of a forged answer", got)
	}
	d.Reads("The answer did not pass the asking agent’s check, so the question is open again.")
	d.Reads("mailroom trace " + question)
	d.Until(`document.querySelector("textarea").value === "but slowly"`)
	d.Click("Let it fly")
	d.Reads("You answered: Let it fly: but slowly")
	r.hears("ann", question, "Let it fly")
}

// TestDeskFirefox pairs Firefox, which answers a question.
func TestDeskFirefox(t *testing.T) {
	helper.Long(t)
	if testing.Short() {
		t.Skip("`make test-long` drives Firefox")
	}
	t.Parallel()
	ctx := browsertest.Start(t, browsertest.FirefoxPrograms...)
	r := serveRoom(t, "ann")
	r.keepsAddress()
	page := browsertest.StartFirefox(ctx, t, browsertest.NewDesktop(ctx, t), browsertest.NewPushService(ctx, t)).NewPage()
	page.Open(r.Address + "/questions#code=" + r.code())
	r.pairs(page)
	question := r.asks("ann", "Shall it fly?", "Yes", "No")
	page.Reads("Shall it fly?")
	page.Click("No")
	page.Reads("You answered: No")
	r.hears("ann", question, "No")
}

// TestTwoDesks checks that the first answer of two desks counts, and that the other desk shows this. A question that
// ends while it is displayed shows its outcome.
func TestTwoDesks(t *testing.T) {
	t.Parallel()
	r := newDesk(t, "ann")
	one, two := r.opens(1440, false, "/questions"), r.opens(1440, true, "/questions")
	r.pairs(one.Page)
	early := r.asks("ann", "Asked before the second desk was there?", "Yes")
	r.by(`UPDATE signal_questions SET asker = 'bob' WHERE question_id = ?`, early)
	r.pairs(two.Page)
	one.Open(r.Address + "/questions")
	one.Reads("Asked before")
	one.Until(`document.querySelector(".ask .who").innerText === "ann"`) // the agent that encrypted it
	two.Until(`document.querySelector(".ask .who").innerText === "bob"`) // the name in the table
	two.Reads("The question was asked before you paired this desk.")
	if shows(two.Page, "Asked before the second") {
		t.Error("a desk reads what was asked before it was paired")
	}
	r.does("signal_cancel", fmt.Sprintf(`{"questionId":%q}`, early))
	one.Reads("Canceled by the asker")
	one.Until(`document.querySelector(".answered .agent").innerText === "ann"`)
	one.takesBackFor(0)
	two.takesBackFor(0)

	question := r.asks("ann", "Who is first?", "One", "Two")
	two.Reads("Who is first?")
	one.Reads("Who is first?")
	two.Eval(`(window.asked = fetch, window.fetch = (path, o) => path.endsWith("/answer") ? new Promise((go) => (window.send = () => go(asked(path, o)))) : asked(path, o), null)`, nil)
	two.Click("Two")
	two.Until(`window.send`)
	one.Click("One")
	one.Reads("You answered: One")
	two.Eval(`(send(), null)`, nil)
	two.Reads("Answered on another device before your answer arrived")
	r.hears("ann", question, "One")

	question = r.does("ask_question", `{"source":"ann","question":"Which tab is first?","options":["That","This"],"encrypt":false}`)["questionId"].(string)
	one.Reads("Which tab is first?")
	one.Eval(`((asked) => (window.fetch = (path, o) => path.endsWith("/answer")
		? (window.fetch = asked, asked(path, { ...o, body: JSON.stringify({ option: 0 }) }).then(() => asked(path, o))) : asked(path, o), null))(fetch)`, nil) // another tab answers
	one.Click("This")
	one.Reads("Answered by this browser before your answer arrived")
	r.hears("ann", question, "That")

	r.does("ask_question", `{"source":"ann","question":"Is there time?","options":["Yes"],"ttl":3600}`)
	one.Reads("Is there time?")
	r.Step(2 * time.Hour)
	one.Click("Yes")
	one.Reads("Expired before your answer arrived")
}

// TestDeskEnds checks that a revoked desk shows that, removes its keys and can be paired again, and that unpairing
// revokes the desk and leaves nothing in the browser.
func TestDeskEnds(t *testing.T) {
	t.Parallel()
	r := newDesk(t, "ann")
	d := r.opens(1440, false, "/questions")
	id := r.pairs(d.Page)
	r.asks("ann", "Shall the canary fly?", "Yes")
	d.takesBackFor(never)
	d.Eval(`((clear) => (window.cleared = new Set(), window.clearInterval = (id) => (cleared.add(id), clear(id)), null))(clearInterval)`, nil)
	d.Click("Add a comment")
	d.Type("Sent with the option that you press", "but softly")
	d.Click("Yes")
	d.Reads("Your answer: Yes: but softly")
	// Cancels the question, since no other device can decrypt it.
	r.does("signal_device_revoke", fmt.Sprintf(`{"id":%q}`, id))
	d.Reads("This desk was revoked")
	d.Reads("Your answer to ann (“Yes: but softly”) was not accepted, because this desk was revoked.")
	if shows(d.Page, "canary") {
		t.Error("a desk that was revoked still shows what is encrypted")
	}
	d.Click("Remove its keys")
	d.Reads("This browser is not paired.")
	d.Until(`cleared.has(holds)`)

	id = r.pairs(d.Page)
	question := r.asks("ann", "Shall it sing?", "Yes")
	d.Click("Yes")
	d.Reads("Your answer: Yes")
	d.refuses("/answer")
	d.Eval(`(dispatchEvent(new Event("pagehide")), null)`, nil) // sends the answer
	d.Reads("Sending your answer: Yes")
	d.Click("Unpair this desk…")
	d.Click("Unpair")
	d.Eval(`refuse()`, nil)
	d.Reads("This desk stays paired, because an answer was not accepted: The disk is full.")
	d.Click("Go back")
	d.Reads("Your answer “Yes” was not accepted.")
	d.Click("Yes")
	d.Reads("Your answer: Yes")
	d.Click("Unpair this desk…")
	d.Reads("Mailroom cancels open questions that no other device can read.")
	d.Click("Unpair")
	d.Reads("This browser is not paired.")
	if kept := d.kept(); kept != "" {
		t.Errorf("after unpairing the browser keeps %s", kept)
	}
	r.hears("ann", question, "Yes") // the held answer
	for _, device := range r.does("signal_device_list", `{}`)["devices"].([]any) {
		if d := device.(map[string]any); d["id"] == id && d["state"] != "revoked" {
			t.Errorf("after unpairing the desk is %v", d)
		}
	}

	d.Click("Pair this desk")
	d.Click("Pair it")
	d.Reads("Approve this desk")
	d.refuses("/device")
	d.Click("Cancel")
	d.Until(`window.refuse`)
	d.Eval(`refuse()`, nil)
	d.Reads("The disk is full.")
	d.Click("Cancel")
	d.Reads("This browser is not paired.")
}

// refuses blocks the page's next request to a path with a suffix, until refuse() in the page rejects it.
func (d *desk) refuses(end string) {
	d.Eval(fmt.Sprintf(`((asked) => (window.refuse = null, window.fetch = (path, o) => path.endsWith(%q) && o.method !== "GET" ? new Promise((go) => {
		window.refuse = () => (window.fetch = asked, go(Response.json({ error: "unavailable", message: "The disk is full." }, { status: 503 })), null);
	}) : asked(path, o), null))(fetch)`, end), nil)
}

// kept returns the data that the browser stores for a desk, as JSON. Keys have no JSON form.
func (d *desk) kept() (all string) {
	d.Eval(`new Promise((resolve) => {
		indexedDB.open("mailroom").onsuccess = ({ target: { result: db } }) => {
			const found = [];
			for (const name of ["kept", "signals"]) db.transaction(name).objectStore(name).getAll().onsuccess = ({ target: { result } }) => {
				found.push(...result.map((value) => JSON.stringify(value)));
				if (name === "signals") db.close(), resolve(found.join());
			};
		};
	})`, &all)
	return all
}

// TestDeskAndSessions checks that logging out leaves no readable data and does not unpair: another session of the
// same browser can decrypt again.
func TestDeskAndSessions(t *testing.T) {
	t.Parallel()
	r := newDesk(t, "ann")
	d := r.opens(1440, false, "/questions")
	r.pairs(d.Page)
	question := r.asks("ann", "Shall the canary fly?", "Let it")
	d.Reads("Shall the canary fly?")
	r.does("send_alert", `{"source":"ann","message":"The canary is out.","alertType":"warning"}`)
	d.Reads("The canary is out.")
	r.does("send_alert", `{"source":"ann","message":"The canary is back.","alertType":"warning"}`)
	d.Until(`document.querySelectorAll(".alerts.warning").length === 1 && document.querySelectorAll(".alerts .new").length === 2`)
	d.Reads("2 alerts")
	for noted := regexp.MustCompile(`"seen":\["[^"]+","`); !noted.MatchString(d.kept()); {
		// until it is stored that both were seen
	}
	d.Click("Log out")
	d.Reads("Run mailroom console")
	if kept := d.kept(); shows(d.Page, "canary") || strings.Contains(kept, "canary") {
		t.Errorf("after logging out there is still what is encrypted; the browser keeps %s", kept)
	}
	d.Open(r.Address + "/#code=" + r.code())
	d.Until(`document.querySelector(".rail")`)
	d.Open(r.Address + "/questions")
	d.Reads("Shall the canary fly?")
	d.Reads("The canary is back.")
	d.Until(`!document.querySelector(".alerts .new")`)
	d.Click("1 earlier")
	d.Until(`[...document.querySelectorAll(".message")].filter((p) => p.checkVisibility()).map((p) => p.innerText).join() === "The canary is back.,The canary is out."`)
	d.Click("Dismiss all 2")
	d.Until(`!document.querySelector(".alerts")`)
	d.Open(r.Address + "/questions")
	d.takesBackFor(0)
	d.Click("Let it")
	if shows(d.Page, "The canary is back.") {
		t.Error("an alert that was dismissed is there again")
	}
	d.Reads("You answered: Let it")
	r.hears("ann", question, "Let it")

	r.asks("ann", "And again?", "Yes")
	d.Reads("And again?")
	d.Click("Add a comment")
	d.Type("Sent with the option that you press", "quite so")
	if _, err := agents.RevokeTokens(t.Context(), r.Router.Ledger, "operator"); err != nil {
		t.Fatal(err)
	}
	d.Reads("This session is over")
	d.Until(`!document.documentElement.outerHTML.includes("And again?")`)
	if shows(d.Page, "This browser is not paired") {
		t.Error("the page says that the browser is not paired, since the session is over")
	}
	d.fills("[aria-label='Address or token']", r.code())
	d.Click("Log in")
	d.Until(`document.querySelector("textarea")?.value === "quite so"`)
}

// TestDeskNotOffered checks that the page gives the reason instead of offering pairing if it is not at its usual
// address, or for the token of an agent.
func TestDeskNotOffered(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann")
	d := r.opens(1440, false, "/questions")
	d.Reads("This page is not at its usual address")
	r.keepsAddress()
	r.browserWith(d, r.Token("ann", true))
	d.Reads("To pair this browser, log in with mailroom console.")
	d.Until(`![...document.querySelectorAll("button")].some((b) => b.innerText === "Pair this desk")`)
}

// browserWith opens the questions with a token.
func (r *room) browserWith(d *desk, token string) {
	d.Open(r.Address + "/questions")
	d.Type("Token", token)
	d.Click("Log in")
}

// TestDeskLooks checks the layout of a paired desk, one that waits and one that is not paired, wide and narrow.
func TestDeskLooks(t *testing.T) {
	t.Parallel()
	r := newDesk(t, "architect", "release-bot")
	r.pairs(r.opens(1440, false, "/questions").Page)
	r.does("ask_question", `{"source":"release-bot","question":"Which name should the release carry?","options":["2.4 “Post horn”","2.4 “Pigeonhole”","No name"],"context":"Everything is tagged and built; the name goes into the notes and cannot be changed afterwards.","priority":"high"}`)
	r.asks("architect", "Token rotation would break two old clients. What shall I tell them? "+strings.Repeat("long", 40))
	r.does("ask_question", `{"source":"architect","question":"May everybody read this?","options":["Yes","No"],"encrypt":false}`)
	for _, width := range []int64{1440, 360} {
		for _, dark := range []bool{false, true} {
			if testing.Short() && dark != (width == 360) {
				continue
			}
			d := r.opens(width, dark, "/questions")
			d.looks(t, fmt.Sprintf("unpaired-%d-%t", width, dark), `document.querySelectorAll(".locked li").length === 2`)
			d.Click("Pair this desk")
			d.Click("Pair it")
			d.looks(t, fmt.Sprintf("waiting-%d-%t", width, dark), `document.querySelector(".fingerprint")`)
			d.Click("Cancel")
			d.Reads("This browser is not paired.")
			r.pairs(d.Page)
			r.does("send_alert", `{"source":"release-bot","message":"The build of main failed three times.","alertType":"error"}`)
			asked := r.asks("architect", "Is this one for this desk, too?", "Yes", "No")
			d.looks(t, fmt.Sprintf("paired-%d-%t", width, dark), `document.querySelectorAll(".ask .choice").length === 4 && document.querySelector(".alerts")`)
			r.does("signal_cancel", fmt.Sprintf(`{"questionId":%q}`, asked))
		}
	}
}

// looks waits for a condition, checks that the page fits its window and passes axe, and takes a picture.
func (d *desk) looks(t *testing.T, what, condition string) {
	t.Helper()
	d.Until(condition)
	if n := d.tooWide(); n > 0 {
		t.Errorf("%s is %d pixels too wide", what, n)
	}
	d.accessible(t, what)
	if *screenshots != "" {
		d.Picture(filepath.Join(*screenshots, what+".png"), true)
	}
}
