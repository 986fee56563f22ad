package phone_test

import (
	"encoding/base64"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// TestSubscribe checks that the page subscribes with the daemon's key only when the button is pressed, that the
// daemon then has the subscription, and that the daemon removes it when pushes are turned off.
func TestSubscribe(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, _ := m.pair()
	tb.controlled()
	tb.permit("granted")
	key, err := questions.VAPIDPublicKey(t.Context(), m.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	tb.subscribable()
	if d := m.device(); d.PushHost != "" {
		t.Errorf("subscribed to %s before anybody asked", d.PushHost)
	}
	tb.press("Settings")
	tb.press("Turn on notifications")
	tb.shows("This device shows a notification for each")
	raw, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	if got := eval[string](tb, `subscribedWith`); got != base64.StdEncoding.EncodeToString(raw)+" true" {
		t.Errorf("subscribed with %s", got)
	}
	if d := m.device(); d.PushHost != "fcm.googleapis.com" {
		t.Errorf("the device is %+v", d)
	}
	tb.press("Turn off notifications")
	tb.shows("Turn on notifications")
	if d := m.device(); d.PushHost != "" {
		t.Errorf("still subscribed to %s", d.PushHost)
	}
}

// subscribable replaces the browser's own push service, which requires a network. The page counts its subscriptions.
func (tb *tab) subscribable() {
	tb.t.Helper()
	point := "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
	eval[chromedp.Void](tb, `(() => {
		let subscription = null;
		window.subscribed = 0;
		PushManager.prototype.getSubscription = async () => subscription;
		PushManager.prototype.subscribe = async ({ applicationServerKey, userVisibleOnly }) => {
			window.subscribedWith = btoa(String.fromCharCode(...applicationServerKey)) + " " + userVisibleOnly;
			if (subscription) throw new Error("still subscribed");
			subscribed++;
			return (subscription = {
				options: { applicationServerKey }, unsubscribe: async () => { subscription = null; },
				toJSON: () => ({ endpoint: "https://fcm.googleapis.com/fcm/send/x" + subscribed, expirationTime: null, keys: { p256dh: %s, auth: "BTBZMqHH6r4Tts7J_aSIgg" } }),
			});
		};
	})()`, js(point))
}

// TestDenied checks that a user who denied notifications is told what that means and where to change it, and is not
// asked again.
func TestDenied(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, _ := m.pair()
	tb.permit("denied")
	tb.do(chromedp.Reload())
	tb.shows("Notifications are blocked for this site.")
	tb.hides("Turn on notifications")
	tb.press("Not now")
	tb.until(`!document.querySelector("main").innerText.includes("blocked")`)
	tb.press("Settings")
	tb.shows("Notifications are blocked for this site.")
}

// TestApple checks that the page on an iPhone tells the user to install the app first and keeps showing the code:
// pushes work only for installed apps, which share no data with the browser.
func TestApple(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	code, _, err := questions.StartPairing(t.Context(), m.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	tb := m.open("/")
	tb.command(chromedp.Call(tb.ctx, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{
		UserAgent: "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
	}))
	tb.command(chromedp.Call(tb.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `delete window.PushManager`}))
	tb.do(chromedp.Navigate(m.listen.Address + "/pair#c=" + code))
	tb.shows("install the app first: tap Share, then Add to Home Screen")
	tb.shows("Type this code into the app: " + code)
	tb.press("Pair this device")
	tb.sees("Approve this device")
	d := m.device()
	if d.Name != "iPhone" {
		t.Errorf("the device is called %q", d.Name)
	}
	if _, err := person.Approve(t.Context(), m.Engine.Ledger, d.Fingerprint); err != nil {
		t.Fatal(err)
	}
	tb.sees("This device shows notifications only for installed apps.")
	tb.hides("Turn on notifications")
}
