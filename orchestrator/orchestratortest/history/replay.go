package history

import (
	"fmt"
	"strings"
	"time"
)

// Phrases in the texts of some events. The texts begin with them, contain them (cannotTell, refuses, asks) or end
// with them (foundLater). Source: package orchestrator.
const (
	ranOut     = "the lease of "
	givenBack  = "given back"
	lateResult = "late result ignored"
	unread     = "the answer could not be written"
	handedBack = "handed back"
	unwritten  = "ended before its answer was written; unread again"
	byFallback = "by the fallback "
	cannotTell = "cannot tell whether"
	foundLater = "an earlier attempt had delivered it"
	putOff     = "put off until "
	refuses    = "the recipient rejected the message"
	asks       = "; the recipient asked for no further attempt within "
	tookLonger = "the attempt took longer than "
	manyDied   = "the delivering process died "
)

// state is the state of a message according to its trace.
type state struct {
	begun                                            bool
	place                                            string // "", agent_message, agent_message_archive, gone
	status, lease                                    string
	createdAt, deliveredAt, endedAt, readAt, ackedAt string
	retries, crashes                                 int
}

// attempt returns the number of the attempt that would be made now.
func (s *state) attempt() int {
	switch s.status {
	case "pending":
		return 1
	case "retry":
		return s.retries + 2
	}
	return 0
}

// isNote reports whether an attempt_failed event comes with another event that contains the outcome of the message:
// the message failed, or the fallback delivered it.
func (t *traced) isNote(next *traced) bool {
	return t.from == t.to && next != nil && next.at == t.at &&
		(next.event == "failed" || next.event == "delivered" && strings.HasPrefix(next.err, byFallback))
}

// apply applies one event. next is the next event of the same message, or nil. wrong describes a contradiction.
func (s *state) apply(t, next *traced) (wrong string) {
	switch t.event {
	case "created", "adopted":
		return s.begin(t)
	}
	switch {
	case !s.begun:
		return "nothing tells of its beginning"
	case s.place == "gone":
		return "it was deleted before"
	case t.from != s.status:
		return fmt.Sprintf("it begins at %s, and the message was %s", t.from, s.status)
	}
	ends := false
	switch t.event {
	case "attempt_failed", "delivered", "failed", "claimed":
		if t.attempt != s.attempt() {
			wrong = fmt.Sprintf("it is of attempt %d, and attempt %d was due", t.attempt, s.attempt())
		}
	}
	switch t.event {
	case "claimed":
		s.lease = t.actor
	case "released":
		s.release(t)
	case "attempt_failed":
		if ends = !t.isNote(next); ends && t.to != "retry" {
			wrong = fmt.Sprintf("it goes to %s", t.to)
		}
	case "delivered":
		ends = true
		s.deliveredAt, s.endedAt = t.at, t.at
	case "failed", "expired", "cancelled":
		ends = true
		s.endedAt = t.at
	case "replayed":
		ends = true
		s.deliveredAt, s.endedAt, s.readAt, s.crashes = "", "", "", 0
	case "read":
		s.readAt = t.at
	case "acknowledged":
		s.ackedAt = t.at
	case "archived":
		s.place = "agent_message_archive"
	case "deleted":
		s.place = "gone"
	case "overdue", "held", "shown":
	default:
		wrong = "nobody knows this event"
	}
	if ends {
		s.end(t)
	}
	return wrong
}

// begin applies the first event or an adoption.
func (s *state) begin(t *traced) (wrong string) {
	if s.begun {
		return "it had begun before"
	}
	*s = state{begun: true, place: "agent_message", status: t.to, createdAt: t.at}
	if t.to == "failed" {
		s.endedAt = t.at
	}
	return ""
}

// end applies a change of status, which ends a lease.
func (s *state) end(t *traced) {
	switch {
	case t.event == "replayed":
		s.retries = 0
	case s.status == "retry" && (t.event == "attempt_failed" || t.event == "delivered" || t.event == "failed"):
		s.retries++
	}
	s.status, s.lease = t.to, ""
}

func (s *state) release(t *traced) {
	switch {
	case strings.HasPrefix(t.err, ranOut):
		s.lease = ""
		s.crashes++
	case strings.HasPrefix(t.err, givenBack), strings.HasPrefix(t.err, putOff):
		s.lease = ""
	case strings.HasPrefix(t.err, unread), strings.HasPrefix(t.err, handedBack):
		s.readAt = ""
	}
}

// replay replays the trace of every message. It compares each step with the witness's record, and the final state
// with the table.
func (c *checker) replay() {
	c.whole()
	for _, id := range c.ids {
		m := c.messages[id]
		changes := m.changes
		var s state
		for i, t := range m.trace {
			var next *traced
			if i+1 < len(m.trace) {
				next = m.trace[i+1]
			}
			changes = c.compareChanges(m, &s, changes, t.id)
			if wrong := s.apply(t, next); wrong != "" {
				c.violated("trace", "%s: message_trace row %d (%s): %s", id, t.id, t.event, wrong)
			}
			c.remember(m, t, next)
		}
		c.compareChanges(m, &s, changes, 1<<62)
		m.final = s
		c.compareTable(m)
	}
	c.counted("trace", len(c.trace))
	c.counted("state", len(c.changes)+len(c.ids))
}

// remember records facts for other checks.
func (c *checker) remember(m *message, t, next *traced) {
	switch {
	case t.event == "attempt_failed":
		c.result.Climbed++
		if m.failedFirst == 0 && !t.isNote(next) {
			m.failedFirst = t.id
		}
	case t.event == "delivered":
		m.delivered = append(m.delivered, t)
		if strings.HasSuffix(t.err, foundLater) {
			c.result.Found++
		}
	case t.event == "released" && strings.HasPrefix(t.err, ranOut):
		c.result.Crashed++
	case t.event == "released" && strings.HasPrefix(t.err, lateResult):
		c.result.Late++
	}
}

// whole checks the trace as a list: no single rows are missing, and times never go backward.
func (c *checker) whole() {
	if onServer(c.Database) {
		c.wholeOnServer()
		return
	}
	for i, t := range c.trace {
		if i == 0 {
			continue
		}
		before := c.trace[i-1]
		if t.id != before.id+1 {
			c.violated("trace", "message_trace rows %d to %d are missing, before one of %s", before.id+1, t.id-1,
				t.message)
		}
		if t.at < before.at {
			c.violated("trace", "message_trace row %d of %s is of %s, earlier than the row before it", t.id, t.message,
				t.at)
		}
	}
}

// askew is the maximum by which the times of one message may go backward on a server. Each transaction reads the
// clock at its beginning, and other transactions may commit before it reads their changes.
const askew = 5 * time.Second

// wholeOnServer checks the trace of a database in which processes write at the same time: the times of one message go
// backward by at most askew, and the witness saw no row change or disappear.
func (c *checker) wholeOnServer() {
	for _, w := range c.changes {
		if w.change == "untrace" {
			c.violated("trace", "message_trace row %d, of %s, was changed or deleted", w.traced, w.message)
		}
	}
	for _, id := range c.ids {
		var before time.Time
		for _, t := range c.messages[id].trace {
			at, err := time.Parse(layout, t.at)
			if err != nil || at.Before(before.Add(-askew)) {
				c.violated("trace", "message_trace row %d of %s is of %s, earlier than the row before it", t.id,
					t.message, t.at)
			}
			before = at
		}
	}
}

// compareChanges compares the state before trace row upTo with the witness's changes up to that row, and returns the
// remaining changes. The insertion of a row comes before its trace, and every other change comes after its trace.
func (c *checker) compareChanges(m *message, s *state, changes []*change, upTo int64) []*change {
	for len(changes) > 0 && changes[0].traced < upTo {
		w := changes[0]
		changes = changes[1:]
		switch w.change {
		case "delete":
			if s.place == "agent_message" || s.place == "" {
				c.violated("state", "%s left agent_message, and the trace up to row %d does not tell of it", m.id,
					w.traced)
			}
		case "update":
			got := fmt.Sprintf("%s, %d retries, %d crashes, leased by %q", w.status, w.retries, w.crashes, w.owner)
			want := fmt.Sprintf("%s, %d retries, %d crashes, leased by %q", s.status, s.retries, s.crashes, s.lease)
			if got != want {
				c.violated("state", "%s became %s, and the trace up to row %d says %s", m.id, got, w.traced, want)
			}
		}
	}
	return changes
}

// compareTable compares the final state according to the trace with the row in the table.
func (c *checker) compareTable(m *message) {
	s := &m.final
	tables := make([]string, len(m.rows))
	for i, r := range m.rows {
		tables[i] = r.table
	}
	switch {
	case len(m.rows) == 0 && s.place == "gone":
		if s.status != "failed" && s.status != "expired" && s.status != "cancelled" {
			c.violated("state", "%s was deleted while it was %s", m.id, s.status)
		}
		return
	case len(m.rows) == 0:
		c.violated("state", "%s is lost: the trace ends with it %s in %s, and it is nowhere", m.id, s.status, s.place)
		return
	case len(m.rows) > 1:
		c.violated("state", "%s stands in %s", m.id, strings.Join(tables, " and "))
		return
	case s.place != tables[0]:
		c.violated("state", "%s stands in %s, and the trace says %q", m.id, tables[0], s.place)
		return
	}
	r := m.rows[0]
	for _, v := range []struct{ what, got, want string }{
		{"status", r.status, s.status},
		{"retry_count", fmt.Sprint(r.retries), fmt.Sprint(s.retries)},
		{"crashes", fmt.Sprint(r.crashes), fmt.Sprint(s.crashes)},
		{"lease_owner", r.leaseOwner, s.lease},
		{"created_at", r.createdAt, s.createdAt},
		{"delivered_at", r.deliveredAt, s.deliveredAt},
		{"ended_at", r.endedAt, s.endedAt},
		{"read_at", r.readAt, s.readAt},
		{"acknowledged_at", r.acknowledgedAt, s.ackedAt},
	} {
		if v.got != v.want {
			c.violated("state", "%s: %s is %q, and its trace ends with %q", m.id, v.what, v.got, v.want)
		}
	}
}
