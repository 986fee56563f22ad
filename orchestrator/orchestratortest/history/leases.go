package history

import (
	"slices"
	"strings"
	"time"
)

// layout is the format of stored times. Source: schema.sql.
const layout = "2006-01-02T15:04:05.000Z"

// pair is a sender and a recipient.
type pair struct{ sender, recipient string }

// leases replays the leases, first from the witness's record and then from the trace, and checks that none overlap.
func (c *checker) leases() {
	held := map[string]string{}           // message to token
	pairs := map[pair]map[string]string{} // the leased messages of each pair, with their tokens
	for _, w := range c.changes {
		if w.change != "update" && w.change != "delete" {
			continue
		}
		m := c.messages[w.message]
		p := pair{m.sender, m.recipient}
		before := held[m.id]
		if w.token == before {
			continue
		}
		if before != "" && w.token != "" {
			c.violated("leases", "%s was leased as %s while %s held it (witness row %d)", m.id, w.token, before, w.id)
		}
		if delete(pairs[p], m.id); w.token == "" {
			delete(held, m.id)
			continue
		}
		c.counted("leases", 1)
		held[m.id] = w.token
		for other, token := range pairs[p] {
			if token != w.token {
				c.violated("leases",
					"%s was leased while %s, also from %s to %s, was under another lease (witness row %d)",
					m.id, other, m.sender, m.recipient, w.id)
			}
		}
		if pairs[p] == nil {
			pairs[p] = map[string]string{}
		}
		pairs[p][m.id] = w.token
	}
	for id, token := range held {
		c.violated("leases", "%s is still leased as %s", id, token)
	}
	c.tracedLeases()
}

// tracedLeases searches the trace alone for overlapping leases. The rows of one claim are consecutive, except on a
// server, where other processes may write at the same time.
func (c *checker) tracedLeases() {
	live := map[pair]map[string]int64{} // the leased messages of each pair, with the first row of their claim
	claims := map[string]int64{}
	var claim int64
	var before *traced
	for _, t := range c.trace {
		m := c.messages[t.message]
		p := pair{m.sender, m.recipient}
		if t.event == "claimed" {
			if before == nil || before.event != "claimed" || before.actor != t.actor || before.at != t.at ||
				before.id != t.id-1 {
				claim = t.id
			}
			if onServer(c.Database) {
				of := t.actor + " at " + t.at
				if claims[of] == 0 {
					claims[of] = t.id
				}
				claim = claims[of]
			}
			for other, of := range live[p] {
				if of != claim {
					c.violated("leases",
						"message_trace row %d claims %s while %s, also from %s to %s, was under another lease",
						t.id, m.id, other, m.sender, m.recipient)
				}
			}
			if live[p] == nil {
				live[p] = map[string]int64{}
			}
			live[p][m.id] = claim
		} else if endsLease(t) {
			delete(live[p], m.id)
		}
		before = t
	}
}

func endsLease(t *traced) bool {
	switch t.event {
	case "delivered", "failed", "expired", "cancelled", "attempt_failed":
		return true
	case "released":
		return strings.HasPrefix(t.err, ranOut) || strings.HasPrefix(t.err, givenBack) ||
			strings.HasPrefix(t.err, putOff)
	}
	return false
}

// ladder checks the delays between attempts, and that no message failed before its last attempt.
func (c *checker) ladder() {
	for _, id := range c.ids {
		m := c.messages[id]
		want := "" // when the next attempt is due
		times := 0 // the number of postponements
		for i, t := range m.trace {
			var next *traced
			if i+1 < len(m.trace) {
				next = m.trace[i+1]
			}
			switch t.event {
			case "claimed", "delivered", "attempt_failed":
				if want != "" && t.at < want {
					c.violated("ladder", "%s: attempt %d came at %s (message_trace row %d); it was due at %s", id,
						t.attempt, t.at, t.id, want)
				}
			case "failed":
				c.lastAttempt(m, t)
			case "replayed":
				want = ""
			case "released":
				if strings.HasPrefix(t.err, putOff) {
					c.counted("ladder", 1)
					want = c.later(m, t, times)
					times++
				}
			}
			if t.event == "attempt_failed" && !t.isNote(next) {
				c.counted("ladder", 1)
				want = c.rung(m, t, m.planned(t, next))
			}
		}
	}
}

// planned returns the change in which the witness saw the failure in trace row t, or nil if there is none. next is
// the next row of the message's trace, or nil.
func (m *message) planned(t, next *traced) *change {
	for _, w := range m.changes {
		if w.change == "update" && w.status == "retry" && w.traced >= t.id && (next == nil || w.traced < next.id) {
			return w
		}
	}
	return nil
}

// rung checks when the attempt after a failure was due, and returns the time at which it must be due.
func (c *checker) rung(m *message, t *traced, w *change) string {
	at, err := time.Parse(layout, t.at)
	if err != nil {
		c.violated("ladder", "%s: message_trace row %d has the time %q", m.id, t.id, t.at)
		return ""
	}
	if t.attempt > c.retries {
		c.violated("ladder",
			"%s: attempt %d failed (message_trace row %d) and there was to be another; %d retries are allowed",
			m.id, t.attempt, t.id, c.retries)
	}
	rung := c.rungs[min(max(t.attempt, 1)-1, len(c.rungs)-1)]
	if strings.Contains(t.err, asks) {
		rung = slices.Max(c.rungs) // the recipient asks for a delay longer than this one
	}
	want := at.Add(rung).Format(layout)
	switch {
	case w == nil:
		c.violated("ladder", "%s: message_trace row %d tells of a failed attempt, and the row did not change", m.id,
			t.id)
	case w.next != want:
		c.violated("ladder",
			"%s: after attempt %d failed at %s the next was due at %s, not at %s, its rung of %s later (message_trace row %d)",
			m.id, t.attempt, t.at, w.next, want, rung, t.id)
	}
	return want
}

// later checks the due time of a message that its recipient postponed, and returns the time at which it must be due.
// The delays are those of the retry schedule, and the last delay repeats.
func (c *checker) later(m *message, t *traced, times int) string {
	at, err := time.Parse(layout, t.at)
	if err != nil {
		c.violated("ladder", "%s: message_trace row %d has the time %q", m.id, t.id, t.at)
		return ""
	}
	want := at.Add(c.rungs[min(times, len(c.rungs)-1)]).Format(layout)
	if !strings.HasPrefix(t.err, putOff+want) {
		c.violated("ladder", "%s was put off at %s for the %d. time (message_trace row %d), until %s; it says: %s",
			m.id, t.at, times+1, t.id, want, t.err)
	}
	return want
}

// lastAttempt checks that no message was given up before its last attempt, unless the recipient refused it or its
// arrival is undecidable.
func (c *checker) lastAttempt(m *message, t *traced) {
	if t.attempt != c.retries+1 && !strings.Contains(t.err, cannotTell) && !strings.Contains(t.err, refuses) {
		c.violated("ladder", "%s was given up after attempt %d of %d (message_trace row %d): %s", m.id, t.attempt,
			c.retries+1, t.id, t.err)
	}
}
