package orchestrator

import (
	"context"
	"time"

	"mailroom/tracing"
)

// Stamp returns a time in the one form in which all times are stored (tracing.Layout), so that comparing text compares times.
func Stamp(t time.Time) string { return t.UTC().Format(tracing.Layout) }

// ParseStamp reads a stored time. It returns the zero time for one that somebody else wrote and that was not adopted yet.
func ParseStamp(s string) time.Time {
	t, err := time.Parse(tracing.Layout, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// ClearPause is how long a job that works through many rows pauses between its transactions, so that others get a turn.
const ClearPause = 2 * time.Millisecond

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
