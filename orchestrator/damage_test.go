package orchestrator

import (
	"context"
	"testing"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// TestDamageMetByAWrite: a write that meets a damaged page is remembered as much as a reading that does, and readiness is
// asked of one whole check at a time, for as long as the asker waits.
func TestDamageMetByAWrite(t *testing.T) {
	t.Parallel()
	r := openWithTwo(t)
	err := r.write(t.Context(), func(*tx) error { return sqlite3.Error{Code: sqlite3.ErrCorrupt} })
	if CodeOf(err) != Unavailable || fileOf(r).damage.Load() == nil {
		t.Fatalf("%v; remembered: %v", err, fileOf(r).damage.Load())
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := fileOf(r).stillDamaged(gone); err == nil {
		t.Error("in order, says a check that nobody waited for")
	}
	fileOf(r).checking.Store(true) // somebody else's check is under way
	if err := r.Ready(t.Context()); CodeOf(err) != Unavailable {
		t.Errorf("ready while the check is under way: %v", err)
	}
	fileOf(r).checking.Store(false)
	if err := r.Ready(t.Context()); err != nil {
		t.Errorf("a file that is whole: %v", err)
	}
}
