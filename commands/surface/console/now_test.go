package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/store"
)

// note sends a note, which waits if the recipient is unknown.
func (r *room) note(sender, recipient, text string) {
	r.t.Helper()
	payload, err := json.Marshal(map[string]string{"text": text})
	if err == nil {
		_, err = messages.Send(r.t.Context(), r.Router.Ledger,
			orchestrator.Draft{Sender: sender, Recipient: recipient, Type: "note", Payload: payload, HoldUnknown: true})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// read makes agents read their messages.
func (r *room) read(names ...string) {
	r.t.Helper()
	for _, name := range names {
		if _, _, err := reading.Wait(r.t.Context(), r.Router.Ledger,
			reading.Options{Recipient: name, Limit: 100}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// disable disables the transport of an agent, as happens to a webhook that answers that it is gone.
func (r *room) disable(name, why string) {
	r.t.Helper()
	err := r.Router.Ledger.Write(r.t.Context(), store.Alone, func(t *ledger.Tx) error {
		agent := *t.Config().Agents[name]
		agent.Disabled = t.Now + " " + why
		if err := agents.Store(t, &agent); err != nil {
			return err
		}
		return t.ConfigChanged()
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// badDay returns a room in which messages flow and five things need a person.
func badDay(t *testing.T, minutes int, odd string) *room {
	t.Helper()
	r := newRoom(t, "architect", "code_developer", "reviewer", "billing", "release-bot", "tester", "pm")
	taken := filepath.Join(t.TempDir(), "locked")
	if err := os.Mkdir(taken, 0o755); err != nil {
		t.Fatal(err)
	}
	deliver := "jsonl:" + filepath.Join(taken, "mail.jsonl")
	if _, _, err := agents.Add(t.Context(), r.Router.Ledger,
		agents.Update{Name: "builder", Deliver: &deliver}); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(taken, "mail.jsonl"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Router.SetSetting(t.Context(), "retry.ladder", "1m,1m"); err != nil {
		t.Fatal(err)
	}
	for i := range minutes {
		for j := range 3 + i%4 {
			r.note("architect", "code_developer", fmt.Sprint("task ", i, " ", j))
			r.note("code_developer", []string{"architect", "tester"}[j%2], "done")
		}
		if i > minutes/3 && i%3 == 0 {
			r.note("code_developer", "reviewer", "please review")
			r.note("release-bot", "billing", "invoice")
		}
		if i > minutes/2 && i < minutes-3 {
			r.note([]string{"architect", "code_developer"}[i%2], "builder", odd)
		}
		if i == minutes/2 {
			r.disable("billing", "410 Gone: "+odd)
			r.ask("release-bot", false,
				map[string]any{"question": "Which name should the release carry? " + odd,
					"options": []string{"Yes", "No"}})
		}
		r.deliver()
		r.read("architect", "code_developer", "tester", "pm")
		r.Step(time.Minute)
	}
	r.note("pm", "operator", odd)
	r.note("pm", "ghost", odd)
	r.deliver()
	return r
}

// TestNow checks that Now shows a bad day: everything that needs a person, each with a link to where it can be
// resolved. Hostile texts are shown as texts.
func TestNow(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "the doctor has more to say of the tests' server, which writes without care")
	r := badDay(t, 24, hostile)
	r.Step(6 * time.Minute) // overdue
	// only the doctor reports this schedule
	r.sql(`INSERT INTO schedules (name, spec, command, created_at) VALUES ('odd', 'zork', 'checkpoint', '')`)
	r.sql(`INSERT INTO signal_devices (device_id, name, recipient, state, created_at, push_host, push_problem)
		VALUES ('d-1', 'Pixel 9', 'age1', 'active', '', 'fcm.googleapis.com', '2026-01-02T03:04:05.000Z 410 Gone')`)
	d := r.opens(1440, false, "/")
	d.Until(`document.querySelectorAll(".plot").length === 3 && document.querySelector("svg.room") && document.querySelectorAll(".needs .st use[href='#s-doctor']").length === 1`)
	for kind, href := range map[string]string{
		"failed": "/operations/dead-letters?to=builder&error=", "Disabled": "/agents/billing",
		"12 unread|unread": "/agents/reviewer",
		"overdue":          "/messages?to=ghost&status=live", "1 question": "/questions", "Phone": "/questions",
		"Doctor": "/operations/doctor",
	} {
		d.Until(fmt.Sprintf(`[...document.querySelectorAll(".needs li")].some((li) => new RegExp(%q).test(li.querySelector(".state").textContent) && li.querySelector("a.btn").getAttribute("href").replace(/error=.*/, "error=") === %q)`, kind, href))
	}
	d.Until(`[...document.querySelectorAll(".needs li")].findIndex((li) => li.querySelector(".state.overdue")) > [...document.querySelectorAll(".needs li")].findIndex((li) => li.querySelector(".state.failed"))`) // the worst first
	d.Until(`document.querySelector(".needs button.btn").title.endsWith(" serve")`)
	d.Until(`document.querySelectorAll(".needs a.btn.first").length === 1`)
	d.Until(`document.querySelector("h1").textContent === (["", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten"][document.querySelectorAll(".needs li").length]) + " things need your attention"`)
	d.Until(`document.querySelector(".rail nav a .tally.hot").textContent === String(document.querySelectorAll(".needs li").length)`)
	d.Until(`[...document.querySelectorAll(".needs .what b")].some((b) => b.textContent.includes("onerror=")) && !document.querySelector("main img")`)
	var title string
	if d.Eval(`document.title`, &title); title != "Now · Mailroom" {
		t.Errorf("the page is called %q", title)
	}
	d.Until(`[...document.querySelectorAll("svg.room text.nb.bad")].some((text) => text.textContent.endsWith("failed"))`)
	var places [2]string
	where := `[...document.querySelectorAll("svg.room a")].map((a) => a.getAttribute("href") + a.querySelector("circle").getAttribute("cx") + " " + a.querySelector("circle").getAttribute("cy")).sort().join()`
	d.Eval(where, &places[0])
	d.Click("6 hours")
	d.Until(`location.search === "?span=6h" && document.querySelector(".plot h3").textContent === "Delivered per 5 minutes"`)
	d.Click("as a list")
	d.Until(`location.search === "?span=6h&room=list" && !document.querySelector("svg.room") && document.querySelector("table.pairs td.bad")`)
	d.Click("as a picture")
	d.Until(`document.querySelector("svg.room")`)
	if d.Eval(where, &places[1]); places[0] != places[1] {
		t.Errorf("the agents stood at %s, and now at %s", places[0], places[1])
	}
	d.Click("Open reviewer")
	d.Until(`location.pathname === "/agents/reviewer"`)
	for _, dark := range []bool{false, true} {
		small := r.opens(360, dark, "/")
		small.Until(`document.querySelectorAll(".plot").length === 3 && document.querySelector("table.pairs") && document.querySelector(".needs .st use[href='#s-doctor']")`)
		if n := small.tooWide(); n > 0 {
			t.Errorf("Now is %d pixels too wide for a phone", n)
		}
		small.accessible(t, "Now")
	}
}

// TestWelcome checks that an empty database shows how to begin and follows the first steps, until nothing needs a
// person.
func TestWelcome(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "the doctor has more to say of the tests' server, which writes without care")
	r := newRoom(t)
	d := r.opens(1440, false, "/")
	d.Reads("There are no agents yet")
	d.Eval(`document.body.dataset.loaded = "once"`, nil)
	r.does("agent_add", `{"name":"ann"}`)
	d.Reads("There is one agent")
	r.does("agent_add", `{"name":"bob"}`)
	d.Reads("There are no messages yet")
	r.note("ann", "bob", "hello")
	d.Reads("Nothing needs your attention")
	r.does("agent_add", `{"name":"filed","deliver":"jsonl:`+filepath.Join(t.TempDir(), "filed.jsonl")+`"}`)
	r.note("ann", "filed", "hello")
	d.Reads("No daemon runs, and 1 message waits for one")
	r.does("deliver_all", `{}`)
	if err := daemons.Beat(t.Context(), r.Router.Ledger, ""); err != nil {
		t.Fatal(err)
	}
	r.does("wait", `{"recipient":"bob","timeout":0}`)
	d.Reads("Nothing needs your attention")
	d.Until(`document.body.dataset.loaded === "once" && !document.querySelector(".needs")`)
}

// TestPalette checks that a key opens the palette, and that it finds agents, messages and texts and opens them.
func TestPalette(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	r.note("ann", "bob", "the quick brown fox")
	id := r.does("send",
		`{"sender":"ann","recipient":"bob","message_type":"note","payload":{"n":1}}`)["message_id"].(string)
	d := r.opens(1440, false, "/")
	d.Until(`document.querySelector(".plot")`)
	d.Key("/")
	d.Type("What to find", "bo")
	d.Until(`document.querySelector(".palette [aria-selected=true] b")?.textContent === "bob"`)
	d.Key("Enter")
	d.Until(`location.pathname === "/agents/bob" && !document.querySelector(".palette")`)
	d.Click("Find an ID, an agent, or a word")
	d.Type("What to find", id)
	d.Until(`document.querySelector(".palette [role=option] b")?.textContent === "` + id + `"`)
	d.Key("ArrowDown", "ArrowUp", "Enter")
	d.Until(`location.pathname === "/messages/` + id + `"`)
	d.Until(`document.querySelector("main h1")`)
	d.Key("/")
	d.Type("What to find", "brown fox")
	d.Until(`[...document.querySelectorAll(".palette [role=option]")].some((li) => li.textContent.includes("ann to bob"))`)
	d.Key("Escape")
	d.Until(`!document.querySelector(".palette")`)

	// It finds the threads of all agents and opens the chosen one.
	r.as("ann", "coral_create_thread", map[string]any{"threadName": "release 2.4"})
	d.Key("/")
	d.Type("What to find", "RELEASE")
	d.Until(`document.querySelector(".palette [aria-selected=true] b")?.textContent === "release 2.4"`)
	d.Key("Enter")
	d.Until(`location.pathname.startsWith("/threads/") && document.querySelector(".open h1")?.textContent === "release 2.4"`)
	asked := r.ask("ann", false, map[string]any{"question": "Ship 2.4?"}).ID
	d.Key("/")
	d.Type("What to find", asked)
	d.Until(`document.querySelector(".palette [aria-selected=true] b")?.textContent === "` + asked + `"`)
	d.Key("Enter")
	d.Until(`location.pathname === "/messages/` + asked +
		`" && document.querySelector("main h1")?.textContent === "Waiting for a person’s answer"`)
}

// attends makes agents work in sessions of an agent host, which is this process.
func (r *room) attends(names ...string) {
	r.t.Helper()
	for _, name := range names {
		if _, err := hosts.Happened(r.t.Context(), r.Router.Ledger, hosts.Event{
			Agent: name, Program: "claude", Session: "of " + name, Kind: hosts.Started, Process: process.Of(os.Getpid()),
		}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// loop opens the page of a room in which ann and bob have thanked each other repeatedly.
func loop(t *testing.T) (*room, *desk) {
	t.Helper()
	r := newRoom(t, "ann", "bob")
	r.attends("ann", "bob")
	for range 16 {
		r.note("ann", "bob", "thank you")
		r.note("bob", "ann", "no, thank you")
	}
	r.does("deliver_all", `{}`)
	r.read("ann", "bob")
	return r, r.opens(1440, false, "/")
}

// TestLoopGoesOn checks that a person can mark a loop of two agents as permitted, and that the page then omits it.
func TestLoopGoesOn(t *testing.T) {
	t.Parallel()
	_, d := loop(t)
	d.Click("Let them continue…")
	d.Reads("Let ann and bob continue?")
	d.Click("Let them continue")
	d.Until(`!document.querySelector(".needs")?.innerText.includes("ann and bob have exchanged")`)
}

// TestHoldThroughThePage checks that two agents that write to each other endlessly are shown, held by a button, told
// about that, and released by the same button.
func TestHoldThroughThePage(t *testing.T) {
	t.Parallel()
	r, d := loop(t)
	d.Reads("ann and bob have exchanged 32 messages within ten minutes")
	d.Click("Hold…")
	d.Reads("Hold the messages between ann and bob?")
	d.Click("Hold")
	d.Reads("Messages between ann and bob are held until")
	d.Until(`document.querySelector(".needs").innerText.includes("Held") && document.querySelector(".needs").innerText.includes("0 messages wait")`)
	r.note("ann", "bob", "thank you again")
	r.does("deliver_all", `{}`)
	waits := func(name string) (texts []string) {
		ms, _, err := reading.Wait(t.Context(), r.Router.Ledger, reading.Options{Recipient: name, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for i := range ms {
			texts = append(texts, ms[i].Type)
		}
		return texts
	}
	for _, name := range []string{"ann", "bob"} {
		want.Equal(t, "what "+name+" gets", fmt.Sprint(waits(name)), fmt.Sprint([]string{hosts.HeldNotice}))
	}
	d.Click("Let them continue…")
	d.Click("Let them continue")
	d.Until(`!document.querySelector(".needs")?.innerText.includes("are held back")`)
	r.does("deliver_all", `{}`)
	want.Equal(t, "what bob gets", fmt.Sprint(waits("bob")), "[note]")
}

// TestCosts checks that the costs are shown beside the traffic of pairs of agents, and that the page of an agent
// shows what messages added to its context.
func TestCosts(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	r.attends("bob")
	r.note("ann", "bob", "hello")
	answer, err := hosts.Happened(t.Context(), r.Router.Ledger, hosts.Event{
		Agent: "bob", Program: "claude", Session: "of bob", Kind: hosts.Prompted, Process: process.Of(os.Getpid()),
		Size: func(*orchestrator.Message) int { return 4000 }, Line: func(*hosts.Group) string { return "" },
	})
	if err == nil {
		err = hosts.Written(t.Context(), r.Router.Ledger, &answer)
	}
	if err != nil {
		t.Fatal(err)
	}
	d := r.opens(1440, false, "/")
	d.Click("what messages cost")
	d.Until(`location.search === "?room=costs" && document.querySelector("table.pairs")?.innerText.replace(/\s+/g, " ").includes("4.0 kB 1,000")`)
	for _, dark := range []bool{false, true} {
		small := r.opens(360, dark, "/agents/bob")
		small.Reads("Text that messages added to its context")
		small.Until(`document.querySelector("svg.context rect") && document.querySelector("table.context")?.innerText.includes("shown")`)
		if n := small.tooWide(); n > 0 {
			t.Errorf("the agent is %d pixels too wide for a phone", n)
		}
		small.accessible(t, "an agent")
	}
}
