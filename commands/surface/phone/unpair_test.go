package phone_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"mailroom/orchestrator/questions"
)

// unpair unpairs the device in the settings.
func (tb *tab) unpair() {
	tb.t.Helper()
	tb.press("Settings")
	tb.press("Unpair this device")
	tb.press("Unpair")
	tb.shows("To get a code, run mailroom signal pair")
}

// refreshing makes the page look for news with a replacement of fetch(path, options). The replacement can call the
// real function as `ask`, and blocks at hold(true). release lets it continue and waits until it has ended.
func (tb *tab) refreshing(fetch string) (release func()) {
	tb.t.Helper()
	eval[chromedp.Void](tb, `(() => {
		const ask = fetch;
		const held = new Promise((go) => { window.release = go; });
		window.begun = new Promise((go) => { window.begin = go; });
		window.ended = new Promise((go) => { window.looked = (looking) => looking === 0 && go(); });
		const hold = async (here) => { if (here) { begin(); await held; } };
		window.fetch = async (path, options) => { %s };
		dispatchEvent(new Event("focus"));
		return begun;
	})()`, fetch)
	return func() {
		tb.t.Helper()
		eval[chromedp.Void](tb, `release(), ended`)
	}
}

// TestClearWhileRefreshing checks that items cleared during a request do not come back with its answer.
func TestClearWhileRefreshing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	m.alert(d, true, said{"message": "Old news"})
	tb.press("History")
	tb.sees("Old news")
	tb.refreshed()
	release := tb.refreshing(`const answer = await ask(path, options); await hold(path === "/api/signals"); return answer;`)
	tb.press("Clear the history")
	tb.shows("Nothing yet.")
	release()
	tb.hides("Old news")
	tb.press("Alerts")
	tb.shows("No alerts.")
}

// TestUnpairWhileRefreshing checks that answers that arrive after unpairing are not kept, neither a list of questions
// nor the state that the device was revoked.
func TestUnpairWhileRefreshing(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]string{
		"a list that comes late":       `const answer = await ask(path, options); await hold(path === "/api/signals"); return answer;`,
		"a question that comes late":   `const answer = await ask(path, options); await hold(path.startsWith("/api/signals/")); return answer;`,
		"a list that is refused":       `await hold(path === "/api/signals"); return ask(path, options);`,
		"the device, which is refused": `await hold(path === "/api/device" && options.method === "GET"); return ask(path, options);`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			tb, d := m.pair()
			over := m.ask(d, false, said{"question": "A secret that is over"})
			tb.sees("A secret that is over")
			tb.refreshed()
			if _, err := questions.Cancel(t.Context(), m.Ledger, over.id, "builder"); err != nil {
				t.Fatal(err)
			}
			m.ask(d, false, said{"question": "A secret in clear"})
			release := tb.refreshing(held)
			tb.unpair()
			release()
			if left := eval[int](tb, kept); left != 0 {
				t.Errorf("%d things are kept after all was removed:\n%s", left, tb.text())
			}
			tb.shows("To get a code, run mailroom signal pair")
		})
	}
}

// TestUnpairTakesNotifications checks that no notification with encrypted content remains after unpairing, and that
// none is shown later.
func TestUnpairTakesNotifications(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	w := tb.worker()
	q := m.ask(d, true, said{"question": "Secret?", "options": []string{"yes", "no"}})
	a := m.alert(d, true, said{"message": "Secret"})
	w.push(m.pushed(q.id))
	w.push(m.pushed(a))
	w.shown(`list.length === 2`)
	tb.unpair()
	w.gone(q.id)
	w.gone(a)
	w.push(said{"kind": "alert", "id": "a-late", "text": said{"v": 1, "kind": "alert", "id": "a-late", "from": "builder", "message": "late"}})
	for _, n := range w.shown(`refused === 1`) {
		if n.Tag == "a-late" {
			t.Errorf("shown is %+v", n)
		}
	}
	if left := eval[int](tb, kept); left != 0 {
		t.Errorf("%d things are kept after all was removed", left)
	}
}
