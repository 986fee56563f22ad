package person_test

import (
	"log/slog"
	"testing"
	"time"

	"mailroom/orchestrator/person"
)

// TestSweep: who sweeps in the background removes at once what was left, also the pin of a phone that has left by itself.
func TestSweep(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	gone, kept := o.phone(), o.phone()
	asked := o.ask()
	if _, err := o.CancelQuestion(t.Context(), asked.ID, ""); err != nil { // past person.Cancel, as an expiry is
		t.Fatal(err)
	}
	open := o.ask()
	if _, err := o.RevokeDevice(t.Context(), gone.id); err != nil { // past person.Revoke, as the app does it
		t.Fatal(err)
	}
	if len(o.files("replies")) != 1 || len(o.files("devices")) != 2 { // asking has swept the first key already
		t.Fatalf("%v, %v", o.files("replies"), o.files("devices"))
	}
	o.advance(8 * 24 * time.Hour)
	if _, err := o.Question(t.Context(), open.ID); err != nil {
		t.Fatal(err)
	}
	stop := person.Start(t.Context(), o.Router, slog.New(slog.DiscardHandler))
	for len(o.files("replies")) > 0 || len(o.files("devices")) > 1 {
		if t.Context().Err() != nil {
			t.Fatalf("%v, %v", o.files("replies"), o.files("devices"))
		}
	}
	stop()
	if left := o.files("devices"); len(left) != 1 || left[0] != kept.id {
		t.Errorf("pinned are %v", left)
	}
}
