package orchestrator

import "time"

// wantedLater is the condition for live rows that their sender wants delivered later: until then next_attempt_at says the same
// as not_before. They hold back nobody, and are no rungs. It must stand to the letter, like live.
const wantedLater = live + " AND not_before <> '' AND next_attempt_at = not_before"

// dueAt is when a draft is to be delivered at the earliest; the zero time is at once.
func (d *Draft) dueAt(now time.Time) time.Time {
	if d.Delay > 0 {
		return now.Add(d.Delay)
	}
	if d.NotBefore.After(now) {
		return d.NotBefore
	}
	return time.Time{}
}

// checkNotBefore refuses a draft that is to be delivered too late.
func (t *tx) checkNotBefore(d *Draft) error {
	due := d.dueAt(t.clock)
	switch {
	case due.After(t.clock.Add(MaxNotBefore)):
		return Errorf(InvalidParams, "not_before is %s; it may lie at most %s ahead", stamp(due), FormatDuration(MaxNotBefore))
	case !due.IsZero() && d.TTL > 0 && !due.Before(t.clock.Add(d.TTL)):
		return Errorf(InvalidParams, "not_before is %s; by then the message has expired, at %s", stamp(due), stamp(t.clock.Add(d.TTL))).
			WithHint("Give it a longer ttl_seconds; without one, its seven days begin at not_before")
	}
	return nil
}

// dueSince is when the message was, or is, due first: what is overdue counts from there.
func (m *Message) dueSince() string { return max(m.CreatedAt, m.NotBefore) }

// isWantedLater reports whether a message waits since its sender wants it delivered later.
func (m *Message) isWantedLater(now string) bool {
	return m.NotBefore != "" && m.NextAttemptAt == m.NotBefore && m.NotBefore > now
}
