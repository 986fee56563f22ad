package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/store"
)

// number returns the number that a query selects.
func (r *room) number(query string) (n int64) {
	r.t.Helper()
	table, err := r.Router.Ledger.Query(r.t.Context(), query, store.Bound{Rows: 1})
	rows := table.Rows.Values()
	if err != nil || len(rows) != 1 {
		r.t.Fatal(query, rows, err)
	}
	if found, is := rows[0][0].(json.Number); is {
		n, _ = found.Int64()
	}
	return n
}

// arrived counts the delivered messages of an agent.
func (r *room) arrived(agent string) int64 {
	r.t.Helper()
	return r.number(`SELECT count(*) FROM agent_message WHERE status = 'delivered' AND recipient = '` + agent + `'`)
}

// webhook adds an agent whose messages go to a server that refuses them until `mend` is called.
func (r *room) webhook(name string) (mend func()) {
	r.t.Helper()
	var knows atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if !knows.Load() {
			http.Error(rw, "who are you?", http.StatusUnauthorized)
		}
	}))
	r.t.Cleanup(server.Close)
	deliver, private := "webhook:"+server.URL+"/hook", true
	r.add(agents.Update{Name: name, Deliver: &deliver, AllowPrivate: &private})
	return func() { knows.Store(true) }
}

// fault is a problem in a room, with the way in which an operator who begins at Now finds and resolves it.
type fault struct {
	find []string // clicked until the page shows the problem
	says string   // expected text
	mend func()   // repair on the machine, if the cause is outside the page
	free []string // clicked after that
	done func() bool
}

// mostClicks is the maximum number of clicks to find a problem, and to resolve it.
const mostClicks = 3

// frees resolves a fault, and counts the clicks that the page receives.
func (d *desk) frees(t *testing.T, at, name string, f fault) {
	t.Helper()
	var clicks [2]int
	d.Open(at)
	d.Eval(`(() => { window.pressed = 0; addEventListener("pointerdown", () => pressed++, true) })()`, nil)
	d.Until(`document.querySelector(".needs")`)
	for _, what := range f.find {
		d.Click(what)
	}
	d.Reads(f.says)
	d.Eval(`window.pressed`, &clicks[0])
	if f.mend != nil {
		f.mend()
	}
	for _, what := range f.free {
		d.Click(what)
	}
	d.Until(`!document.querySelector("dialog")`)
	d.Eval(`window.pressed`, &clicks[1])
	if found, freed := clicks[0], clicks[1]-clicks[0]; found > mostClicks || freed > mostClicks ||
		found != len(f.find) || freed != len(f.free) {
		t.Errorf("%s: found with %d clicks and freed with %d; want %d at most, of %q and %q", name, found, freed,
			mostClicks, f.find, f.free)
	}
	if !f.done() {
		t.Errorf("%s: the database says that it is not freed", name)
	}
	t.Logf("%s: found with %d clicks, freed with %d", name, clicks[0], clicks[1]-clicks[0])
}

// TestBadDay checks that an operator can find and resolve six problems in one room from Now, with few clicks, until
// nothing needs a person.
func TestBadDay(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "architect", "billing", "release-bot", "reviewer", "tester")
	r.Step(-3 * time.Hour)
	mend, knows := r.failing("builder"), r.webhook("deploy")
	for i := range 40 {
		r.send("architect", "builder", "task", fmt.Sprint(i))
	}
	r.send("release-bot", "deploy", "release", `"2.4"`)
	r.fails()
	for i := range 30 {
		r.send("architect", "reviewer", "review_request", fmt.Sprint(i))
	}
	r.deliver()
	r.disable("billing", "410 Gone: this hook was removed")
	for i := range 6 {
		r.send("release-bot", "billing", "invoice", fmt.Sprint(i))
	}
	r.does("schedule_add", `{"name":"deliver","spec":"@every 1m","command":"deliver_all"}`)
	asked := r.ask("release-bot", false, map[string]any{"question": "Ship 2.4?", "options": []string{"Yes", "No"}},
		func(d *questions.Draft) { d.TTL = 8 * time.Hour })
	r.Step(80 * time.Minute)
	for i := range 25 {
		r.send("architect", "tester", "test_request", fmt.Sprint(i))
	}
	r.Step(30 * time.Minute)
	r.read("architect", "release-bot")

	d := r.opens(1440, false, "/")
	frees := func(name string, f fault) { d.frees(t, r.Address+"/", name, f) }
	frees("nothing delivers", fault{
		find: []string{"Operations", "Schedules"}, says: "No daemon is running, so no schedule runs automatically",
		free: []string{"Run deliver now", "Run it"}, done: func() bool { return r.arrived("tester") == 25 },
	})
	frees("a file that is gone", fault{
		find: []string{"Operations", "Dead letters"}, says: "does not exist; create it", mend: mend,
		free: []string{"Replay 40…", "Replay 40"}, done: func() bool { r.deliver(); return r.arrived("builder") == 40 },
	})
	frees("a webhook that refuses", fault{
		find: []string{"Operations", "Dead letters"}, says: "401", mend: knows,
		free: []string{"Replay 1…", "Replay 1"}, done: func() bool { r.deliver(); return r.arrived("deploy") == 1 },
	})
	frees("an agent that is disabled", fault{
		find: []string{"Set an address"}, says: "410 Gone: this hook was removed",
		free: []string{"Enable…", "Enable"}, done: func() bool { r.deliver(); return r.arrived("billing") == 6 },
	})
	frees("a question that nobody answers", fault{
		find: []string{"Answer"}, says: "Ship 2.4?",
		free: []string{"Cancel the question…", "Cancel the question"}, done: func() bool {
			q, err := questions.Get(t.Context(), r.Router.Ledger, asked.ID)
			return err == nil && q.Status == questions.Cancelled
		},
	})
	frees("an agent that stopped reading", fault{
		find: []string{"Open reviewer"}, says: "mailroom agent add reviewer --start COMMAND",
		mend: func() { r.read("reviewer") }, // as the started session does
		done: func() bool {
			return r.number(`SELECT count(*) FROM agent_inbox WHERE recipient = 'reviewer' AND read_at = ''`) == 0
		},
	})
	r.read("architect", "billing", "release-bot", "tester")
	if err := daemons.Beat(t.Context(), r.Router.Ledger, ""); err != nil {
		t.Fatal(err)
	}
	d.Open(r.Address + "/")
	d.Reads("Nothing needs your attention")
}

// TestKeyboardAlone finds a failed message from Now, replays it and delivers it, with the keyboard only.
func TestKeyboardAlone(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann")
	mend := r.failing("bob")
	r.Step(-2 * time.Hour)
	r.send("ann", "bob", "task", `"build it"`)
	r.fails()
	mend()
	d := r.opens(1440, false, "/")
	d.Eval(`(() => { window.mouse = []; for (const kind of ["pointerdown", "mousedown", "pointermove", "wheel", "touchstart"]) addEventListener(kind, () => mouse.push(kind), true) })()`, nil)
	d.Until(`[...document.querySelectorAll(".needs a")].some((a) => a.innerText === "See it")`)
	d.Key("Tab", "Enter") // to the content, past the navigation
	d.Until(`document.activeElement.id === "main"`)
	d.tabsTo(t, "See it")
	d.Key("g", "m")
	d.Until(`document.querySelector("[aria-label=Filter]")`)
	d.Key(append(strings.Split("/status:dead", ""), "Enter")...)
	d.Until(`location.search === "?status=dead" && document.querySelectorAll("tr.is-failed").length === 1`)
	d.Key("Tab", "Escape", "j", "Enter")
	d.Until(`document.querySelector("main h1")?.textContent === "Failed after four attempts"`)
	d.Key("r")
	d.Until(`document.querySelector("dialog[open]")?.contains(document.activeElement)`)
	d.tabsTo(t, "Replay")
	d.Key("Enter")
	d.Until(`document.querySelector("main h1")?.textContent === "Waiting for delivery"`)
	r.deliver()
	d.Until(`document.querySelector("main h1")?.textContent === "Delivered on the fifth attempt"`)
	d.Key("g", "n")
	d.Until(`location.pathname === "/" && !document.querySelector(".needs .state.failed")`)
	var mouse []string
	if d.Eval(`window.mouse`, &mouse); len(mouse) > 0 {
		t.Errorf("the pointer was used: %q", mouse)
	}
	if n := r.arrived("bob"); n != 1 {
		t.Errorf("%d messages were delivered to bob", n)
	}
}

// tabsTo presses Tab until the focused element has a name.
func (d *desk) tabsTo(t *testing.T, name string) {
	t.Helper()
	var seen []string
	for range 40 {
		d.Key("Tab")
		var at string
		if d.Eval(`document.activeElement.innerText?.trim() ?? ""`, &at); at == name {
			return
		}
		seen = append(seen, at)
	}
	t.Fatalf("the tabulator does not come to %q, but to %q", name, seen)
}

// TestTwoPages checks that every page shows what is done in another, without a reload.
func TestTwoPages(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "carol")
	mend := r.failing("bob")
	r.Step(-2 * time.Hour)
	r.send("ann", "bob", "task", `"build it"`)
	r.fails()
	mend()
	one, other, third := r.opens(1440, false, "/messages?status=dead"), r.opens(1440, true, "/operations/dead-letters"),
		r.opens(1440, false, "/")
	third.Until(`document.querySelector(".needs .state.failed")`)
	other.Reads("One dead letter")
	one.Until(`document.querySelector(".live[title]") && document.querySelectorAll("tr.is-failed").length === 1`)
	one.Key("j", "Enter")
	one.Until(`document.querySelector("main h1")?.textContent === "Failed after four attempts"`)
	other.Click("Replay 1…")
	other.Click("Replay 1")
	one.Until(`document.querySelector("main h1")?.textContent === "Waiting for delivery"`)
	one.Reads("Replayed by operator")
	third.Until(`!document.querySelector(".needs .state.failed")`)
	one.Key("x")
	one.Click("Cancel the message")
	other.Open(r.Address + "/agents/carol")
	third.Open(r.Address + "/agents")
	other.Click("Disable…")
	other.Click("Disable")
	third.Until(`[...document.querySelectorAll("main tbody tr")].some((tr) => tr.innerText.includes("carol") && tr.innerText.includes("disabled"))`)
	if n := r.number(`SELECT count(*) FROM agent_message WHERE recipient = 'bob' AND status = 'cancelled'`); n != 1 {
		t.Errorf("%d messages to bob were taken back", n)
	}
}

// TestRevokedSession checks that the open page of a revoked session shows that, keeps typed text, and permits a new
// login.
func TestRevokedSession(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	revoke := func() {
		t.Helper()
		if n, err := agents.RevokeTokens(t.Context(), r.Router.Ledger, "operator"); err != nil || n != 1 {
			t.Fatal(n, err)
		}
	}
	code := func() string {
		t.Helper()
		code, err := agents.IssueCode(t.Context(), r.Router.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	d := r.opens(1440, false, "/audit")
	d.Until(`document.querySelector(".live[title]")`)
	d.fills("textarea", "SELECT 6 * 7 AS answer")
	revoke()
	d.Until(`document.querySelector(".live.ended")`)
	d.Reads("This session is over")
	d.Type("Address or token", "mailroom_console_that_nobody_has_issued")
	d.Click("Log in")
	d.Until(`document.querySelector(".problem .bad")`)
	d.fills("[aria-label='Address or token']", r.Address+"/#code="+code())
	d.Click("Log in")
	d.Until(`document.querySelector(".live[title]") && !document.querySelector("main > .problem")`)
	d.Click("Run Ctrl Enter")
	d.Until(`document.querySelector("main tbody td")?.textContent === "42"`)

	d.Open(r.Address + "/agents/bob")
	d.Click("Disable…")
	d.Type("Why", "its disk is full")
	d.Eval(`((asked) => (window.fetch = (path, o) => path.endsWith("/agent_show") ? Promise.resolve(Response.json({ error: "unavailable", message: "The disk is full." }, { status: 503 })) : asked(path, o), window.recover = () => (window.fetch = asked, null), null))(fetch)`, nil)
	r.send("ann", "bob", "note", `"hello"`)
	d.Until(`document.querySelector("main .problem.stale")`)
	d.Eval(`recover()`, nil)
	r.send("ann", "bob", "note", `"hello again"`)
	d.Until(`!document.querySelector("main .problem.stale")`) // the dialog stays throughout
	revoke()
	d.Until(`document.querySelector(".live.ended")`)
	d.Click("Disable")
	d.Until(`document.querySelector("dialog [role=alert]")`)
	if a, err := agents.Get(t.Context(), r.Router.Ledger, "bob"); err != nil || a.Disabled != "" {
		t.Errorf("%+v, %v", a, err)
	}
	d.fills("dialog [aria-label='Address or token']", code())
	d.Key("Enter")
	d.Until(`!document.querySelector("dialog [role=alert]")`)
	d.Click("Disable")
	d.Until(`document.querySelector("main h1").innerText === "bob is disabled"`)
	d.Reads("its disk is full")
	if conf, err := r.Router.Ledger.Configuration(t.Context()); err != nil || conf.Agents["bob"].Disabled == "" {
		t.Errorf("bob is not disabled: %v", err)
	}
}

// fills replaces the text of a field and leaves the focus in the field.
func (d *desk) fills(field, text string) {
	d.Until(fmt.Sprintf(`document.querySelector(%q)`, field))
	d.Eval(fmt.Sprintf(`(() => { const i = document.querySelector(%q); i.focus(); i.value = %q; i.dispatchEvent(new Event("input", { bubbles: true })) })()`, field, text), nil)
}

// TestRestartUnderAnOpenPage checks that an open page finds a restarted daemon again, and shows what has happened
// meanwhile, without a reload.
func TestRestartUnderAnOpenPage(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	first := r.serves("127.0.0.1:0")
	d := r.opens(1440, false, "/messages")
	d.Until(`document.querySelector(".live[title]")`)
	d.Eval(`document.body.dataset.loaded = "once"`, nil)
	r.send("ann", "bob", "note", `"before"`)
	d.Until(rows + ` === "before"`)
	first.Close()
	d.Until(`document.querySelector(".live.offline")`)
	r.note("ann", "bob", "meanwhile")
	r.serves(first.Address[len("http://"):])
	d.Until(`document.querySelector(".live[title]") && ` + rows +
		`.split("|").length === 2 && document.body.dataset.loaded === "once"`)
}
