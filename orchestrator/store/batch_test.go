package store

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestPatientUntil checks that a batch waits for the database as long as the most patient of its requests, but no
// longer than the busy timeout.
func TestPatientUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		within := func(d time.Duration) *Request {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return &Request{Ctx: ctx}
		}
		for name, c := range map[string]struct {
			requests []*Request
			want     time.Duration
		}{
			"no end":   {[]*Request{within(time.Second), {Ctx: t.Context()}}, 10 * time.Second},
			"the last": {[]*Request{within(time.Second), within(3 * time.Second), within(0)}, 3 * time.Second},
			"too long": {[]*Request{within(time.Hour)}, 10 * time.Second},
			"over":     {[]*Request{within(0)}, 0},
		} {
			b := Batch{Requests: c.requests}
			if got := time.Until(b.patientUntil(10 * time.Second)); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
	})
}

// TestRingNamesFewOrAll checks that the number of recipients for which a batch rings is limited.
func TestRingNamesFewOrAll(t *testing.T) {
	t.Parallel()
	var r Ring
	for i := range maxNames {
		r.Add([]string{fmt.Sprint("agent", i), "agent0"})
	}
	if r.All || len(r.names) != maxNames {
		t.Errorf("%d names, everybody: %v", len(r.names), r.All)
	}
	if r.Add([]string{"another"}); !r.All {
		t.Error("one name too many does not ring for everybody")
	}
}
