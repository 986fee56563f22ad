package sqlite

import (
	"context"
	"testing"

	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// TestDamageMetByAWrite checks that damage found by a write is recorded like damage found by a read, and that Ready
// runs one complete check at a time, for as long as the caller waits.
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
	s.checking.Store(true) // another goroutine's check is running
	if err := s.Ready(t.Context()); orchestrator.CodeOf(err) != orchestrator.Unavailable {
		t.Errorf("ready while the check is under way: %v", err)
	}
	s.checking.Store(false)
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("a file that is whole: %v", err)
	}
}
