package console_test

import (
	"fmt"
	"testing"

	"mailroom/orchestrator/store/postgres"
)

// listed is a function that describes the table of messages. The messages are numbered, the newest is n; the rows
// must be consecutive, each at its place.
const listed = `(n) => {
	const rows = [...document.querySelectorAll(".stream tr[aria-rowindex]")], faults = [];
	const numbers = rows.map((row) => +row.querySelector(".c-says").textContent.slice(7)), places = rows.map((row) => +row.getAttribute("aria-rowindex"));
	for (const [i, number] of numbers.entries()) {
		if (i > 0 && number !== numbers[i - 1] - 1) faults.push(numbers[i - 1] + " is followed by " + number);
		if (places[i] + number !== n + 1) faults.push(number + " stands at " + places[i]);
	}
	const seen = (at) => +document.elementFromPoint(innerWidth / 2, at)?.closest("tr[aria-rowindex]")?.getAttribute("aria-rowindex");
	return { faults, last: places.at(-1) ?? 0, middle: seen(innerHeight / 2), nodes: document.querySelectorAll("main *").length };
}`

// scrolled is the result of scrolling through the table.
type scrolled struct {
	Nodes, Place int
	Faults       []string
}

// scrolls scrolls by a number of pixels per frame until the row in the middle of the window is beyond a place, and
// checks the table in each frame.
func (d *desk) scrolls(t *testing.T, n, by, until int) {
	t.Helper()
	var seen scrolled
	d.Eval(fmt.Sprintf(`(async (n, by, until) => {
		const listed = %s, frame = () => new Promise((f) => requestAnimationFrame(f)), seen = { Nodes: 0, Place: 0, Faults: [] };
		const beyond = (place) => (by > 0 ? place >= until : place <= until);
		while (seen.Faults.length < 3) {
			scrollBy(0, by);
			let now;
			do { // rows that are loaded leave a gap so long
				await frame();
				now = listed(n);
				seen.Faults.push(...now.faults);
				seen.Nodes = Math.max(seen.Nodes, now.nodes);
			} while (!now.middle);
			if (seen.Place && (by > 0 ? now.middle < seen.Place : now.middle > seen.Place)) seen.Faults.push("from " + seen.Place + " it went to " + now.middle);
			seen.Place = now.middle;
			if (beyond(now.middle) || (by > 0 && now.last >= until && scrollY + innerHeight >= document.documentElement.scrollHeight - 1) || (by < 0 && scrollY === 0 && now.middle < 50)) break;
		}
		return seen;
	})(%d, %d, %d)`, listed, n, by, until), &seen)
	if len(seen.Faults) > 0 || seen.Nodes > 3000 {
		t.Errorf("by %d to %d it came to %d, with %d nodes at most; %.20q", by, until, seen.Place, seen.Nodes,
			seen.Faults)
	}
}

// shows waits until a row is within the window.
func (d *desk) shows(n, place int) {
	d.Until(fmt.Sprintf(`(() => {
		const row = document.querySelector('.stream tr[aria-rowindex="%d"]'), at = row?.getBoundingClientRect();
		return at?.top < innerHeight && at.bottom > 0 && row.textContent.includes("number %d");
	})()`, place, n+1-place))
}

// TestMessagesScroll checks that long lists scroll to their end and back, with few rows on the page at any time, even
// if they are taller than a browser can draw.
func TestMessagesScroll(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	n, through := 1_000_000, 50_000                             // messages, and those to scroll through
	if testing.Short() || postgres.IsAddress(r.Router.Path()) { // a server takes minutes to insert a million
		n, through = 20_000, 20_000
	}
	r.sql(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, traced_status,
		created_at, delivered_at, ended_at, max_retries)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
		SELECT 'm' || i, 'ann', 'bob', 'note', '"number ' || i || '"', 'delivered', 'delivered',
			'2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', 3 FROM n`, n)
	d := r.opens(1440, false, "/messages")
	d.shows(n, 1)
	d.scrolls(t, n, 20_000, through)
	if through == n {
		d.Reads(fmt.Sprintf("%d,000 messages in total", n/1000))
	}
	for _, place := range []int{0, through / 2, through - 1, 3 * through / 4, 10, 0} {
		// of rows that were dropped meanwhile
		d.Eval(fmt.Sprintf(`scrollTo(0, document.querySelector(".stream tbody").getBoundingClientRect().top + scrollY + %d * document.querySelector(".stream tr[aria-rowindex]").getBoundingClientRect().height - 300)`, place), nil)
		d.shows(n, place+1)
	}

	// Simulate a million rows by their height.
	height := 36 * 1_000_000 / through
	d.Eval(fmt.Sprintf(`(() => {
		const tall = new CSSStyleSheet();
		tall.replaceSync(".stream tbody tr[aria-rowindex], .stream tbody tr[aria-rowindex] td { height: %dpx }");
		document.adoptedStyleSheets = [tall];
		dispatchEvent(new Event("resize"));
	})()`, height), nil)
	d.Until(`[...document.querySelectorAll(".gap svg")].some((svg) => svg.getAttribute("height") > 12e6)`)
	if d.Key("End"); through == n {
		d.shows(n, n)
	}
	d.Key("Home")
	d.shows(n, 1)
	d.scrolls(t, n, 400*height, through-10)
	d.scrolls(t, n, -400*height, 5)
}
