package history

import (
	"fmt"
	"strconv"
	"strings"
)

// arrived checks that each delivered message is at its destination exactly once.
func (c *checker) arrived() {
	inboxes := map[string]int{}
	for where, list := range c.arrivals {
		files := map[string]bool{}
		for _, a := range list {
			m := c.messages[a.id]
			if a.kind == "inbox" {
				inboxes[a.id]++
			} else if a.token != m.token && m.sender != system {
				c.violated("arrivals", "%s: number %d in %s has another content than what was sent", a.id, a.place,
					where)
			}
			if a.kind == "dir" && files[a.id] {
				c.violated("arrivals", "%s appeared a second time in %s", a.id, where)
			}
			files[a.id] = true
			c.result.Deliveries[a.kind]++
			c.counted("arrivals", 1)
			if a.recipient != m.recipient {
				c.violated("arrivals", "%s to %s stands in the %s, for %s", a.id, m.recipient, where, a.recipient)
			}
		}
	}
	for _, id := range c.ids {
		m := c.messages[id]
		stands, expected := inboxes[id]+len(m.lines), len(m.delivered)
		if c.diaries[m.recipient] != nil {
			expected = 0 // only the diary records these messages
		}
		switch {
		case stands == expected:
		case stands == expected+1 && undecidable(m):
		case stands > expected:
			c.violated("arrivals", "%s was delivered %d times and stands %d times: %d in an inbox, %d in files%s", id,
				len(m.delivered), stands, inboxes[id], len(m.lines), linesOf(m))
		default:
			c.violated("arrivals", "%s was delivered %d times and stands %d times", id, len(m.delivered), stands)
		}
		c.once(m)
	}
}

// once checks that no message was delivered again without having been replayed.
func (c *checker) once(m *message) {
	delivered := false
	for _, t := range m.trace {
		switch {
		case t.event == "replayed":
			delivered = false
		case t.event == "delivered" && delivered:
			c.violated("arrivals", "%s was delivered again (message_trace row %d) without having been replayed", m.id,
				t.id)
		case t.event == "delivered":
			delivered = true
		}
	}
}

// undecidable reports whether a message failed because the engine could not find out whether it had arrived.
func undecidable(m *message) bool {
	for _, t := range m.trace {
		if t.event == "failed" && strings.Contains(t.err, cannotTell) {
			return true
		}
	}
	return false
}

func linesOf(m *message) string {
	var b strings.Builder
	for _, l := range m.lines {
		b.WriteString(", " + l.where + " line ")
		b.WriteString(strconv.FormatInt(l.place, 10))
	}
	return b.String()
}

// queue identifies messages that must arrive in the order of sending.
type queue struct {
	where string
	pair
	priority int
}

// arrivedInOrder checks the order of arrival in each inbox, file, folder and diary, and the order of the deliveries
// to it in the trace. There is no order between two places: an agent whose transport is a file may read messages in
// its inbox that the file did not take.
func (c *checker) arrivedInOrder() {
	queues := map[queue][]*message{}
	places := map[string]string{}
	add := func(where, id string) {
		m := c.messages[id]
		q := queue{where, pair{m.sender, m.recipient}, m.priority}
		queues[q] = append(queues[q], m)
		c.counted("arrival order", 1)
	}
	for where, list := range c.arrivals {
		for _, a := range list {
			add(where, a.id)
			places[a.id] = where
		}
	}
	for _, t := range c.trace {
		if t.event == "delivered" {
			add("the trace of what reached "+places[t.message], t.message)
		}
	}
	for q, list := range queues {
		c.ordered(q, list)
	}
}

// ordered checks one queue. A message may come after a later one only if an attempt for it had failed before the
// later message was delivered, or if it was replayed.
func (c *checker) ordered(q queue, list []*message) {
	var last *message // the one with the highest seq so far
	for i, m := range list {
		if last == nil || m.seq > last.seq {
			last = m
			continue
		}
		if m.seq == last.seq || replayed(m) {
			continue // another check finds duplicates
		}
		for _, before := range list[:i] {
			if before.seq > m.seq && c.hasOrder(m, before) &&
				(m.failedFirst == 0 || delivered(before) < m.failedFirst) {
				c.violated("arrival order",
					"%s (seq %d) came behind %s (seq %d) in %s, from %s to %s with priority %d; the first:%s; the second:%s",
					m.id, m.seq, before.id, before.seq, q.where, q.sender, q.recipient, q.priority, story(m),
					story(before))
				break
			}
		}
	}
}

// hasOrder reports whether there is an order between two messages. lower has the lower number. In a file, all
// messages have an order. On a server, several messages may be written at the same time, and become visible in an
// order different from that of their numbers. Only two sends of one lane have an order, and two sends if one was
// acknowledged before the other was made.
func (c *checker) hasOrder(lower, higher *message) bool {
	if !onServer(c.Database) {
		return true
	}
	first, second := lower.send, higher.send
	return first != nil && second != nil && !first.unsure && !second.unsure &&
		(first.asked.Lane == second.asked.Lane || first.toldAt != 0 && first.toldAt < second.asked.At)
}

// story returns the trace of a message as text.
func story(m *message) string {
	var b strings.Builder
	for _, t := range m.trace {
		fmt.Fprintf(&b, " %d %s %s by %s", t.id, t.at, t.event, t.actor)
	}
	return b.String()
}

// delivered returns the trace row of a message's first delivery, or a very large number if there is none.
func delivered(m *message) int64 {
	if len(m.delivered) == 0 {
		return 1 << 62
	}
	return m.delivered[0].id
}

func replayed(m *message) bool {
	for _, t := range m.trace {
		if t.event == "replayed" {
			return true
		}
	}
	return false
}
