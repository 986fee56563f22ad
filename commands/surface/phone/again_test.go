package phone_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"mailroom/orchestrator/questions"
)

// TestPushedAgain checks that a push that is delivered again, or late, is not shown a second time, and that ended
// items are not shown: those answered here, cleared, or expired by their own expiry time.
func TestPushedAgain(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	w := tb.worker()
	q := m.ask(d, true, said{"question": "Deploy now?", "options": []string{"yes", "no"}})
	open := m.ask(d, true, said{"question": "Still open?"})
	a := m.alert(d, true, said{"message": "The site is down", "alertType": "error"})
	pushes := []said{m.pushed(q.id), m.pushed(a), {"kind": "question", "id": q.id}, {"kind": "alert", "id": a}}
	again := func(when string) {
		t.Helper()
		eval[chromedp.Void](w.inside, `registration.getNotifications().then((list) => list.forEach((n) => n.close()))`)
		for _, push := range pushes {
			w.push(push)
		}
		w.push(m.pushed(open.id))
		if got := w.shown(`true`); len(got) > 0 {
			t.Errorf("%s, shown is %+v", when, got)
		}
	}
	w.push(pushes[0])
	w.push(pushes[1])
	w.push(m.pushed(open.id))
	w.shown(`list.length === 3`)
	again("while it is known and open")
	tb.sees("Deploy now?")
	tb.press("no")
	tb.shows("You answered: no")
	again("after it was answered")
	tb.press("History")
	tb.press("Clear the history")
	tb.shows("Nothing yet.")
	again("after the history was cleared")
	tb.sees("Nothing yet.")
	late := m.ask(d, true, said{"question": "Long over?", "expiresAt": "2020-01-01T00:00:00Z"})
	w.push(m.pushed(late.id))
	if got := w.shown(`true`); len(got) > 0 {
		t.Errorf("shown is %+v, which has expired", got)
	}
}

// TestPushedReopened checks that a question whose answer the asker refused is open again, notifies again and accepts
// another answer, even if the history was cleared meanwhile.
func TestPushedReopened(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	w := tb.worker()
	for _, cleared := range []bool{false, true} {
		q := m.ask(d, true, said{"question": "Again?", "options": []string{"once", "twice"}})
		w.push(m.pushed(q.id))
		w.shown(`list.length === 1`)
		tb.sees("Again?")
		tb.freeze()
		tb.press("once")
		tb.shows("You answered: once")
		w.gone(q.id)
		eval[chromedp.Void](w.inside, `shown.clear()`)
		if cleared {
			tb.press("History")
			tb.press("Clear the history")
			tb.shows("Nothing yet.")
			tb.press("Questions")
		}
		over, err := questions.Get(t.Context(), m.Ledger, q.id)
		if err != nil {
			t.Fatal(err)
		}
		if err := questions.RefuseAnswer(t.Context(), m.Ledger, q.id, over.Answer, "it is forged"); err != nil {
			t.Fatal(err)
		}
		w.push(m.pushed(q.id))
		if got := w.shown(`true`); len(got) != 1 || len(got[0].Actions) != 2 {
			t.Errorf("shown is %+v", got)
		}
		tb.shows("Again?")
		if !cleared {
			tb.shows("Your answer did not pass the asker's check. Please answer again.")
		}
		w.button(q.id, "option:1")
		if got := m.answer(q); got != "option:1" {
			t.Errorf("the answer is %s", got)
		}
		tb.shows("You answered: twice")
		eval[chromedp.Void](w.inside, `shown.clear()`)
		tb.do(chromedp.Reload())
		tb.shows("No open questions.")
	}
}

// left keeps the notification of a question in the service worker. press presses one of its buttons in any case.
func (w worker) left(id string) (press func(action string)) {
	w.t.Helper()
	eval[chromedp.Void](w.inside, `(async () => {
		WindowClient.prototype.focus = async () => {};
		[globalThis.left] = await registration.getNotifications({ tag: %s });
	})()`, js(id))
	return func(action string) {
		w.t.Helper()
		eval[chromedp.Void](w.inside, `(() => {
			const pressed = new NotificationEvent("notificationclick", { notification: left, action: %s });
			pressed.waitUntil = () => {};
			dispatchEvent(pressed);
		})()`, js(action))
	}
}

// TestButtonAfterAnswer checks that an answer in the page removes the notification and its buttons. If another button
// is pressed nevertheless, the page shows the answer that was given first, which remains.
func TestButtonAfterAnswer(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	w := tb.worker()
	q := m.ask(d, true, said{"question": "Deploy?", "options": []string{"yes", "no"}})
	w.push(m.pushed(q.id))
	w.shown(`list.length === 1`)
	press := w.left(q.id)
	tb.sees("Deploy?")
	tb.press("yes")
	tb.shows("You answered: yes")
	w.gone(q.id)
	tb.press("Settings")
	tb.do(chromedp.Reload())
	tb.shows("Unpair this device")
	press("option:1")
	tb.shows("You answered: yes")
	tb.until(`document.activeElement.id === %s`, js(q.id))
	if got := m.answer(q); got != "option:0" {
		t.Errorf("the answer is %s", got)
	}
}

// TestButtonAfterKeptAnswer checks the same while the page keeps its answer for lack of a connection; the answer may
// have arrived.
func TestButtonAfterKeptAnswer(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	w := tb.worker()
	q := m.ask(d, true, said{"question": "Deploy?", "options": []string{"yes", "no"}})
	w.push(m.pushed(q.id))
	w.shown(`list.length === 1`)
	press := w.left(q.id)
	tb.sees("Deploy?")
	tb.freeze()
	eval[bool](tb, `delete ServiceWorkerRegistration.prototype.sync`)
	m.down()
	tb.press("yes")
	tb.shows("Your answer: yes")
	w.gone(q.id)
	tb.press("Settings")
	press("option:1")
	tb.shows("Your answer: yes")
	m.upAgain()
	tb.sees("You answered: yes")
	if got := m.answer(q); got != "option:0" {
		t.Errorf("the answer is %s", got)
	}
}

// TestApplePushes checks that a push that brings nothing new also shows something for a moment, since Apple ends the
// subscription of an app whose pushes show nothing.
func TestApplePushes(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	w := tb.worker()
	eval[chromedp.Void](w.inside, `(() => {
		globalThis.said = [];
		PushManager.prototype.getSubscription = async () => ({ endpoint: "https://web.push.apple.com/QX" });
		const show = ServiceWorkerRegistration.prototype.showNotification;
		ServiceWorkerRegistration.prototype.showNotification = function (title, options) {
			said.push(options.body);
			return show.call(this, title, options);
		};
	})()`)
	q := m.ask(d, true, said{"question": "On an iPhone?", "options": []string{"yes", "no"}})
	w.push(m.pushed(q.id))
	w.push(m.pushed(q.id))
	if got := w.shown(`true`); len(got) != 1 || got[0].Body != "On an iPhone?" {
		t.Errorf("shown is %+v", got)
	}
	tb.sees("On an iPhone?")
	tb.press("yes")
	tb.shows("You answered: yes")
	w.gone(q.id)
	w.push(said{"kind": "ended", "id": q.id, "status": "answered"})
	w.gone(q.id)
	if got := eval[string](w.inside, `said.join("; ")`); got != "On an iPhone?; Nothing new.; Answered on this device" {
		t.Errorf("said was: %s", got)
	}
}
