package ledger

import (
	"strings"
	"time"

	"mailroom/orchestrator"
)

// WantedLater is the condition for live rows for which the sender requested a later delivery. Until that time,
// next_attempt_at equals not_before. Such rows do not block others and do not wait for a retry. The condition must be
// used verbatim, like Live.
const WantedLater = Live + " AND not_before <> '' AND next_attempt_at = not_before"

// DueAt returns the earliest time at which a draft is to be delivered. The zero time means at once.
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

// DueSince returns the time at which a message was, or will be, first due. A message becomes overdue some time later.
func DueSince(m *orchestrator.Message) string { return max(m.CreatedAt, m.NotBefore) }

// IsWantedLater reports whether a message waits because its sender requested a later delivery.
func IsWantedLater(m *orchestrator.Message, now string) bool {
	return m.NotBefore != "" && m.NextAttemptAt == m.NotBefore && m.NotBefore > now
}

// MaxLease is the longest possible lease: the longest delivery timeout and LeaseGrace.
const MaxLease = time.Hour + LeaseGrace

// LeaseGrace is how much longer than the delivery timeout a lease lasts, so that the worker itself is the first to
// detect that an attempt takes too long.
const LeaseGrace = 30 * time.Second

// UsualLease returns the duration of a lease on a message to an agent, unless the delivery run specifies another. A
// nil agent means an unknown one.
func (conf *Config) UsualLease(agent *Agent) time.Duration {
	timeout := conf.Settings.deliveryTimeout
	if agent != nil {
		timeout = agent.Timeout(&conf.Settings)
	}
	return min(max(timeout, time.Second), MaxLease-LeaseGrace) + LeaseGrace // agents may contain rows written by hand
}

// foreignLayouts lists the forms in which other programs write times into the table: SQLite's CURRENT_TIMESTAMP and
// similar forms, RFC 3339, and the results of Python's isoformat and str. A time without a zone is UTC, as in SQLite.
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

// AdoptTime converts a foreign time into the engine's form. ok is false if s is not a valid time.
func AdoptTime(s string) (adopted string, ok bool) {
	s = strings.TrimSpace(s)
	for _, layout := range foreignLayouts {
		if t, err := time.Parse(layout, s); err == nil && t.Year() >= 1 && t.Year() <= 9999 {
			return orchestrator.Stamp(t), true
		}
	}
	return "", false
}

// TTL returns a TTL given in seconds as a duration of at most orchestrator.MaxTTL.
func TTL(seconds int64) time.Duration {
	return time.Duration(min(seconds, int64(orchestrator.MaxTTL/time.Second))) * time.Second
}
