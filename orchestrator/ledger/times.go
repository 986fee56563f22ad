package ledger

import (
	"strings"
	"time"

	"mailroom/orchestrator"
)

// WantedLater is the condition for live rows that their sender wants delivered later: until then next_attempt_at says
// the same as not_before. Such rows hold back nobody, and are not on the ladder of retries. It must stand to the
// letter, like Live.
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
		return orchestrator.Errorf(orchestrator.InvalidParams, "not_before is %s, but must be at most %s in the future",
			orchestrator.Stamp(due), orchestrator.FormatDuration(orchestrator.MaxNotBefore))
	case !due.IsZero() && d.TTL > 0 && !due.Before(t.Clock.Add(d.TTL)):
		return orchestrator.Errorf(orchestrator.InvalidParams,
			"not_before is %s, but must be before the message expires at %s", orchestrator.Stamp(due),
			orchestrator.Stamp(t.Clock.Add(d.TTL))).
			WithHint("Use a larger ttl_seconds, or omit it: the message then expires seven days after not_before")
	}
	return nil
}

// DueSince returns when a message was, or is, first due: it is overdue some time after that.
func DueSince(m *orchestrator.Message) string { return max(m.CreatedAt, m.NotBefore) }

// IsWantedLater reports whether a message waits because its sender wants it delivered later.
func IsWantedLater(m *orchestrator.Message, now string) bool {
	return m.NotBefore != "" && m.NextAttemptAt == m.NotBefore && m.NotBefore > now
}

// MaxLease is the longest lease that can be given: the longest delivery timeout and its grace.
const MaxLease = time.Hour + LeaseGrace

// LeaseGrace is how much longer than the delivery timeout a lease lasts, so that the worker itself is the first to call
// an attempt too long.
const LeaseGrace = 30 * time.Second

// UsualLease is how long a lease on a message to an agent lasts unless the run says otherwise; nil is an agent that
// nobody knows.
func (conf *Config) UsualLease(agent *Agent) time.Duration {
	timeout := conf.Settings.deliveryTimeout
	if agent != nil {
		timeout = agent.Timeout(&conf.Settings)
	}
	return min(max(timeout, time.Second), MaxLease-LeaseGrace) + LeaseGrace // a row of agents may be written by hand
}

// foreignLayouts are the forms in which other programs write times into the table: SQLite's CURRENT_TIMESTAMP and its
// relatives, RFC 3339, and what Python's isoformat and str give. A time without a zone is UTC, as SQLite's are.
var foreignLayouts = []string{
	"2006-01-02T15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02T15:04:05.999999999Z0700",
	"2006-01-02 15:04:05.999999999Z0700",
	"2006-01-02 15:04:05.999999999 Z07:00",
	"2006-01-02 15:04:05.999999999 Z0700",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04",
	"2006-01-02 15:04",
	"2006-01-02",
}

// AdoptTime turns a foreign time into ours. ok is false when s is none that can be read.
func AdoptTime(s string) (adopted string, ok bool) {
	s = strings.TrimSpace(s)
	for _, layout := range foreignLayouts {
		if t, err := time.Parse(layout, s); err == nil && t.Year() >= 1 && t.Year() <= 9999 {
			return orchestrator.Stamp(t), true
		}
	}
	return "", false
}

// TTL returns how long a message lives that is to live for so many seconds.
func TTL(seconds int64) time.Duration {
	return time.Duration(min(seconds, int64(orchestrator.MaxTTL/time.Second))) * time.Second
}
