package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"mailroom/commands/surface/phone/browsertest"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/store/postgres"
)

// TestFirefoxQuestion checks that a question asked on the command line is pushed, decrypted in the service worker and
// shown as a notification with buttons. One button is pressed, and the asker decrypts the answer. Nothing of it can
// be read anywhere on the machine. A question that is cancelled afterwards leaves a text in place of its
// notification.
func TestFirefoxQuestion(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	ctx := browsertest.Start(t, browsertest.FirefoxPrograms...)
	h := newHousehold(ctx, t, "mailroom")
	desktop := browsertest.NewDesktop(ctx, t)
	page := browsertest.StartFirefox(ctx, t, desktop, h.push).NewPage()
	h.pair(page)
	h.ring(page)

	words := newCanaries("question", "yes", "no", "context")
	id := h.ask(words["question"]+" proceed?", "--options", words["yes"], "--options", words["no"], "--context",
		words["context"])
	n := desktop.Shown()
	if n.Summary != h.project()+": builder asks" || n.Body != words["question"]+" proceed?" {
		t.Errorf("notification %+v", n)
	}
	h.hides(words, "yes", "no")
	desktop.Press(n, words["yes"])
	h.answered(id, words["yes"])
	page.Reads("You answered: " + words["yes"])
	h.hides(words, "yes", "no")

	taken := h.ask(words["question"]+" once more?", "--options", "one", "--options", "other")
	asked := desktop.Shown()
	h.run("signal", "cancel", taken, "--as", "builder")
	h.ends(desktop, "Canceled by the asker", asked)
	if got := h.response(taken); got["answered"] != false || got["status"] != "cancelled" {
		t.Errorf("the asker of a cancelled question is told %v", got)
	}
	if postgres.IsAddress(h.db) {
		h.shows("table signal_questions")
	} else {
		h.shows(h.db+"-wal", "table signal_questions")
	}

	h.stop()
	h.hides(words, "yes", "no")
}

// ends waits until none of some notifications is shown anymore, and one without buttons in their place shows the
// outcome of the question.
func (h *household) ends(desktop *browsertest.Desktop, body string, asked ...browsertest.Notification) {
	h.t.Helper()
	there := map[uint32]bool{}
	for _, n := range asked {
		there[n.ID] = true
	}
	for said := 0; len(there) > 0 || said == 0; {
		n := desktop.Next()
		delete(there, n.ID)
		if n.Closed {
			continue
		}
		if said++; said > 1 || n.Body != body || len(n.Actions) > 1 { // one of the actions is the notification itself
			h.t.Fatalf("notification %+v; want one that says %q without buttons", n, body)
		}
	}
}

// TestFirefoxTampered checks that a message modified on the way to a phone shows nothing there, wherever it was
// modified. The absence of a notification is proved by the next one, which must be the first.
func TestFirefoxTampered(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	enginetest.OfAFile(t, "the trigger is written for SQLite")
	ctx := browsertest.Start(t, browsertest.FirefoxPrograms...)
	h := newHousehold(ctx, t, "mailroom-unguarded") // for its triggers
	desktop := browsertest.NewDesktop(ctx, t)
	page := browsertest.StartFirefox(ctx, t, desktop, h.push).NewPage()
	h.pair(page)
	h.ring(page)
	decoy := h.ask("decoy", "--options", "yes", "--options", "no") // parts of it are inserted elsewhere
	desktop.Press(desktop.Shown(), "yes")
	h.answered(decoy, "yes")
	before := len(desktop.All())

	flip := func(at string) string { // one bit of a base64 character, and therefore one of a byte
		return fmt.Sprintf(`json_set(payload, '$.body', substr(body, 1, %[1]s) || CASE substr(body, %[1]s + 1, 1) WHEN 'A' THEN 'B' ELSE 'A' END || substr(body, %[1]s + 2))`, at)
	}
	for name, change := range map[string]string{
		"the header":       flip("100"),
		"the header's MAC": flip("190"),
		"the text":         flip("length(body) - 30"),
		"the last byte":    flip("length(body) - 5"),
		"the id":           fmt.Sprintf(`json_set(payload, '$.id', '%s')`, decoy),
		"the kind":         `json_set(payload, '$.kind', 'alert')`,
		"the whole body":   fmt.Sprintf(`json_set(payload, '$.body', (SELECT body FROM signal_questions WHERE question_id = '%s'))`, decoy),
	} {
		h.rows(`CREATE TRIGGER tamper AFTER INSERT ON agent_message WHEN new.message_type = 'push' BEGIN
			UPDATE agent_message
				SET payload = (SELECT ` + change + ` FROM (SELECT json_extract(new.payload, '$.body') AS body))
			WHERE seq = new.seq; END`)
		h.ask("changed: "+name, "--options", "yes", "--options", "no")
		h.push.Next()
		// The push itself is intact, so that the service worker gets it.
		if got := h.push.Received(); got.Code != 100 {
			t.Errorf("%s was changed: receipt %+v", name, got)
		}
		h.rows(`DROP TRIGGER tamper`)
	}
	h.push.On(func(p *browsertest.Push) int {
		p.Body[len(p.Body)/2] ^= 1
		return http.StatusCreated
	})
	flipped := h.ask("changed: the push", "--options", "yes", "--options", "no")
	for h.push.Received().Code != 101 { // the browser itself cannot decrypt it
	}
	// A daemon that waited too long for the answer of the push service retries, and must not succeed then.
	for h.rows(`SELECT status FROM agent_message WHERE thread_id = '` + flipped + `'`)[0] != "delivered" {
		if ctx.Err() != nil {
			t.Fatal("the push with a flipped byte was never taken")
		}
	}
	h.push.On(nil)

	good := h.ask("unchanged", "--options", "yes", "--options", "no")
	n := desktop.Shown()
	if n.Body != "unchanged" {
		t.Errorf("notification %+v", n)
	}
	desktop.Press(n, "no")
	h.answered(good, "no")
	page.Reads("changed: the last byte") // the app requests the open questions from the daemon, unmodified
	for _, n := range desktop.All()[before:] {
		if !n.Closed && n.Body != "unchanged" {
			t.Errorf("notification %+v", n)
		}
	}
}

// couple is two devices of one person.
type couple struct {
	*household
	desktop       *browsertest.Desktop
	first, second *browsertest.Page
}

// ask asks a question and waits until both devices show it.
func (p *couple) ask(question string) (id string, both [2]browsertest.Notification) {
	p.t.Helper()
	id = p.household.ask(question, "--options", "yes", "--options", "no")
	for i := range both {
		if both[i] = p.desktop.Shown(); both[i].Body != question {
			p.t.Errorf("notification %+v; want %q", both[i], question)
		}
	}
	p.first.Reads(question)
	p.second.Reads(question)
	return id, both
}

// ahead answers no on the first device. The second is not notified until look is called. ahead returns the
// notification of the second.
func (p *couple) ahead(both [2]browsertest.Notification) (second browsertest.Notification, look func()) {
	p.t.Helper()
	lost := make(chan bool, 8) // more than are pushed
	p.push.On(func(*browsertest.Push) int {
		lost <- true
		return http.StatusAccepted
	})
	p.second.Eval(`(() => {
		const ask = window.fetch;
		const gate = new Promise(open => window.look = () => { window.fetch = ask; open() });
		window.fetch = async (url, o) => { if (o.method === "GET") await gate; return ask(url, o) };
	})()`, nil)
	p.answer(p.first, "no")
	gone := p.desktop.Next()
	i := slices.IndexFunc(both[:], func(n browsertest.Notification) bool { return n.ID != gone.ID })
	if !gone.Closed || both[1-i].ID != gone.ID {
		p.t.Fatalf("%+v; want that the device that has answered closes its own of %+v", gone, both)
	}
	select {
	case <-lost:
	case <-p.ctx.Done():
		p.t.Fatal("the second device is not told that the question was answered")
	}
	p.push.On(nil)
	return both[i], func() { p.second.Eval(`void look()`, nil) }
}

// TestFirefoxTwoDevices checks that both devices are asked, the first answer counts, and the other device is notified
// in time. If it is not, and answers anyway, on the page or through its notification, it shows that.
func TestFirefoxTwoDevices(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	ctx := browsertest.Start(t, browsertest.FirefoxPrograms...)
	h := newHousehold(ctx, t, "mailroom")
	desktop := browsertest.NewDesktop(ctx, t)
	firefox := browsertest.StartFirefox(ctx, t, desktop, h.push)
	p := &couple{h, desktop, firefox.NewPage(), firefox.NewPage()}
	for _, page := range []*browsertest.Page{p.first, p.second} {
		h.pair(page)
		h.ring(page)
	}
	says := func(page *browsertest.Page, id, text string) {
		t.Helper()
		page.Until(fmt.Sprintf(`document.getElementById(%q)?.innerText.includes(%q)`, id, text))
	}
	const late = "Answered on another device before your answer arrived"

	id, both := p.ask("Which is told in time?")
	p.answer(p.first, "yes")
	h.answered(id, "yes")
	says(p.first, id, "You answered: yes")
	says(p.second, id, "Answered on another device")
	h.ends(desktop, "Answered on another device", both[:]...)

	id, both = p.ask("Which page is too late?")
	_, look := p.ahead(both)
	p.answer(p.second, "yes")
	says(p.second, id, late)
	h.answered(id, "no")
	if n := desktop.Next(); !n.Closed {
		t.Errorf("%+v; want that the second device closes its own", n)
	}
	look()

	id, both = p.ask("Which notification is too late?")
	second, look := p.ahead(both)
	desktop.Press(second, "yes")
	h.await(`SELECT count(*) FROM command_trace WHERE name = 'phone answer' AND status = 'ERROR'`, "2")
	look()
	says(p.second, id, late)
	h.answered(id, "no")
}
