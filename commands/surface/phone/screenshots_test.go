package phone_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

var screenshots = flag.Bool("screenshots", false, "write the pictures of the app to docs/phone")

// TestScreenshots takes the pictures of docs/phone, when it is asked to (make screenshots).
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
	at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339) }
	m.ask(d, false, said{"from": "release-bot", "question": "Which name should the release have?", "createdAt": at(8 * time.Minute)})
	m.ask(d, true, said{
		"from": "builder", "priority": "high", "createdAt": at(time.Minute),
		"question": "The refactoring changes how tokens are signed, which breaks the existing ones. Proceed?",
		"options":  []string{"Yes, proceed", "No, keep them", "Let me review first"},
		"context":  "Task abc123: the current signature has a known weakness.",
	})
	tb.sees("Which name should the release have?")
	tb.picture("questions")
	m.alert(d, true, said{"from": "reviewer", "alertType": "info", "message": "Two reviews are waiting for the night run."})
	m.alert(d, true, said{"from": "builder", "alertType": "success", "message": "Deployed to staging: 3 services, no errors."})
	m.alert(d, false, said{"from": "watchdog", "alertType": "warning", "message": "The disk of the build machine is 91% full."})
	m.alert(d, true, said{"from": "builder", "alertType": "error", "priority": "high", "message": "The migration stopped at step 4 of 9.",
		"context": "Nothing was lost; it can go on from there."})
	tb.press("Alerts")
	tb.sees("The migration stopped")
	tb.picture("alerts")
}

// picture takes one in light and one in dark.
func (tb *tab) picture(name string) {
	tb.t.Helper()
	folder := filepath.Join("..", "..", "..", "docs", "phone")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		tb.t.Fatal(err)
	}
	for _, scheme := range []string{"light", "dark"} {
		tb.scheme(scheme)
		eval[chromedp.Void](tb, `(document.activeElement.blur(), scrollTo(0, 0))`)
		taken, err := chromedp.Run(tb.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			tb.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name+"-"+scheme+".png"), taken, 0o644); err != nil {
			tb.t.Fatal(err)
		}
	}
	tb.scheme("light")
}
