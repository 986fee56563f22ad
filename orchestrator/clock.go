package orchestrator

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"mailroom/tracing"
)

// Stamp formats a time in the layout in which all times are stored (tracing.Layout). In this layout, comparing text
// compares times.
func Stamp(t time.Time) string {
	b := t.UTC().AppendFormat(make([]byte, 0, len(tracing.Layout)), time.RFC3339) // for RFC3339, Go parses no layout
	ms := t.Nanosecond() / int(time.Millisecond)
	return string(append(b[:len(b)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z'))
}

// ParseStamp parses a stored time. It returns the zero time for text in another form, such as a time that another
// program wrote and that was not adopted yet.
func ParseStamp(s string) time.Time {
	layout := tracing.Layout
	if len(s) == len(layout) && s[19] == '.' && s[20] >= '0' && s[23] == 'Z' {
		layout = time.RFC3339Nano // Go parses RFC3339Nano several times faster
	}
	t, _ := time.Parse(layout, s)
	return t
}

// ClearPause is the pause between two transactions of a job that works through many rows. It lets other writers in.
const ClearPause = 2 * time.Millisecond

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Until returns the time until this machine's clock shows a multiple of period. Periodic jobs of the process run at
// these moments, all at once, because waking the processor costs more than the jobs.
func Until(period time.Duration) time.Duration {
	return period - time.Duration(time.Now().UnixNano())%period
}

// Day is 24 hours.
const Day = 24 * time.Hour

// ParseDuration parses a duration in Go's form (30s, 1h30m), in days (7d), or as a plain number of seconds (300).
func ParseDuration(s string) (time.Duration, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 && n <= math.MaxInt64/int64(time.Second) {
		return time.Duration(n) * time.Second, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseInt(days, 10, 32); err == nil && n >= 0 && n <= 36500 {
			return time.Duration(n) * Day, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a valid duration; use the form 30s, 5m, 12h, or 7d", s)
	}
	return d, nil
}

// FormatDuration formats a duration in a form that ParseDuration accepts.
func FormatDuration(d time.Duration) string {
	if d >= Day && d%Day == 0 {
		return strconv.FormatInt(int64(d/Day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
