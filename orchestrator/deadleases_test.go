package orchestrator

import (
	"testing"
	"time"
)

// A router looks once a second, and at once when the clock was set back.
func TestDeadAreLookedForOnceASecond(t *testing.T) {
	t.Parallel()
	at := time.Now()
	r := &Router{now: func() time.Time { return at }}
	began := at
	for _, step := range []struct {
		after time.Duration
		due   bool
	}{{0, true}, {0, false}, {deadEvery - 1, false}, {deadEvery, true}, {-time.Hour, true}, {-time.Hour, false}} {
		at = began.Add(step.after)
		if got := r.deadDue(); got != step.due {
			t.Errorf("after %v: due %t", step.after, got)
		}
	}
}
