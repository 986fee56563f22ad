package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// send sends a message as an agent does.
func (r *room) send(from, to, kind, payload string) {
	r.t.Helper()
	status, answer := r.Run(r.Token(from, false), "send",
		fmt.Sprintf(`{"recipient":%q,"message_type":%q,"payload":%s}`, to, kind, payload))
	if status != 200 {
		r.t.Fatal(status, answer)
	}
}

// deliver performs one delivery run.
func (r *room) deliver() {
	r.t.Helper()
	if _, err := r.Router.DeliverAll(r.t.Context(), delivery.Options{}); err != nil {
		r.t.Fatal(err)
	}
}

// sql changes the tables by hand.
func (r *room) sql(statement string, args ...any) {
	r.t.Helper()
	if err := r.Router.Ledger.Write(r.t.Context(), store.Alone,
		func(t *ledger.Tx) error { return t.Run(statement, args...) }); err != nil {
		r.t.Fatal(err)
	}
}

// failing adds an agent whose messages fail until `mend` is called.
func (r *room) failing(name string) (mend func()) {
	r.t.Helper()
	folder := filepath.Join(r.t.TempDir(), "late")
	target := "jsonl:" + filepath.Join(folder, "mail.jsonl")
	mend = func() {
		if err := os.Mkdir(folder, 0o700); err != nil {
			r.t.Fatal(err)
		}
	}
	mend()
	if _, _, err := agents.Add(r.t.Context(), r.Router.Ledger,
		agents.Update{Name: name, Deliver: &target}); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Remove(folder); err != nil {
		r.t.Fatal(err)
	}
	return mend
}

// fails advances the time until the messages to a failing agent are dead letters.
func (r *room) fails() {
	for range 4 {
		r.deliver()
		r.Step(10 * time.Minute)
	}
}

// rows is an expression for the texts in the table of messages, row by row.
const rows = `[...document.querySelectorAll(".stream tr[aria-rowindex] .c-says")].map((cell) => cell.textContent).join("|")`

// TestMessagesLive checks that a message appears in the table without a reload. While somebody reads, it waits in a
// line of its own, and changed rows keep their place.
func TestMessagesLive(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	d := r.opens(1440, false, "/messages")
	d.Reads("There are no messages yet")
	d.Until(`document.querySelector(".live[title]")`)
	d.Eval(`((asked, left) => { // the first look fails
		window.fetch = (path, o) => path.endsWith("/messages_list") && left-- > 0 ? Promise.resolve(Response.json({ error: "busy", message: "The database is busy." }, { status: 503 })) : asked(path, o);
	})(fetch, 1)`, nil)
	r.send("ann", "bob", "note", `"the first"`)
	d.Until(rows + ` === "the first"`)
	d.Key("j")
	d.Until(`document.querySelector("tr.at[aria-selected=true]")`)
	r.send("ann", "bob", "note", `{"title":"the second","of":12345678901234567890}`)
	d.Reads("1 new")
	r.deliver()
	d.Until(rows + ` === "the first" && document.querySelector("tr.at.is-delivered")`)
	d.Key(".")
	d.Until(rows + ` === "the second|the first" && !document.querySelector("tr.at")`)
	d.Key("j", "j", "Enter")
	d.Until(`document.querySelector("main h1")?.textContent === "Delivered" && document.querySelector(".out")?.textContent === "the first"`)
	d.Key("Escape")
	d.Until(rows + ` === "the second|the first" && document.querySelector("tr.at .c-says").textContent === "the first"`)
	d.Key("k", "Enter")
	d.Until(`document.querySelector(".tree")?.textContent.includes('"of": 12345678901234567890')`)
	d.Eval(`Object.defineProperty(navigator, "clipboard", {})`, nil) // as at an address without https
	d.Key("c")
	d.Until(`getSelection().toString().startsWith("mailroom why msg-")`)
	d.Reads("Copy it manually")
	d.pictured("copied-by-hand")

	// The plot above the table begins at the first of today's messages, even hours after it was opened.
	d.Key("Escape")
	d.Until(`document.querySelector(".over-time")`)
	r.Step(2 * time.Hour)
	d.Eval(`(() => { const now = Date.now; Date.now = () => now() + 2 * 3600_000; })()`, nil)
	r.send("ann", "bob", "note", `"two hours later"`)
	d.Until(`(() => {
		const places = [...document.querySelectorAll(".over-time rect")].map((bar) => bar.getAttribute("x") / document.querySelector(".over-time svg").viewBox.baseVal.width);
		return places.some((at) => at < 0.7) && places.some((at) => at > 0.9);
	})()`)

	// Sending to several recipients is followed by the IDs of the copies.
	r.does("group_set", `{"name":"crew","members":["ann","bob"]}`)
	d.Open(r.Address + "/messages/" +
		r.does("send", `{"sender":"operator","recipient":"crew","message_type":"note","payload":"to all"}`)["multicast_id"].(string))
	d.Until(`document.querySelector(".live[title]") && document.querySelector("main h1")?.textContent === "Sent to 2 recipients: 2 pending"`)
	r.deliver()
	d.Until(`document.querySelector("main h1").textContent === "Sent to 2 recipients: 2 delivered"`)
}

// TestMessagesFilter checks that filters are in the address and shown as chips, and that Back removes them.
func TestMessagesFilter(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob", "carol")
	r.send("ann", "bob", "note", `"the disk is full"`)
	r.send("bob", "ann", "note", `"the disk is empty"`)
	r.send("carol", "bob", "task", `"something else"`)
	r.deliver()
	d := r.opens(1440, false, "/messages")
	d.Until(rows + `.split("|").length === 3`)
	d.Key("/")
	d.Type("Filter", "from:ann type:note disk")
	d.Key("Enter")
	d.Until(rows + ` === "the disk is full" && location.search === "?from=ann&type=note&text=disk" && document.querySelectorAll(".chip").length === 3`)
	d.Click("Remove from")
	d.Until(rows + ` === "the disk is empty|the disk is full"`)
	d.Eval(`history.back()`, nil)
	d.Until(rows + ` === "the disk is full"`)
	d.Eval(`history.back()`, nil)
	d.Until(rows + `.split("|").length === 3 && location.search === ""`)
	d.Click("Pending 0")
	d.Reads("No messages match")
	for filter, found := range map[string]string{
		"pair=bob,carol": "something else", "to=bob&since=1h": "something else|the disk is full",
		"agent=carol":                 "something else",
		"text=EMPTY&status=delivered": "the disk is empty", "until=1h": "",
	} {
		d.Open(r.Address + "/messages?" + filter)
		d.Until(`document.querySelector(".stream .foot code, .stream .empty") && ` + rows + ` === "` + found + `"`)
	}
	d.Open(r.Address + "/messages?since=never")
	d.Reads("is not a valid time")

	// Messages that arrive during a slow search are shown after it.
	d.Open(r.Address + "/messages")
	d.Until(rows + `.split("|").length === 3 && document.querySelector(".live[title]")`)
	d.Eval(`(() => {
		const before = window.fetch, held = new Promise((f) => (window.release = f));
		window.fetch = async (path, options) => {
			const answer = await before(path, options);
			if (path.endsWith("/now")) window.heard = true;
			if (options.body?.includes('"text"')) await ((window.found = true), held);
			return answer;
		};
	})()`, nil)
	d.Type("Filter", "disk")
	d.Key("Enter")
	d.Until(`window.found`)
	d.Eval(`window.heard = false`, nil)
	r.send("ann", "bob", "note", `"the disk is new"`)
	d.Until(`window.heard`) // by the request after each event
	d.Eval(`release()`, nil)
	d.Until(rows + ` === "the disk is new|the disk is empty|the disk is full"`)
}

// TestReplayFromThePage finds, replays and delivers a failed message from the page.
func TestReplayFromThePage(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann")
	mend := r.failing("bob")
	r.Step(-2 * time.Hour)
	r.send("ann", "bob", "task", `{"title":"build it"}`)
	r.fails()
	d := r.opens(1440, false, "/messages")
	d.Until(`document.querySelector(".live[title]")`)
	d.Click("Needs a person 1")
	d.Until(`document.querySelector(".chip") && document.querySelectorAll("tr[aria-rowindex]").length === 1`)
	d.Key("j", "Enter")
	d.Until(`document.querySelector("main h1")?.textContent === "Failed after four attempts"`)
	d.Reads("does not exist; create it")
	mend()
	d.Key("r")
	d.Reads("The message becomes pending again")
	d.Click("Replay")
	d.Until(`document.querySelector("main h1")?.textContent === "Waiting for delivery"`)
	d.Reads("Replayed by operator")
	r.deliver()
	d.Until(`document.querySelector("main h1")?.textContent === "Delivered on the fifth attempt"`)
	d.Reads("too late to cancel: the message is delivered")

	r.send("ann", "bob", "task", `"not wanted"`)
	d.Open(r.Address + "/messages?status=live")
	d.Until(`document.querySelectorAll("tr.is-pending").length === 1`)
	d.Key("j", "Enter")
	d.Until(`document.querySelector("main h1")?.textContent === "Waiting for delivery"`)
	d.Key("x")
	d.Click("Cancel the message")
	d.Until(`document.querySelector("main h1")?.textContent === "Canceled before delivery"`)
}

// TestReadMail checks that the operator can acknowledge only their own messages on the page, and can make a read
// message unread again.
func TestReadMail(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	r.send("ann", "operator", "note", `"for you"`)
	r.send("ann", "bob", "note", `"for bob"`)
	r.deliver()
	if status, answer := r.Run(r.Token("bob", false), "wait", `{"recipient":"bob"}`); status != 200 {
		t.Fatal(status, answer)
	}
	d := r.opens(1440, false, "/messages?from=ann")
	d.Until(rows + ` === "for bob|for you"`)
	d.Key("j", "Enter")
	d.Until(`document.querySelector("main h1")?.textContent === "Delivered and read" && !document.body.innerText.includes("Acknowledge a")`)
	d.Click("Make unread")
	d.Reads("the agent might act on it twice")
	d.Eval(`document.querySelector("dialog .btn.first").click()`, nil)
	d.Until(`document.querySelector("main h1")?.textContent === "Delivered"`)
	d.Key("Escape")
	d.Until(rows + ` === "for bob|for you"`)
	d.Key("j", "Enter")
	d.Until(`document.querySelector("main h1")?.textContent === "Delivered" && document.querySelector(".out.long")?.textContent === "for you"`)
	d.Key("a")
	d.Reads("ann sees that you have handled the message")
	d.Click("Acknowledge")
	d.Until(`document.querySelector("main h1")?.textContent === "Delivered and acknowledged"`)
}

// TestReplayOfMarked replays several marked messages at once.
func TestReplayOfMarked(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann")
	r.failing("bob")
	for i := range 3 {
		r.send("ann", "bob", "task", fmt.Sprint(i))
	}
	r.fails()
	d := r.opens(1440, true, "/messages?status=failed")
	d.Until(`document.querySelectorAll("tr.is-failed").length === 3`)
	d.Key("j", " ", "j", " ", "r")
	d.Reads("Replay 2 messages?")
	d.Click("Replay")
	d.Until(`document.querySelectorAll("tr.is-pending").length === 2 && document.querySelectorAll("tr.is-failed").length === 1 && !document.querySelector(".picked")`)
	// A row far down shows its current state, even after its message was opened, and after the page was hidden.
	r.sql(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, traced_status,
		created_at, ended_at)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700) SELECT 'n' || i, 'ann', 'bob',
			'note', '"of many"', 'cancelled', 'cancelled', ?1, ?1 FROM n`, orchestrator.Stamp(time.Now()))
	d.Open(r.Address + "/messages")
	d.Until(`document.querySelector(".live[title]") && document.querySelectorAll(".stream tr.is-cancelled").length > 30`)
	d.Key("End")
	d.Reads("706 messages in total")
	d.Key("End")
	d.Until(`document.querySelector("tr.is-failed a.pair")`)
	d.Eval(`document.querySelector("tr.is-failed a.pair").click()`, nil)
	d.Until(`document.querySelector("main h1")?.textContent.startsWith("Failed ")`)
	d.Eval(asking, nil)
	d.Key("r")
	d.Click("Replay")
	d.Until(`document.querySelector("main h1")?.textContent === "Waiting for delivery" && window.asked.includes("/v1/commands/now")`) // after the event
	d.Key("Escape")
	d.Until(`document.querySelectorAll("tr.is-pending").length === 3`)
	d.Key("Home")
	d.Until(`!document.querySelector("tr.is-pending")`)
	d.Hide(true)
	d.Until(`document.querySelector(".live.paused")`)
	r.deliver()
	d.Eval(asking, nil)
	d.Hide(false)
	d.Until(`document.querySelector(".live[title]") && window.asked.includes("/v1/commands/messages_list")`)
	d.Key("End")
	d.Until(`document.querySelectorAll("tr.is-retry").length === 3`)
	d.Open(r.Address + "/messages/nosuch")
	d.Reads("Message not found")
}

// hostileTexts are texts that would have an effect if a page did not treat them as text.
var hostileTexts = []string{
	`<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`, `"'><svg onload=window.pwned=1>`,
	"\u202egnp.exe\u2066 \u200b\ufeff", "a\u2400b\x01\x7f",
	"{{constructor.constructor('window.pwned=1')()}}", "javascript:window.pwned=1", "x\r\nSet-Cookie: a=b\r\n\r\n<b>",
	"\U0001F469\u200d\U0001F469\u0301\u0301\u0301",
	strings.Repeat("<b>", 20_000), strings.Repeat("W", 1<<20),
}

// TestHostileMessages checks that the page shows every field of a message as text.
func TestHostileMessages(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	for i, text := range hostileTexts {
		payload, err := json.Marshal(map[string]any{text[:min(len(text), 1000)]: text, "list": []string{text}})
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			payload, _ = json.Marshal(text)
		}
		short := text[:min(len(text), 600)]
		r.sql(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, traced_status,
			created_at, ended_at, error_message, summary, context, action,
			session_id, multicast_target, idempotency_key, lease_owner, thread_id, reply_to, trace_id)
			VALUES (?1, ?2, ?2, ?2, ?3, 'failed', 'failed', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', ?2,
				?2, ?2, ?2, ?2, ?2, ?2, ?2, ?2, ?2, ?2)`,
			fmt.Sprint("m", i), short, string(payload))
	}
	for _, width := range []int64{360, 1440} {
		d := r.opens(width, false, "/messages")
		d.Until(fmt.Sprintf(`document.querySelectorAll(".stream tr[aria-rowindex]").length === %d`, len(hostileTexts)))
		harmless(t, d, "the table")
		for i := range hostileTexts {
			if width > 360 && i%3 > 0 {
				continue
			}
			d.Open(fmt.Sprint(r.Address, "/messages/m", i))
			d.Until(`document.querySelector("main h1")?.textContent === "Rejected when it was sent" && document.querySelector("main .tree, main .out.long")`)
			d.Until(`document.querySelector(".head dd").textContent.trim()`)
			harmless(t, d, fmt.Sprint("message ", i))
		}
	}
	d := r.opens(1440, true, "/messages/m8")
	d.Click("Show more")
	d.Until(`document.querySelector(".out.long").textContent.length === 60000`)
	if listed, err := messages.List(t.Context(), r.Router.Ledger, messages.ListFilter{Limit: 100}); err != nil ||
		len(listed.Messages) != len(hostileTexts) {
		t.Error(listed, err)
	}
}

// harmless checks that no part of a message has become part of the page's structure, and that no text widens the
// page.
func harmless(t *testing.T, d *desk, what string) {
	t.Helper()
	var found string
	d.Eval(`(window.pwned ? "a script ran; " : "") + [...document.querySelectorAll("main script, main img, main iframe, main [onload], main [onerror], main a[href^='javascript']")].map((e) => e.outerHTML).join(" ")`, &found)
	if found != "" {
		t.Errorf("%s: %s", what, found)
	}
	if n := d.tooWide(); n > 0 {
		var wide []string
		d.Eval(`[...document.querySelectorAll("body *:not(.unseen *)")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + "." + (e.className.baseVal ?? e.className) + " in " + e.parentElement.className).slice(0, 5)`, &wide)
		t.Errorf("%s is %d pixels too wide: %q", what, n, wide)
	}
}
