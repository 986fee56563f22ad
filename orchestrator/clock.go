package orchestrator

import (
	"context"
	"time"

	"mailroom/tracing"
)

// Stamp returns a time in the one form in which all times are stored (tracing.Layout), so that comparing text compares times.
// It is faster than time.Format, since every send writes several.
func Stamp(t time.Time) string {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.Format(tracing.Layout)
	}
	hour, minute, second := t.Clock()
	b := [len(tracing.Layout)]byte{4: '-', 7: '-', 10: 'T', 13: ':', 16: ':', 19: '.', 23: 'Z'}
	digits(b[0:4], year)
	digits(b[5:7], int(month))
	digits(b[8:10], day)
	digits(b[11:13], hour)
	digits(b[14:16], minute)
	digits(b[17:19], second)
	digits(b[20:23], t.Nanosecond()/int(time.Millisecond))
	return string(b[:])
}

// digits fills b with a number that is not negative and has no more digits than that.
func digits(b []byte, n int) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}

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
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
