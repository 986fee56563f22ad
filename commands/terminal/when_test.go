package terminal

import (
	"testing"
	"time"

	"mailroom/orchestrator"
)

func TestWhen(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := &Text{Now: func() time.Time { return now }}
	for past, want := range map[time.Duration]string{
		0: "now", 4 * time.Second: "now", -4 * time.Second: "now", 5 * time.Second: "5 s ago",
		59 * time.Second: "59 s ago",
		time.Minute:      "1 min ago", 59 * time.Minute: "59 min ago", time.Hour: "1 h ago", 23 * time.Hour: "23 h ago",
		-2 * time.Hour: "2 h from now",
		24 * time.Hour: now.Add(-24 * time.Hour).Local().Format("2006-01-02 15:04"),
	} {
		if got := w.When(orchestrator.Stamp(now.Add(-past))); got != want {
			t.Errorf("%v: %q; want %q", past, got, want)
		}
	}
	for _, text := range []string{"", "soon"} {
		if got := w.When(text); got != text {
			t.Errorf("%q is %q", text, got)
		}
	}
}
