package orchestrator

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"mailroom/tracing"
)

// TestStampIsTheLayout: what is written by hand is what time.Format would write.
func TestStampIsTheLayout(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-62167219200-1000, 253402300799+1000).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds"))
		at = at.In(time.FixedZone("", rapid.IntRange(-12*3600, 14*3600).Draw(t, "zone")))
		if got, want := Stamp(at), at.UTC().Format(tracing.Layout); got != want {
			t.Fatalf("stamp is %s; want %s", got, want)
		}
	})
}
