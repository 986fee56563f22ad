package orchestrator

import (
	"math/rand/v2"
	"testing"
	"time"

	"mailroom/tracing"
)

// TestStamps checks that stamps are formatted and parsed as the time package does with their layout.
func TestStamps(t *testing.T) {
	zone := time.FixedZone("", 5400)
	times := []time.Time{{}, time.Unix(0, 0), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, zone), time.Date(99, 1, 1, 0, 0, 0, 0, zone)}
	for range 1000 {
		times = append(times, time.Unix(rand.Int64N(1<<37)-1<<35, rand.Int64N(1e9)).In(zone))
	}
	texts := []string{"", "x", "2026-11-29", "2026-11-29T01:02:03Z", "2026-11-29T01:02:03,004Z", "2026-11-29T1:02:03.0045Z",
		"2026-11-29t01:02:03.004Z", "2026-11-29T01:02:03.004z", "2026-02-30T01:02:03.004Z", "2026-11-29T24:02:03.004Z",
		"2026-11-29T01:02:03.00 Z", "2026-11-29T01:02:03.+04Z", "2026-11-29T01:02:03.-04Z",
		"2026-11-29 01:02:03.004Z", "2026-11-29T01:60:03.004Z"}
	for _, at := range times {
		got, want := Stamp(at), at.UTC().Format(tracing.Layout)
		if got != want {
			t.Errorf("Stamp(%v) = %s, want %s", at, got, want)
		}
		texts = append(texts, want)
	}
	for _, text := range texts {
		want, _ := time.Parse(tracing.Layout, text)
		if got := ParseStamp(text); !got.Equal(want) {
			t.Errorf("ParseStamp(%q) = %v, want %v", text, got, want)
		}
	}
}
