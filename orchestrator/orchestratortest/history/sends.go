package history

import (
	"cmp"
	"fmt"
	"slices"
)

// send is one send of the history. Several processes may have made it with one idempotency key.
type send struct {
	asked   Event
	by      []string // processes that made the send
	ids     []string // message IDs in the answers
	toldAt  int64    // the time of the first answer
	unsure  bool     // the answer to one of the processes left the result open
	message *message // the message with its token
}

// sends compares the acknowledged sends with the messages.
func (c *checker) sends() {
	byToken := c.collect()
	for _, id := range c.ids {
		m := c.messages[id]
		if m.sender == system || !m.known {
			if !m.known {
				c.violated("sends", "%s stands somewhere, and was never inserted", id)
			}
			continue
		}
		s := byToken[m.token]
		switch {
		case s == nil:
			c.violated("sends", "%s from %s with token %q: nobody sent it", id, m.sender, m.token)
		case s.message != nil:
			c.violated("sends", "the send %s exists twice: as %s and as %s", m.token, s.message.id, id)
		default:
			s.message, m.send = m, s
			c.asSent(s)
		}
	}
	killed := c.killed()
	list := make([]*send, 0, len(byToken))
	for _, s := range byToken {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *send) int { return cmp.Compare(a.asked.At, b.asked.At) })
	for _, s := range list {
		c.answered(s, killed)
	}
	c.inLanes(list)
	c.inTime(list)
}

// collect returns the sends of the history by token.
func (c *checker) collect() map[string]*send {
	byToken := map[string]*send{}
	for _, e := range c.Events {
		switch e.Kind {
		case Asked:
			s := byToken[e.Token]
			if s == nil {
				s = &send{asked: e}
				byToken[e.Token] = s
			}
			s.by = append(s.by, e.Process)
		case Unsure:
			if s := byToken[e.Token]; s != nil {
				s.unsure = true
			}
		case Acknowledged:
			s := byToken[e.Token]
			if s == nil {
				c.violated("sends", "%s was acknowledged and never asked for", e.Token)
				continue
			}
			if s.ids = append(s.ids, e.MessageID); s.toldAt == 0 {
				s.toldAt = e.At
			}
			c.counted("sends", 1)
		}
	}
	return byToken
}

// asSent compares a message with the send that requested it.
func (c *checker) asSent(s *send) {
	m, a := s.message, s.asked
	got := fmt.Sprintf("from %s to %s with priority %d", m.sender, m.recipient, m.priority)
	want := fmt.Sprintf("from %s to %s with priority %d", a.Sender, a.Recipient, a.Priority)
	if got != want {
		c.violated("sends", "%s is %s; it was sent %s", m.id, got, want)
	}
	for _, r := range m.rows {
		if r.token != a.Token || r.sender != a.Sender || r.recipient != a.Recipient || r.seq != m.seq {
			c.violated("sends", "%s: the row in %s is not what was sent as %s", m.id, r.table, a.Token)
		}
	}
}

// answered checks that an acknowledged send exists, and that every send without an answer came from a killed process
// or found the database unavailable.
func (c *checker) answered(s *send, killed map[string]bool) {
	if len(s.ids) == 0 {
		if s.unsure {
			return
		}
		for _, process := range s.by {
			if !killed[process] {
				c.violated("sends", "%s was never answered, and %s was not killed", s.asked.Token, process)
			}
		}
		return
	}
	for _, id := range s.ids {
		m := c.messages[id]
		switch {
		case m == nil:
			c.violated("sends", "%s was acknowledged as %s and is lost: nothing knows of it", s.asked.Token, id)
		case s.message == nil:
			c.violated("sends", "%s was acknowledged as %s and is lost: no message has its token", s.asked.Token, id)
		case s.message != m:
			c.violated("sends", "%s was acknowledged as %s and is %s", s.asked.Token, id, s.message.id)
		case len(m.rows) != 1 && m.final.place != "gone":
			c.violated("sends", "%s, acknowledged as %s, stands in %d rows", s.asked.Token, id, len(m.rows))
		}
	}
}

// inLanes checks that the sends of a lane are in the order in which they were made, except for repeated sends.
func (c *checker) inLanes(list []*send) {
	lanes := map[string][]*send{}
	for _, s := range list {
		if s.message != nil && !s.unsure {
			lanes[s.asked.Lane] = append(lanes[s.asked.Lane], s)
		}
	}
	for _, lane := range lanes {
		slices.SortFunc(lane, func(a, b *send) int { return a.asked.Number - b.asked.Number })
		for i, s := range lane {
			c.counted("send order", 1)
			if i > 0 && lane[i-1].message.seq >= s.message.seq {
				c.violated("send order", "%s (seq %d) was sent before %s (seq %d) in lane %s", lane[i-1].message.id,
					lane[i-1].message.seq, s.message.id, s.message.seq, s.asked.Lane)
			}
		}
	}
}

// inTime checks the order across all processes: a send that was acknowledged before another one began must precede
// it.
func (c *checker) inTime(byAsked []*send) {
	var told []*send
	for _, s := range byAsked {
		if s.message != nil && s.toldAt != 0 {
			told = append(told, s)
		}
	}
	slices.SortFunc(told, func(a, b *send) int { return cmp.Compare(a.toldAt, b.toldAt) })
	var last *send // the one with the highest seq of those acknowledged so far
	for _, s := range byAsked {
		if s.message == nil {
			continue
		}
		for len(told) > 0 && told[0].toldAt < s.asked.At {
			if last == nil || told[0].message.seq > last.message.seq {
				last = told[0]
			}
			told = told[1:]
		}
		if last != nil && last.message.seq > s.message.seq {
			c.violated("send order", "%s (seq %d) was acknowledged before %s (seq %d) was asked for", last.message.id,
				last.message.seq, s.message.id, s.message.seq)
		}
	}
}
