package terminal

import (
	"fmt"
	"time"

	"mailroom/orchestrator"
)

// When returns a time for people: the time since or until then if that is less than a day, and otherwise the local
// date and time. It returns a text that is not a time unchanged. JSON answers contain the time itself.
func (w *Text) When(stamp string) string {
	at := orchestrator.ParseStamp(stamp)
	if at.IsZero() {
		return stamp
	}
	now := time.Now()
	if w.Now != nil {
		now = w.Now()
	}
	past, ago := now.Sub(at), " ago"
	if past < 0 {
		past, ago = -past, " from now"
	}
	switch {
	case past < 5*time.Second:
		return "now"
	case past < time.Minute:
		return fmt.Sprintf("%d s%s", past/time.Second, ago)
	case past < time.Hour:
		return fmt.Sprintf("%d min%s", past/time.Minute, ago)
	case past < orchestrator.Day:
		return fmt.Sprintf("%d h%s", past/time.Hour, ago)
	}
	return w.At(at, "2006-01-02 15:04")
}

// At returns a time in a layout of package time, in the reader's time zone.
func (w *Text) At(at time.Time, layout string) string {
	zone := w.Zone
	if zone == nil {
		zone = time.Local
	}
	return at.In(zone).Format(layout)
}
