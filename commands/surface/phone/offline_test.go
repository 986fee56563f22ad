package phone_test

import (
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/chromedp"

	"mailroom/orchestrator/questions"
)

// controlled waits until the service worker has the app and serves it.
func (tb *tab) controlled() {
	tb.t.Helper()
	eval[bool](tb, `new Promise((resolve) => {
		const look = () => navigator.serviceWorker.controller && resolve(true);
		navigator.serviceWorker.addEventListener("controllerchange", look);
		look();
	})`)
}

// TestOfflineStart: without the daemon the app starts, shows what is open and says that it is offline. An answer is kept,
// outlives the page, and is sent when the daemon is there again.
func TestOfflineStart(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	q := m.ask(d, true, said{"question": "Are we offline?", "options": []string{"yes", "no"}})
	tb.sees("Are we offline?")
	tb.controlled()
	m.down()
	tb.do(chromedp.Reload())
	tb.shows("Are we offline?")
	tb.shows("Cannot reach Mailroom. This page shows the data from")
	tb.press("yes")
	tb.shows("The app sends the answer when there is a connection. An attempt to send it was interrupted")
	tb.do(chromedp.Reload())
	tb.shows("Your answer: yes")
	m.upAgain()
	tb.sees("You answered: yes")
	if got := m.answer(q); got != "option:0" {
		t.Errorf("the answer is %s", got)
	}
	tb.hides("Offline")
}

// TestOfflineTooLate: an answer that was kept while another device answered is not passed off as the one that counted.
func TestOfflineTooLate(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	q := m.ask(d, true, said{"question": "Too late?", "options": []string{"yes", "no"}})
	tb.sees("Too late?")
	tb.network(false)
	tb.press("no")
	tb.shows("Saved on this device. The app sends the answer when there is a connection.")
	if _, err := questions.Answer(t.Context(), m.Ledger, q.id, d.ID, "by another"); err != nil {
		t.Fatal(err)
	}
	tb.network(true)
	tb.sees("Answered on another device before your answer arrived")
}

// TestOfflineWithdrawn: what certainly has not left can be taken back.
func TestOfflineWithdrawn(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	q := m.ask(d, true, said{"question": "Sure?", "options": []string{"sure", "not sure"}})
	tb.sees("Sure?")
	tb.network(false)
	tb.press("sure")
	tb.press("Do not send it")
	tb.press("not sure")
	tb.shows("Your answer: not sure")
	tb.network(true)
	tb.sees("You answered: not sure")
	if got := m.answer(q); got != "option:1" {
		t.Errorf("the answer is %s", got)
	}
}

// TestOfflineSync: where the browser says so to the service worker, an answer that was kept goes out without the page.
func TestOfflineSync(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	w := tb.worker()
	q := m.ask(d, true, said{"question": "Later?", "options": []string{"later"}})
	tb.sees("Later?")
	tb.freeze()
	m.down()
	tb.press("later")
	tb.shows("The app sends the answer when there is a connection.")
	m.upAgain()
	tb.command(chromedp.Call(tb.ctx, serviceworker.DispatchSyncEvent, serviceworker.DispatchSyncEventParams{
		Origin: m.listen.Address, RegistrationID: w.registration, Tag: "answers",
	}))
	if got := m.answer(q); got != "option:0" {
		t.Errorf("the answer is %s", got)
	}
	tb.shows("You answered: later")
}

// network takes the network away from the page, which the browser knows, and gives it back. The service worker keeps it,
// and is not asked to send what waits.
func (tb *tab) network(there bool) {
	tb.t.Helper()
	eval[bool](tb, `delete ServiceWorkerRegistration.prototype.sync`)
	tb.command(chromedp.Call(tb.ctx, emulateNetwork, conditions{
		Offline: !there,
		Matched: []*network.Conditions{{Offline: !there, DownloadThroughput: -1, UploadThroughput: -1}},
	}))
	tb.command(chromedp.Call(tb.ctx, network.OverrideNetworkState, network.OverrideNetworkStateParams{
		Offline: !there, DownloadThroughput: -1, UploadThroughput: -1,
	}))
}

// conditions are the parameters of Network.emulateNetworkConditionsByRule of Chromium 148, where offline stands beside the rules,
// and of later ones, where each rule has it.
type conditions struct {
	Offline bool                  `json:"offline"`
	Matched []*network.Conditions `json:"matchedNetworkConditions"`
}

var emulateNetwork = cdp.Command[conditions,
	network.EmulateNetworkConditionsByRuleResult]{Method: network.CommandEmulateNetworkConditionsByRule}
