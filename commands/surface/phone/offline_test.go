package phone_test

import (
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/chromedp"

	"mailroom/orchestrator/questions"
)

// controlled waits until the service worker controls the page and has cached the app.
func (tb *tab) controlled() {
	tb.t.Helper()
	eval[bool](tb, `new Promise((resolve) => {
		const look = () => navigator.serviceWorker.controller && resolve(true);
		navigator.serviceWorker.addEventListener("controllerchange", look);
		look();
	})`)
}

// TestOfflineStart checks that the app starts without the daemon, shows the open questions, and shows that it is
// offline. An answer is kept even if the page is closed, and is sent when the daemon is available again.
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

// TestOfflineTooLate checks that an answer that was kept while another device answered is not shown as the accepted
// one.
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

// TestOfflineWithdrawn checks that an answer that has certainly not been sent can be taken back.
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

// TestOfflineSync checks that a kept answer is sent without the page, where the browser notifies the service worker.
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

// network disconnects the page from the network, which the browser detects, or connects it again. The service worker
// stays connected and is not asked to send waiting answers.
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

// conditions are the parameters of Network.emulateNetworkConditionsByRule. In Chromium 148, offline is beside the
// rules; in later versions, it is in each rule.
type conditions struct {
	Offline bool                  `json:"offline"`
	Matched []*network.Conditions `json:"matchedNetworkConditions"`
}

var emulateNetwork = cdp.Command[conditions,
	network.EmulateNetworkConditionsByRuleResult]{Method: network.CommandEmulateNetworkConditionsByRule}
