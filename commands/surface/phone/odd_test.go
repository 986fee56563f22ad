package phone_test

import (
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"mailroom/orchestrator/orchestratortest/enginetest"
)

// TestFailedCard checks that an item that cannot be shown, for whatever reason, neither hides nor delays the others.
func TestFailedCard(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	eval[chromedp.Void](tb, `(() => {
		const write = document.createTextNode;
		document.createTextNode = (text) => {
			if (text === "A bad one") throw new Error("it is bad");
			return write.call(document, text);
		};
	})()`)
	m.ask(d, true, said{"question": "A bad one"})
	m.ask(d, true, said{"question": "A good one", "options": []string{"good"}})
	tb.sees("Cannot show this item: it is bad.")
	tb.sees("A good one")
	tb.press("good")
	tb.shows("You answered: good")
}

// TestFailedPage checks that the page is shown the next time after it could not be shown as a whole.
func TestFailedPage(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	tb.controlled()
	failed := eval[string](tb, `new Promise((resolve) => {
		const complain = console.error;
		console.error = (error) => { console.error = complain; delete document.getElementById; resolve(error.message); };
		document.getElementById = () => { throw new Error("once"); };
		dispatchEvent(new Event("focus"));
	})`)
	if failed != "once" {
		t.Errorf("the page failed with %s", failed)
	}
	m.ask(d, true, said{"question": "And now?"})
	tb.sees("And now?")
}

// TestOddAddress checks that an address that names nothing shows the questions.
func TestOddAddress(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, _ := m.pair()
	for _, hash := range []string{"#toString", "#__proto__", "#%", "#a-nothing"} {
		eval[chromedp.Void](tb, `new Promise((resolve) => { addEventListener("hashchange", resolve, { once: true }); location.hash = %s; })`, js(hash))
		tb.shows(map[bool]string{true: "No alerts.", false: "No open questions."}[hash == "#a-nothing"])
	}
}

// TestOddID checks that an arbitrary ID, which anybody may write into the table, stays one segment of the requested
// paths.
func TestOddID(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	w := tb.worker()
	q := m.askAs("q-a/b?c=d#e%25", d, true, said{"question": "Odd?", "options": []string{"yes", "no"}})
	w.push(said{"kind": "question", "id": q.id})
	w.shown(`list.length === 1`)
	tb.press("Settings")
	w.button(q.id, "")
	tb.until(`document.activeElement.id === %s`, js(q.id))
	tb.press("no")
	tb.shows("You answered: no")
	if got := m.answer(q); got != "option:1" {
		t.Errorf("the answer is %s", got)
	}
}

// TestNoButtons checks that no buttons are requested where a browser does not support them, as on an iPhone.
func TestNoButtons(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	w := tb.worker()
	for _, without := range []string{
		`Object.defineProperty(Notification, "maxActions", { value: 0, configurable: true })`,
		`delete Notification.maxActions; delete Notification.prototype.actions`,
	} {
		eval[chromedp.Void](w.inside, `%s;undefined`, without)
		q := m.ask(d, true, said{"question": "By tap?", "options": []string{"yes", "no"}})
		w.push(m.pushed(q.id))
		for _, n := range w.shown(`true`) {
			if len(n.Actions) > 0 || n.Body != "By tap?" {
				t.Errorf("shown is %+v", n)
			}
		}
		w.push(said{"kind": "ended", "id": q.id, "status": "expired"})
		if got := w.shown(`true`); len(got) == 0 || got[len(got)-1].Body != "Expired without an answer" {
			t.Errorf("shown is %+v after it expired", got)
		}
		eval[chromedp.Void](w.inside, `shown.clear()`)
	}
}

// TestAskedOnTap checks that permission for notifications is requested only when the button is pressed.
func TestAskedOnTap(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, _ := m.pair()
	tb.command(chromedp.Call(tb.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `window.asked = 0; Notification.requestPermission = async () => { asked++; return "default"; };`,
	}))
	tb.controlled()
	tb.do(chromedp.Reload())
	tb.sees("Turn on notifications")
	tb.press("Settings")
	if got := eval[int](tb, `asked`); got != 0 {
		t.Errorf("it was asked for %d times before anybody pressed", got)
	}
	tb.press("Turn on notifications")
	if got := eval[int](tb, `asked`); got != 1 {
		t.Errorf("it was asked for %d times when the button was pressed", got)
	}
}

// TestInstallPrompt checks that the browser's offer to install is kept until the button is pressed, and is made once.
func TestInstallPrompt(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, _ := m.pair()
	eval[chromedp.Void](tb, `(() => {
		window.prompted = 0;
		window.offer = new Event("beforeinstallprompt", { cancelable: true });
		offer.prompt = async () => { prompted++; };
		dispatchEvent(offer);
	})()`)
	tb.shows("Install Mailroom")
	if got := eval[string](tb, `offer.defaultPrevented + " " + prompted`); got != "true 0" {
		t.Errorf("kept and prompted: %s", got)
	}
	tb.press("Install")
	tb.until(`!document.querySelector("main").innerText.includes("Install Mailroom")`)
	if got := eval[int](tb, `prompted`); got != 1 {
		t.Errorf("prompted %d times", got)
	}
}

// TestSubscribesAnew checks that, when pushes no longer arrive, opening the app subscribes again, once for each
// problem.
func TestSubscribesAnew(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, _ := m.pair()
	tb.controlled()
	tb.permit("granted")
	tb.subscribable()
	tb.press("Turn on notifications")
	tb.until(`!document.querySelector("main").innerText.includes("Turn on notifications")`)
	problem := func(text string) {
		if _, err := enginetest.Plain(t, m.file).ExecContext(t.Context(), `UPDATE signal_devices SET push_problem = ?`, text); err != nil {
			t.Fatal(err)
		}
	}
	tb.press("Settings")
	for n, at := range []string{"2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"} {
		problem(at + " the push service says 410")
		tb.refreshed()
		tb.shows("This device shows a notification for each")
		if d := m.device(); d.PushProblem != "" || d.PushHost != "fcm.googleapis.com" {
			t.Errorf("the device is %+v", d)
		}
		if got := eval[int](tb, `subscribed`); got != n+2 {
			t.Errorf("subscribed %d times", got)
		}
	}
	problem("2026-01-01T11:00:00Z the push service says 410")
	tb.refreshed()
	tb.shows("The last push failed")
	if got := eval[int](tb, `subscribed`); got != 3 {
		t.Errorf("subscribed %d times", got)
	}
}
