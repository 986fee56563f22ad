package phone_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestAlertsGrouped checks that alerts of one agent and one kind share a card, whose older alerts are collapsed after
// they were read, and that the number on the tab counts unread alerts.
func TestAlertsGrouped(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	for _, s := range []said{
		{"message": "One", "alertType": "error"}, {"message": "Two", "alertType": "warning"}, {"message": "Three", "alertType": "error"},
		{"from": "tester", "message": "Four", "alertType": "error"},
	} {
		m.alert(d, true, s)
	}
	tb.refreshed()
	tb.until(`document.getElementById("unread").innerText === "4"`)
	tb.press("Alerts")
	tb.until(`document.querySelectorAll(".new").length === 4 && document.getElementById("unread").innerText === ""`)
	cards := eval[[]string](tb, `[...document.querySelectorAll(".card.alerts")].map((c) => [c.querySelector("h2").innerText, c.querySelector(".from").innerText,
		...[...c.querySelectorAll(".message")].map((p) => p.innerText)].join(" ")).sort()`)
	if want := []string{"Error builder Three One", "Error tester Four", "Warning builder Two"}; js(cards) != js(want) {
		t.Errorf("the cards are %q; want %q", cards, want)
	}
	tb.press("Questions")
	tb.shows("No open questions.")
	tb.press("Alerts")
	tb.shows("Three")
	tb.hides("One")
	tb.hides("New")
	tb.press("1 earlier")
	tb.until(`[...document.querySelectorAll(".message")].find((p) => p.innerText === "One").checkVisibility()`)
	m.alert(d, true, said{"message": "Five", "alertType": "error"})
	tb.sees("Five")
	tb.until(`document.querySelectorAll(".new").length === 1`)
}

// TestAlertsDismissed checks that a dismissed alert disappears from the alerts permanently and stays in the history.
func TestAlertsDismissed(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	m.alert(d, true, said{"message": "Full", "alertType": "error"})
	m.alert(d, true, said{"message": "Fuller", "alertType": "error"})
	m.alert(d, true, said{"message": "Done", "alertType": "success"})
	tb.press("Alerts")
	tb.sees("Done")
	tb.press("Dismiss all 2")
	tb.until(`!document.body.innerText.includes("Full")`)
	tb.refreshed()
	tb.hides("Full")
	tb.do(chromedp.Reload())
	tb.shows("Done")
	tb.hides("Full")
	tb.press("Dismiss")
	tb.shows("No alerts.")
	tb.press("History")
	tb.shows("Fuller")
	tb.shows("Done")
}

// TestAlertRead checks that reading an alert in the app removes its notification.
func TestAlertRead(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	tb, d := m.pair()
	w := tb.worker()
	id := m.alert(d, true, said{"message": "The disk is full", "alertType": "error"})
	w.push(m.pushed(id))
	w.shown(`list.length === 1`)
	w.button(id, "")
	tb.until(`document.activeElement.id === %s`, js(id))
	w.gone(id)
	tb.until(`document.getElementById("unread").innerText === ""`)
}

// TestWarningIsNoLabel checks that a warning alert is tinted, but its labels are not.
func TestWarningIsNoLabel(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	m.alert(d, false, said{"message": "91% full", "alertType": "warning", "priority": "high"})
	m.alert(d, false, said{"message": "Deployed", "alertType": "info", "priority": "high"})
	tb.press("Alerts")
	tb.sees("91% full")
	tb.sees("Deployed")
	const look = `((type) => { const card = document.querySelector(".alerts." + type), style = getComputedStyle(card);
		return [style.backgroundColor, getComputedStyle(card.querySelector("h2")).color, getComputedStyle(card.querySelector(".labels span")).color]; })(%s)`
	warning, info := eval[[]string](tb, look, js("warning")), eval[[]string](tb, look, js("info"))
	if warning[0] == info[0] || warning[1] == info[1] {
		t.Errorf("a warning looks like any alert: %q", warning)
	}
	if warning[2] != info[2] || warning[2] == warning[1] {
		t.Errorf("a label is %s on a warning, whose word is %s, and %s elsewhere", warning[2], warning[1], info[2])
	}
}
