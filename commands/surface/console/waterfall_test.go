package console_test

import (
	"fmt"
	"testing"
	"time"
)

// TestWaterfall checks that the waterfall shows what was waited for, collapses many similar attempts, and stays
// within its width, to scale and not to scale.
func TestWaterfall(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann")
	r.failing("bob")
	r.Step(-5 * time.Hour)
	r.send("ann", "bob", "task", `"build it"`)
	r.deliver()
	r.sql(`UPDATE agent_message SET max_retries = 99 WHERE status = 'retry'`)
	for range 45 {
		r.Step(130 * time.Second)
		r.deliver()
	}
	for _, width := range []int64{1440, 390} {
		d := r.opens(width, width == 390, "/messages?status=live")
		d.Until(`document.querySelector("tr.is-retry")`)
		d.Key("j", "Enter")
		d.Until(`document.querySelector("main h1")?.textContent === "Failed 46 times, waiting for a retry"`)
		d.Reads("Due, but not attempted yet")
		d.Reads("Waited 2 min to retry")
		d.Reads("46 identical")
		for _, what := range []string{"to scale", "shorten waits", "Show 44 similar attempts"} {
			if width == 390 && what == "Show 44 similar attempts" {
				continue
			}
			if what == "Show 44 similar attempts" {
				d.Until(`[...document.querySelectorAll(".wf button")].some((b) => /^Show .* similar attempts/.test(b.textContent))`)
				d.Eval(`document.querySelector(".wf button").click()`, nil)
				d.Until(`document.querySelectorAll(".wf .lab .state.failed").length === 46`)
			} else {
				d.Click(what)
			}
			var outside string
			d.Eval(`[...document.querySelectorAll(".wf rect, .spent rect")].map((r) => [parseFloat(r.getAttribute("x") ?? 0), parseFloat(r.getAttribute("width"))])
				.filter(([x, w]) => !(x >= 0 && w > 0 && x + w <= 101)).join("; ")`, &outside)
			if n := d.tooWide(); outside != "" || n > 0 {
				t.Errorf("%s, %d wide: bars at %s, %d too wide", what, width, outside, n)
			}
		}
		d.Until(fmt.Sprintf(`document.querySelector(".spent h2").textContent.includes("so far") && innerWidth === %d`,
			width))
	}
}
