package main

import (
	"fmt"
	"net/http"
	"testing"

	"mailroom/commands/surface/phone/browsertest"
)

// TestFirefoxQuestion: a question that is asked on the command line is pushed, decrypted in the service worker and shown
// as a notification with buttons; one of them is pressed, and the asker decrypts the answer. Nothing of it can be read
// anywhere on the machine. One that is taken back afterwards leaves a word in place of its notification.
func TestFirefoxQuestion(t *testing.T) {
	t.Parallel()
	ctx := browsertest.Start(t, browsertest.FirefoxPrograms...)
	h := newHousehold(ctx, t, "mailroom")
	desktop := browsertest.NewDesktop(ctx, t)
	page := browsertest.StartFirefox(ctx, t, desktop, h.push).NewPage()
	h.pair(page)
	h.ring(page)

	words := newCanaries("question", "yes", "no", "context")
	id := h.ask(words["question"]+" proceed?", "--options", words["yes"], "--options", words["no"], "--context", words["context"])
	n := desktop.Shown()
	if n.Summary != "builder asks" || n.Body != words["question"]+" proceed?" {
		t.Errorf("notification %+v", n)
	}
	h.hides(words, "yes", "no")
	desktop.Press(n, words["yes"])
	h.answered(id, words["yes"])
	page.Reads("You answered: " + words["yes"])
	h.hides(words, "yes", "no")

	taken := h.ask(words["question"]+" once more?", "--options", words["yes"], "--options", words["no"])
	asked := desktop.Shown()
	h.run("signal", "cancel", taken, "--as", "builder")
	h.ends(desktop, "Cancelled by the asker", asked)
	if got := h.response(taken); got["answered"] != false || got["status"] != "cancelled" {
		t.Errorf("the asker of a cancelled question is told %v", got)
	}
	h.shows(h.db+"-wal", "table signal_questions")
	h.stop()
	h.hides(words, "yes", "no")
}

// ends waits until none of some notifications is shown any more, and one in their place says what became of the question,
// without buttons.
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

// TestFirefoxTampered: what was changed on the way to a phone shows nothing there, wherever it was changed. That no
// notification comes is seen by the next one, which is the first.
func TestFirefoxTampered(t *testing.T) {
	t.Parallel()
	ctx := browsertest.Start(t, browsertest.FirefoxPrograms...)
	h := newHousehold(ctx, t, "mailroom-unguarded") // for its triggers
	desktop := browsertest.NewDesktop(ctx, t)
	page := browsertest.StartFirefox(ctx, t, desktop, h.push).NewPage()
	h.pair(page)
	h.ring(page)
	decoy := h.ask("decoy", "--options", "yes", "--options", "no") // of which parts are put elsewhere
	desktop.Press(desktop.Shown(), "yes")
	h.answered(decoy, "yes")
	before := len(desktop.All())

	flip := func(at string) string { // one bit of a character of base64, and so one of a byte
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
			UPDATE agent_message SET payload = (SELECT ` + change + ` FROM (SELECT json_extract(new.payload, '$.body') AS body))
			WHERE seq = new.seq; END`)
		h.ask("changed: "+name, "--options", "yes", "--options", "no")
		h.push.Next()
		if got := h.push.Received(); got.Code != 100 { // the push itself is whole, so that the service worker gets it
			t.Errorf("%s was changed: receipt %+v", name, got)
		}
		h.rows(`DROP TRIGGER tamper`)
	}
	h.push.On(func(p *browsertest.Push) int {
		p.Body[len(p.Body)/2] ^= 1
		return http.StatusCreated
	})
	h.ask("changed: the push", "--options", "yes", "--options", "no")
	for h.push.Received().Code != 101 { // the browser itself does not decrypt it
	}
	h.push.On(nil)

	good := h.ask("unchanged", "--options", "yes", "--options", "no")
	n := desktop.Shown()
	if n.Body != "unchanged" {
		t.Errorf("notification %+v", n)
	}
	desktop.Press(n, "no")
	h.answered(good, "no")
	page.Reads("changed: the last byte") // the app asks the daemon for what is open, where nothing was changed
	for _, n := range desktop.All()[before:] {
		if !n.Closed && n.Body != "unchanged" {
			t.Errorf("notification %+v", n)
		}
	}
}

// TestFirefoxTwoDevices: both are asked, the first answer counts, and the other device is told so in time; when it answers
// all the same, it says so too.
func TestFirefoxTwoDevices(t *testing.T) {
	t.Parallel()
	ctx := browsertest.Start(t, browsertest.FirefoxPrograms...)
	h := newHousehold(ctx, t, "mailroom")
	desktop := browsertest.NewDesktop(ctx, t)
	firefox := browsertest.StartFirefox(ctx, t, desktop, h.push)
	first, second := firefox.NewPage(), firefox.NewPage()
	for _, page := range []*browsertest.Page{first, second} {
		h.pair(page)
		h.ring(page)
	}
	ask := func(question string) (id string, both [2]browsertest.Notification) {
		id = h.ask(question, "--options", "yes", "--options", "no")
		for i := range both {
			if both[i] = desktop.Shown(); both[i].Body != question {
				t.Errorf("notification %+v; want %q", both[i], question)
			}
		}
		first.Reads(question)
		second.Reads(question)
		return id, both
	}

	id, both := ask("Which is told in time?")
	first.Click("yes")
	h.answered(id, "yes")
	first.Reads("You answered: yes")
	second.Reads("Answered on another device")
	h.ends(desktop, "Answered on another device", both[:]...)

	id, both = ask("Which is too late?")
	h.push.On(func(*browsertest.Push) int { return http.StatusServiceUnavailable }) // the second is told nothing
	second.Eval(`(() => { const ask = fetch; fetch = (url, o) => o?.method === "POST" ? ask(url, o) : new Promise(() => {}) })()`, nil)
	first.Click("no")
	first.Reads("You answered: no")
	second.Click("yes")
	second.Reads("Answered on another device before your answer arrived")
	h.answered(id, "no")
	for _, n := range both { // each page takes its own away
		if got := desktop.Next(); !got.Closed {
			t.Errorf("%+v came in place of %+v", got, n)
		}
	}
}
