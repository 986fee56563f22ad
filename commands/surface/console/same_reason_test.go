package console_test

import (
	"fmt"
	"testing"
	"time"
)

// TestReplayForTheSameReason checks that messages that failed for the same reason can be found from Now, from one of
// the messages and from the agent's page, and replayed together, and that others are not replayed.
func TestReplayForTheSameReason(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "architect", "builder", "tester")
	locked := func(process int) string {
		return fmt.Sprintf("exit status 1: cannot lock .build/lock, held by process %d %s", process, oddText)
	}
	a, b := r.givesUp("architect", "builder", locked(4411)), r.givesUp("tester", "builder", locked(90210))
	other := r.givesUp("architect", "builder", "exit status 2: no such file")

	d := r.opens(1440, false, "/")
	d.Click("See all 2")
	d.Until(`location.pathname === "/operations/dead-letters" && document.querySelector("main h1")?.textContent === "Two messages to builder failed for the same reason"`)
	d.Until(`document.querySelectorAll(".letters li").length === 2 && document.querySelectorAll(".rows > .row").length === 1`)
	d.Reads(oddText)
	d.pictured("same-reason")
	d.Click("All dead letters")
	d.Reads("Three dead letters")
	d.Eval(`history.back()`, nil)
	d.Open(r.Address + "/messages/" + a)
	d.Reads("1 more message to builder failed for the same reason. See all 2")
	d.pictured("message-same-reason")
	d.Click("Replay all 2…")
	d.Reads("This sends 2 messages to builder again.")
	d.Click("Replay 2")
	d.Until(`document.querySelector("main h1").textContent === "Waiting for delivery" && !document.querySelector("dialog")`)
	if got := fmt.Sprint(r.statuses(a, b, other)); got != "[pending pending failed]" {
		t.Errorf("after a replay for the same reason they are %s", got)
	}
	d.Open(r.Address + "/messages/" + other)
	d.Until(`document.querySelector(".head dd")?.textContent.trim() && document.querySelector(".side h3")`)
	var says string
	if d.Eval(`document.querySelector(".head").innerText.match(/same reason|Replay all/)?.[0] ?? ""`,
		&says); says != "" {
		t.Errorf("of one that failed alone the page says %q", says)
	}
	d.Open(r.Address + "/agents/builder")
	d.Reads("1 message failed for good. The last error was “exit status 2: no such file”. See the message")
	d.Click("Replay 1…")
	d.Click("Replay 1")
	d.Reads("1 message replayed. See the messages")
	d.Until(`![...document.querySelectorAll(".head button")].some((b) => b.textContent.startsWith("Replay"))`)
	if got := fmt.Sprint(r.statuses(other)); got != "[pending]" {
		t.Errorf("after a replay of all of builder's it is %s", got)
	}
	d.Open(r.Address + "/operations/dead-letters?to=builder")
	d.Reads("None of these dead letters is left")
	for _, width := range []int64{360, 1440} {
		r.givesUp("architect", "builder", locked(1234))
		d := r.opens(width, true, "/operations/dead-letters?to=builder")
		d.Until(`document.querySelector(".letters li")`)
		if n := d.tooWide(); n > 0 {
			t.Errorf("the dead letters of an agent are %d pixels too wide for %d", n, width)
		}
		d.accessible(t, "the dead letters of an agent")
	}
}

// TestMessagesOverTime checks the plot of messages over time above their list, and that a time can be chosen with the
// pointer or with keys.
func TestMessagesOverTime(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	r.Step(-12 * time.Hour)
	for i := range 6 {
		r.send("ann", "bob", "note", fmt.Sprintf(`"number %d"`, i))
		r.Step(2 * time.Hour)
	}
	const slider = `document.querySelector(".over-time")`
	d := r.opens(1440, false, "/messages")
	d.Until(slider + ` && document.querySelectorAll(".over-time rect").length === 6`)
	d.Until(rows + `.split("|").length === 6`)
	d.Eval(slider+`.focus()`, nil)
	d.Key("End")
	for d.Key("ArrowLeft"); ; d.Key("ArrowLeft") {
		var says string
		if d.Eval(slider+`.getAttribute("aria-valuetext")`, &says); len(says) > 6 && says[len(says)-6:] == "1 sent" {
			break
		}
	}
	d.pictured("over-time")
	d.Key("Enter")
	d.Until(rows + ` === "number 5" && /^.since=.*&until=/.test(location.search) && document.querySelectorAll(".chip").length === 2`)
	d.Eval(`history.back()`, nil)
	d.Until(rows + `.split("|").length === 6 && ` + slider)
	d.Eval(`(async () => {
		const field = document.querySelector(".over-time"), { left, width, top } = field.getBoundingClientRect();
		field.setPointerCapture = () => {};
		for (const [type, x] of [["pointerdown", 0.01], ["pointermove", 0.6], ["pointerup", 0.6]]) {
			field.dispatchEvent(new PointerEvent(type, { clientX: left + x * width, clientY: top + 5, pointerId: 1, button: 0, bubbles: true }));
			await new Promise((f) => requestAnimationFrame(f));
		}
	})()`, nil)
	d.Until(`location.search.includes("since=") && ` + rows + `.split("|").length < 6`)
	d.Open(r.Address + "/messages?to=bob&since=20h")
	d.Until(`document.querySelectorAll(".over-time rect").length === 6`)
	d.accessible(t, "messages over time")
	d.Open(r.Address + "/messages?from=ann")
	d.Until(rows + `.split("|").length === 6 && !` + slider)
}
