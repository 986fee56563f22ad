package sqlite

import (
	"context"
	"testing"

	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// TestDamageMetByAWrite: a write that meets a damaged page is remembered as much as a reading that does, and readiness
// is asked of one whole check at a time, for as long as the asker waits.
func TestDamageMetByAWrite(t *testing.T) {
	t.Parallel()
	s := makeStore(t)
	err := s.write(t.Context(), func(*store.Transaction) error { return sqlite3.Error{Code: sqlite3.ErrCorrupt} })
	if orchestrator.CodeOf(err) != orchestrator.Unavailable || s.damage.Load() == nil {
		t.Fatalf("%v; remembered: %v", err, s.damage.Load())
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.stillDamaged(gone); err == nil {
		t.Error("in order, says a check that nobody waited for")
	}
	s.checking.Store(true) // somebody else's check is under way
	if err := s.Ready(t.Context()); orchestrator.CodeOf(err) != orchestrator.Unavailable {
		t.Errorf("ready while the check is under way: %v", err)
	}
	s.checking.Store(false)
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("a file that is whole: %v", err)
	}
}
