package ledger

import (
	"time"

	"mailroom/orchestrator"
)

// WantedLater is the condition for live rows that their sender wants delivered later: until then next_attempt_at says the same
// as not_before. They hold back nobody, and are no rungs. It must stand to the letter, like Live.
const WantedLater = Live + " AND not_before <> '' AND next_attempt_at = not_before"

// DueAt returns when a draft is to be delivered at the earliest. The zero time means at once.
func DueAt(d *orchestrator.Draft, now time.Time) time.Time {
	if d.Delay > 0 {
		return now.Add(d.Delay)
	}
	if d.NotBefore.After(now) {
		return d.NotBefore
	}
	return time.Time{}
}

// CheckNotBefore refuses a draft that is to be delivered too far ahead, or after it expires. Error: invalid_params.
func (t *Tx) CheckNotBefore(d *orchestrator.Draft) error {
	due := DueAt(d, t.Clock)
	switch {
	case due.After(t.Clock.Add(orchestrator.MaxNotBefore)):
		return orchestrator.Errorf(orchestrator.InvalidParams, "not_before is %s; it may lie at most %s ahead", orchestrator.Stamp(due), orchestrator.FormatDuration(orchestrator.MaxNotBefore))
	case !due.IsZero() && d.TTL > 0 && !due.Before(t.Clock.Add(d.TTL)):
		return orchestrator.Errorf(orchestrator.InvalidParams, "not_before is %s; by then the message has expired, at %s", orchestrator.Stamp(due), orchestrator.Stamp(t.Clock.Add(d.TTL))).
			WithHint("Give it a longer ttl_seconds; without one, its seven days begin at not_before")
	}
	return nil
}

// DueSince returns when a message was, or is, first due. Whether it is overdue counts from there.
func DueSince(m *orchestrator.Message) string { return max(m.CreatedAt, m.NotBefore) }

// IsWantedLater reports whether a message waits because its sender wants it delivered later.
func IsWantedLater(m *orchestrator.Message, now string) bool {
	return m.NotBefore != "" && m.NextAttemptAt == m.NotBefore && m.NotBefore > now
}
