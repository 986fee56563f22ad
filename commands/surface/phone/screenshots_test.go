package phone_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"mailroom/commands/surface/phone/browsertest"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

var screenshots = flag.Bool("screenshots", false, "write the pictures of the app to docs/phone")

// TestScreenshots takes the pictures of docs/phone on request (make screenshots).
func TestScreenshots(t *testing.T) {
	if !*screenshots {
		t.Skip("the pictures are taken with -screenshots")
	}
	m := newMachine(t)
	code, _, err := questions.StartPairing(t.Context(), m.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	tb := m.open("/pair#c=" + code)
	tb.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateScale(1.5)))
	tb.fill("Name of this device", "My phone")
	tb.press("Pair this device")
	tb.sees("Approve this device")
	tb.picture("pairing")
	d := m.device()
	if d, err = person.Approve(t.Context(), m.Engine.Ledger, d.Fingerprint); err != nil {
		t.Fatal(err)
	}
	tb.sees("No open questions.")
	tb.press("Not now")
	// One after the other: the app sorts them by the millisecond.
	tb.halt()
	eval[chromedp.Void](tb, `pass(60000)`)
	m.ask(d, false, said{"from": "release-bot", "question": "Which name should the release have?"})
	tb.sees("Which name")
	m.ask(d, true, said{
		"from": "builder", "priority": "high",
		"question": "The refactoring changes how tokens are signed, which breaks the existing ones. Proceed?",
		"options":  []string{"Yes, proceed", "Let me review first", "Reject the change"},
		"context":  "Task abc123: the current signature has a known weakness.",
	})
	tb.sees("The refactoring")
	tb.picture("questions")
	tb.press("Reject the change")
	tb.shows("Your answer: Reject the change")
	tb.picture("undo")
	tb.press("Undo")
	tb.press("Alerts")
	m.alert(d, true, said{"from": "reviewer", "alertType": "info", "message": "Two reviews are waiting for the night run."})
	tb.sees("Two reviews")
	m.alert(d, true, said{"from": "builder", "alertType": "success", "message": "Deployed to staging: 3 services, no errors."})
	tb.sees("Deployed to staging")
	m.alert(d, false, said{"from": "watchdog", "alertType": "warning", "message": "The disk of the build machine is 91% full."})
	tb.sees("The disk")
	m.alert(d, true, said{"from": "builder", "alertType": "error", "message": "Step 4 of 9 took too long and was stopped."})
	tb.sees("Step 4 of 9")
	m.alert(d, true, said{"from": "builder", "alertType": "error", "priority": "high", "message": "The migration stopped at step 4 of 9.",
		"context": "Nothing was lost; it can go on from there."})
	tb.sees("The migration stopped")
	tb.press("Questions")
	tb.shows("Which name")
	tb.press("Alerts")
	tb.shows("1 earlier")
	tb.picture("alerts")
}

// still makes a page replace the texts that differ from run to run, fingerprints and times, now and after every
// change. The observer replaces a text before it is drawn.
const still = `(() => {
	const still = () => {
		const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		for (let text; (text = texts.nextNode()); ) {
			let same = text.data.replace(/\b\w{4}(-\w{4}){3}\b/, "ABCD-EFGH-JKMN-PQRS").replace(/(\w+ \d+, )?\d\d:\d\d\s[AP]M/, "03:20 PM").replace(/\d+ min left/, "59 min left");
			if (text.parentNode.className === "project" && same) same = "shop";
			if (text.data !== same) text.data = same;
		}
	};
	new MutationObserver(still).observe(document, { subtree: true, childList: true, characterData: true });
	still();
})()`

// picture takes a picture in light and one in dark. It does not write a picture that looks like the existing one.
func (tb *tab) picture(name string) {
	tb.t.Helper()
	folder := filepath.Join("..", "..", "..", "docs", "phone")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		tb.t.Fatal(err)
	}
	eval[chromedp.Void](tb, still)
	for _, scheme := range []string{"light", "dark"} {
		tb.scheme(scheme)
		eval[chromedp.Void](tb, `(document.activeElement.blur(), scrollTo(0, 0))`)
		taken, err := chromedp.Run(tb.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			tb.t.Fatal(err)
		}
		file := filepath.Join(folder, name+"-"+scheme+".png")
		if err := browsertest.Keep(file, taken); err != nil {
			tb.t.Fatal(err)
		}
	}
	tb.scheme("light")
}
