package phone_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/chromedp"

	"mailroom/orchestrator/questions"
)

// worker is the service worker of a tab. Tests pass pushes to it as if the push service had delivered them, because a
// browser cannot subscribe without its own push service.
type worker struct {
	*tab
	inside       *tab // context of the service worker, in which expressions run
	registration serviceworker.RegistrationID
}

// noting makes a service worker record what it shows, how many pushes it refuses, and how many it has finished.
// Polling the browser would not work: it forgets a notification between the request and its display on the desktop.
const noting = `
	const shown = new Map();
	let turn = () => {};
	let refused = 0;
	console.warn = () => { refused++; turn(); };
	const show = ServiceWorkerRegistration.prototype.showNotification;
	ServiceWorkerRegistration.prototype.showNotification = async function (title, options) {
		await show.call(this, title, options);
		shown.set(options.tag, { Tag: options.tag, Title: title, Body: options.body, Actions: (options.actions ?? []).map((a) => a.title),
			Silent: options.silent === true, RequireInteraction: options.requireInteraction === true });
		turn();
	};
	let done = 0;
	const wait = ExtendableEvent.prototype.waitUntil;
	ExtendableEvent.prototype.waitUntil = function (work) {
		wait.call(this, work);
		if (this.type === "push") work.then(() => { done++; turn(); });
	};
	const close = Notification.prototype.close;
	Notification.prototype.close = function () { close.call(this); shown.delete(this.tag); turn(); };
	undefined`

func (tb *tab) worker() worker {
	tb.t.Helper()
	tb.controlled()
	tb.permit("granted")
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	versions := chromedp.Events(ctx, serviceworker.WorkerVersionUpdated)
	tb.command(chromedp.Call(tb.ctx, serviceworker.Disable, cdp.Empty{}))
	tb.command(chromedp.Call(tb.ctx, serviceworker.Enable, cdp.Empty{}))
	for event, err := range versions {
		if err != nil {
			tb.t.Fatal(err)
		}
		for _, version := range event.Versions {
			if version.Status == serviceworker.VersionStatusActivated && version.TargetID != "" && strings.HasPrefix(version.ScriptURL, tb.machine.listen.Address) {
				inside, cancel := chromedp.NewContext(tb.ctx, chromedp.WithTargetID(version.TargetID))
				tb.t.Cleanup(cancel)
				tb.command(nil, chromedp.Do(inside))
				w := worker{tb, &tab{tb.t, inside, tb.machine}, version.RegistrationID}
				eval[chromedp.Void](w.inside, `%s`, noting)
				return w
			}
		}
	}
	tb.t.Fatal("there is no service worker")
	return worker{}
}

// push delivers a payload and waits until the service worker has finished with it.
func (w worker) push(payload any) {
	w.t.Helper()
	before := eval[int](w.inside, `done`)
	w.command(chromedp.Call(w.ctx, serviceworker.DeliverPushMessage, serviceworker.DeliverPushMessageParams{
		Origin: w.machine.listen.Address, RegistrationID: w.registration, Data: js(payload),
	}))
	w.shown(fmt.Sprintf("done > %d", before))
}

// notification is a displayed notification.
type notification struct {
	Tag, Title, Body           string
	Actions                    []string
	Silent, RequireInteraction bool
}

// shown waits until the condition holds for `list`, the notifications that the service worker has shown and not
// removed, and returns them.
func (w worker) shown(condition string) []notification {
	w.t.Helper()
	return eval[[]notification](w.inside, `new Promise((resolve) => {
		turn = () => { const list = [...shown.values()]; if (%s) resolve(list); };
		turn();
	})`, condition)
}

// gone waits until the browser has no notification with an ID any more.
func (w worker) gone(id string) {
	w.t.Helper()
	eval[chromedp.Void](w.tab, `(async () => {
		const registration = await navigator.serviceWorker.ready;
		while ((await registration.getNotifications({ tag: %s })).length > 0) await new Promise(requestAnimationFrame);
	})()`, js(id))
}

// pushed returns the push content of a question or an alert for a device.
func (m *machine) pushed(id string) said {
	m.t.Helper()
	if strings.HasPrefix(id, "a-") {
		a, err := questions.GetAlert(m.t.Context(), m.Ledger, id)
		if err != nil {
			m.t.Fatal(err)
		}
		return said{"kind": "alert", "id": id, "ciphertext": a.Body}
	}
	q, err := questions.Get(m.t.Context(), m.Ledger, id)
	if err != nil {
		m.t.Fatal(err)
	}
	return said{"kind": "question", "id": id, "ciphertext": q.Body}
}

// TestNotification checks that an encrypted push is decrypted in the service worker, that its options become buttons
// as far as there is room, and that its end replaces it.
func TestNotification(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	w := tb.worker()
	q := m.ask(d, true, said{"question": "Two ways?", "options": []string{"left", "right"}, "priority": "high"})
	w.push(m.pushed(q.id))
	got := w.shown(`list.length === 1`)[0]
	if got.Tag != q.id || got.Title != m.project()+": builder asks" || got.Body != "Two ways?" || strings.Join(got.Actions, " ") != "left right" ||
		got.Silent || !got.RequireInteraction {
		t.Errorf("shown is %+v", got)
	}
	many := m.ask(d, true, said{"question": "Three ways?", "options": []string{"left", "right", "back"}, "priority": "low"})
	w.push(said{"kind": "question", "id": many.id}) // too large for a push, so it is fetched
	for _, got := range w.shown(`list.length === 2`) {
		if got.Tag == many.id && (got.Body != "Three ways?" || len(got.Actions) > 0 || !got.Silent || got.RequireInteraction) {
			t.Errorf("shown is %+v", got)
		}
	}
	if _, err := questions.Cancel(t.Context(), m.Ledger, q.id, "builder"); err != nil {
		t.Fatal(err)
	}
	w.push(said{"kind": "ended", "id": q.id, "status": "cancelled"})
	for _, got := range w.shown(`list.length === 2 && list.some((n) => n.Body === "Canceled by the asker")`) {
		if got.Tag == q.id && (len(got.Actions) > 0 || !got.Silent || got.RequireInteraction) {
			t.Errorf("shown is %+v", got)
		}
	}
	w.press("back")
	w.shows("You answered: back")
	w.gone(many.id)
	w.push(said{"kind": "ended", "id": many.id, "status": "answered"})
	w.push(said{"kind": "test", "id": "t-1"})
	if list := w.shown(`list.some((n) => n.Tag === "test")`); slices.ContainsFunc(list, func(n notification) bool { return n.Body == "You answered: back" }) {
		t.Errorf("shown is %+v, though this device answered", list)
	}
}

// TestNotificationInClear checks that unencrypted notifications are marked, and that alerts show their kind.
func TestNotificationInClear(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	w := tb.worker()
	id := m.alert(d, true, said{"message": "The disk is full", "alertType": "error", "priority": "high"})
	w.push(m.pushed(id))
	got := w.shown(`list.length === 1`)[0]
	if got.Title != m.project()+": Error from builder" || got.Body != "The disk is full" || !got.RequireInteraction {
		t.Errorf("shown is %+v", got)
	}
	w.push(said{"kind": "question", "id": "q-clear", "text": said{"v": 1, "kind": "question", "id": "q-clear", "from": "builder", "question": "In clear?"}})
	for _, got := range w.shown(`list.length === 2`) {
		if got.Tag == "q-clear" && got.Body != "Not encrypted. In clear?" {
			t.Errorf("shown is %+v", got)
		}
	}
}

// TestNotificationForged checks that nothing is shown for a push with a changed byte, with another ID, or of an
// unknown form. The service worker reports four of them as refused; it does not recognize the others.
func TestNotificationForged(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	w := tb.worker()
	q := m.ask(d, true, said{"question": "Is this true?", "options": []string{"yes", "no"}})
	genuine := m.pushed(q.id)
	sealed, err := base64.StdEncoding.DecodeString(genuine["ciphertext"].(string))
	if err != nil {
		t.Fatal(err)
	}
	sealed[len(sealed)-20] ^= 1
	w.push(said{"kind": "question", "id": q.id, "ciphertext": base64.StdEncoding.EncodeToString(sealed)})
	w.push(said{"kind": "question", "id": "q-another", "ciphertext": genuine["ciphertext"]})
	w.push(said{"kind": "alert", "id": q.id, "ciphertext": genuine["ciphertext"]})
	w.push(said{"kind": "alert", "id": "a-x", "text": "no object"})
	w.push(said{"kind": "other", "id": "a-x", "text": said{"v": 1, "kind": "other", "id": "a-x", "message": "hello"}})
	w.push("no object")
	w.push(said{"kind": "test", "id": "t-1"})
	if got := w.shown(`refused === 4 && list.some((n) => n.Tag === "test")`); len(got) != 1 {
		t.Errorf("shown is %+v", got)
	}
	w.push(genuine)
	w.shown(`list.some((n) => n.Body === "Is this true?")`)
}

// TestNotificationButton checks that a button of a notification answers without the page, encrypted like an answer of
// the page.
func TestNotificationButton(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	w := tb.worker()
	q := m.ask(d, true, said{"question": "By button?", "options": []string{"yes", "no"}})
	w.push(m.pushed(q.id))
	w.shown(`list.length === 1`)
	w.shows("By button?")
	w.button(q.id, "option:1")
	if got := m.answer(q); got != "option:1" {
		t.Errorf("the answer is %s", got)
	}
	w.shows("You answered: no")
	w.gone(q.id)
}

// TestNotificationTap checks that a tap on a notification, or a button that is pressed too late, opens the page at
// the question.
func TestNotificationTap(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	w := tb.worker()
	q := m.ask(d, true, said{"question": "By tap?", "options": []string{"yes", "no"}})
	w.push(m.pushed(q.id))
	w.shown(`list.length === 1`)
	tb.press("Settings")
	w.button(q.id, "")
	w.until(`location.hash === "#" + %s && document.activeElement.id === %[1]s`, js(q.id))
	late := m.ask(d, true, said{"question": "Too late?", "options": []string{"yes", "no"}})
	w.push(m.pushed(late.id))
	w.shown(`list.length === 1`)
	if _, err := questions.Answer(t.Context(), m.Ledger, late.id, d.ID, "by another"); err != nil {
		t.Fatal(err)
	}
	w.button(late.id, "option:0")
	w.shows("Answered on another device")
}

// button does what a press on a notification's button does in the service worker. Its event is not from the browser,
// so it can neither extend its lifetime nor move the focus.
func (w worker) button(id, action string) {
	w.t.Helper()
	eval[chromedp.Void](w.inside, `(async () => {
		WindowClient.prototype.focus = async () => {};
		const [notification] = await registration.getNotifications({ tag: %s });
		const pressed = new NotificationEvent("notificationclick", { notification, action: %s });
		pressed.waitUntil = () => {};
		dispatchEvent(pressed);
	})()`, js(id), js(action))
}
