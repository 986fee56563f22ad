package sqlite

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/orchestrator/store"
)

// TestPatientUntil: a batch waits for the database as long as the most patient of its requests, and no longer than the busy
// timeout.
func TestPatientUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		within := func(d time.Duration) *store.Request {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return &store.Request{Ctx: ctx}
		}
		for name, c := range map[string]struct {
			requests []*store.Request
			want     time.Duration
		}{
			"no end":   {[]*store.Request{within(time.Second), {Ctx: t.Context()}}, 10 * time.Second},
			"the last": {[]*store.Request{within(time.Second), within(3 * time.Second), within(0)}, 3 * time.Second},
			"too long": {[]*store.Request{within(time.Hour)}, 10 * time.Second},
			"over":     {[]*store.Request{within(0)}, 0},
		} {
			b := store.Batch{Requests: c.requests}
			if got := time.Until(b.PatientUntil(10 * time.Second)); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
	})
}
