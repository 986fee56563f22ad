package ledger

import (
	"strings"
	"time"

	"mailroom/orchestrator"
)

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
