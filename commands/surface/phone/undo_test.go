package phone_test

import (
	"testing"

	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/chromedp"

	"mailroom/orchestrator/questions"
)

// pending fails the test unless a question is still open at the daemon.
func (m *machine) pending(id string) {
	m.t.Helper()
	if q, err := questions.Get(m.t.Context(), m.Ledger, id); err != nil || q.Status != questions.Pending {
		m.t.Fatalf("the question is %s, %v", q.Status, err)
	}
}

// TestUndo checks that an answer is held for five seconds and can be taken back, and that another answer is then
// sent.
func TestUndo(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	tb.halt()
	q := m.ask(d, true, said{"question": "Sure?", "options": []string{"sure", "wait"}})
	tb.sees("Sure?")
	tb.press("sure")
	tb.shows("Your answer: sure")
	tb.shows("Sent in 5 s")
	eval[chromedp.Void](tb, `pass(3000)`)
	tb.shows("Sent in 2 s")
	tb.refreshed() // sending the waiting answers does not send this one
	m.pending(q.id)
	tb.press("Undo")
	tb.until(`document.activeElement.id === %s`, js(q.id))
	eval[chromedp.Void](tb, `pass(60000)`)
	tb.refreshed()
	m.pending(q.id)
	tb.answers("wait")
	tb.shows("You answered: wait")
	if got := m.answer(q); got != "option:1" {
		t.Errorf("the answer is %s", got)
	}
}

// TestUndoneWords checks that a text that is taken back is in its field again.
func TestUndoneWords(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	tb.halt()
	q := m.ask(d, true, said{"question": "Which name?"})
	tb.sees("Which name?")
	tb.fill("Your answer", "Ledger")
	tb.press("Send answer")
	tb.press("Undo")
	tb.until(`document.querySelector("textarea")?.value === "Ledger"`)
	tb.fill("Your answer", "Folio")
	tb.answers("Send answer")
	if got := m.answer(q); got != "text:Folio" {
		t.Errorf("the answer is %s", got)
	}
}

// TestHeldWhenClosed checks that a held answer is sent at once when the user leaves the app, or at the next start if
// the app ended before it could do so.
func TestHeldWhenClosed(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	tb.halt()
	hidden := m.ask(d, true, said{"question": "Hidden?", "options": []string{"hide", "stay"}})
	tb.sees("Hidden?")
	tb.press("hide")
	tb.shows("Your answer: hide")
	eval[bool](tb, `dispatchEvent(new Event("pagehide"))`)
	if got := m.answer(hidden); got != "option:0" {
		t.Errorf("the answer is %s", got)
	}
	killed := m.ask(d, true, said{"question": "Killed?", "options": []string{"kill", "live"}})
	tb.sees("Killed?")
	tb.press("live")
	tb.shows("Your answer: live")
	eval[chromedp.Void](tb, `(() => {
		const keep = (event) => event.stopImmediatePropagation(); // as a phone that takes the app's memory
		for (const name of ["pagehide", "visibilitychange"]) addEventListener(name, keep, { capture: true });
	})()`)
	m.pending(killed.id)
	tb.do(chromedp.Reload())
	if got := m.answer(killed); got != "option:1" {
		t.Errorf("the answer is %s", got)
	}
}

// TestHeldByWorker checks that, where the browser lets the service worker send waiting answers, the service worker
// sends a held answer after its time, without the page.
func TestHeldByWorker(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	tb.halt()
	w := tb.worker()
	q := m.ask(d, true, said{"question": "Closed?", "options": []string{"closed", "open"}})
	tb.sees("Closed?")
	tb.press("closed")
	tb.shows("Your answer: closed")
	eval[chromedp.Void](w.inside, `(() => {
		Date.now = () => 0; // long before
		const set = setTimeout;
		setTimeout = (work, ms) => { Date.now = () => ms; set(work); }; // as if that time had passed
	})()`)
	tb.command(chromedp.Call(tb.ctx, serviceworker.DispatchSyncEvent, serviceworker.DispatchSyncEventParams{
		Origin: m.listen.Address, RegistrationID: w.registration, Tag: "answers",
	}))
	if got := m.answer(q); got != "option:0" {
		t.Errorf("the answer is %s", got)
	}
	tb.shows("You answered: closed")
}

// TestHeldOnceOnly checks that the page, a second page and the service worker, which all send due answers, send an
// answer once.
func TestHeldOnceOnly(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	tb.halt()
	eval[chromedp.Void](tb, `(() => {
		const ask = window.fetch;
		window.posts = 0;
		window.fetch = (url, o) => { if (o.method === "POST") posts++; return ask(url, o); };
	})()`)
	q := m.ask(d, true, said{"question": "Once?", "options": []string{"once"}})
	tb.sees("Once?")
	tb.press("once")
	tb.shows("Your answer: once")
	eval[chromedp.Void](tb, `(pass(5000), pass(5000), dispatchEvent(new Event("pagehide")), dispatchEvent(new Event("focus")))`)
	if got := m.answer(q); got != "option:0" {
		t.Errorf("the answer is %s", got)
	}
	tb.refreshed()
	tb.shows("You answered: once")
	if got := eval[int](tb, `posts`); got != 1 {
		t.Errorf("it was sent %d times", got)
	}
}

// TestCancelledWhileHeld checks that a question that is cancelled while its answer is held refuses the answer, and
// that the page shows this.
func TestCancelledWhileHeld(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	tb.halt()
	q := m.ask(d, true, said{"question": "Still?", "options": []string{"yes", "no"}})
	tb.sees("Still?")
	tb.press("yes")
	tb.shows("Your answer: yes")
	if _, err := questions.Cancel(t.Context(), m.Ledger, q.id, "builder"); err != nil {
		t.Fatal(err)
	}
	tb.sees("Canceled by the asker before your answer arrived")
	tb.hides("Undo")
}

// TestWordBeside checks that a text is sent together with an option, whether it was written first or requested after
// a rejecting option was pressed.
func TestWordBeside(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	tb.halt()
	const label = "Sent with the option that you press"
	for _, encrypted := range []bool{true, false} {
		q := m.ask(d, encrypted, said{"question": "Deploy?", "options": []string{"Yes", "No"}})
		tb.sees("Deploy?")
		tb.press("Add a comment")
		tb.fill(label, "but only on staging")
		tb.answers("Yes")
		tb.shows("You answered: Yes: but only on staging")
		want := map[bool]string{true: "option:0\ntext:but only on staging", false: `{"option":0,"text":"but only on staging"}`}[encrypted]
		if got := m.answer(q); got != want {
			t.Errorf("the answer is %s", got)
		}
		refused := m.ask(d, encrypted, said{"question": "The plan?", "options": []string{"Approve", "Reject"}})
		tb.sees("The plan?")
		tb.press("Reject")
		tb.press("Say why")
		tb.until(`document.activeElement.tagName === "TEXTAREA"`)
		tb.fill(label, "not on a Friday")
		tb.answers("Reject")
		tb.shows("You answered: Reject: not on a Friday")
		want = map[bool]string{true: "option:1\ntext:not on a Friday", false: `{"option":1,"text":"not on a Friday"}`}[encrypted]
		if got := m.answer(refused); got != want {
			t.Errorf("the answer is %s", got)
		}
		tb.do(chromedp.Reload())
		tb.shows("No open questions.")
		tb.halt()
	}
}

// TestOptions checks that one option is filled, that destructive and rejecting options are separate and last, and
// that the index in an answer is that of the question.
func TestOptions(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	for question, c := range map[string]struct {
		options []string
		want    string // ranks in the displayed order
	}{
		"Go on?":                {[]string{"Yes", "No", "Later"}, "first Yes, other No, other Later"},
		"Which way?":            {[]string{"Delete it", "Keep it", "Rename it (recommended)"}, "first Rename it (recommended), other Keep it, apart Delete it"},
		"The plan?":             {[]string{"Reject", "Approve"}, "first Approve, apart Reject"},
		"And the branch?":       {[]string{"force-push", "Do not delete it", "Don’t force it", "push --force"}, "first Do not delete it, other Don’t force it, apart force-push, apart push --force"},
		"Delete the old table?": {[]string{"Yes", "No"}, "other Yes, other No"},
		"Anything?":             {[]string{"Drop it", "Wipe it"}, "apart Drop it, apart Wipe it"},
		"Enforced dropdowns?":   {[]string{"enforced", "a dropdown"}, "first enforced, other a dropdown"},
	} {
		q := m.ask(d, true, said{"question": question, "options": c.options})
		tb.sees(question)
		got := eval[string](tb, `[...document.getElementById(%s).querySelectorAll(".choice")].map((b) => b.classList[1] + " " + b.innerText).join(", ")`, js(q.id))
		if got != c.want {
			t.Errorf("%s: %s; want %s", question, got, c.want)
		}
	}
	q := m.ask(d, true, said{"question": "Last one?", "options": []string{"Remove", "Keep all", "Keep some"}})
	tb.sees("Last one?")
	tb.press("Remove")
	if got := m.answer(q); got != "option:0" {
		t.Errorf("the answer is %s", got)
	}
}

// TestTimeLeft checks that a question shows how long it is open, and that this stays correct while somebody types.
func TestTimeLeft(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	tb.halt()
	eval[chromedp.Void](tb, `pass(59_000)`) // each look at the clock takes a millisecond of the next minute
	m.ask(d, true, said{"question": "How long?"})
	tb.sees("59 min left")
	tb.fill("Your answer", "half of")
	eval[chromedp.Void](tb, `pass(10 * 60000)`)
	tb.sees("49 min left")
	if got := eval[string](tb, `document.activeElement.value`); got != "half of" {
		t.Errorf("the field with the focus has %q", got)
	}
	tb.shows(m.project())
}
