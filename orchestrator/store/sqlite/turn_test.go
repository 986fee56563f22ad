package sqlite

import (
	"testing"
	"testing/synctest"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// hurried is a backend whose batches have waited for their turn so long that a second is left.
type hurried struct{ *backend }

func (h hurried) Write(b *store.Batch, _ time.Time) (store.Commit, error) {
	return h.backend.Write(b, time.Now().Add(time.Second))
}

// lockedStore makes a database of which another program holds the write lock. SQLite's own waiting, which no bubble's clock
// knows of, is turned off.
func lockedStore(t *testing.T) *Store {
	t.Helper()
	s := makeStore(t)
	if err := s.backend.c.Script("PRAGMA busy_timeout = 0"); err != nil {
		t.Fatal(err)
	}
	other, err := openConn(writerDSN(s.path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.close() })
	if err := other.Script("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWaitedForTheTurn: what a batch has waited for its turn, it does not wait again for SQLite's lock.
func TestWaitedForTheTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := lockedStore(t)
		s.writer.Backend = hurried{s.backend}
		began := time.Now()
		err := s.write(t.Context(), writeOne)
		if took := time.Since(began); orchestrator.CodeOf(err) != orchestrator.Busy || took > time.Second || took < time.Second/2 {
			t.Errorf("%v, after %s; want busy after a second", err, took)
		}
	})
}

// TestLookForTheLockIsShort: whoever looks whether the write lock is held waits shorter than whoever wants it.
func TestLookForTheLockIsShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, level := lockedStore(t), ""
		began := time.Now()
		locked := s.CheckLock(t.Context(), func(_, is, _, _ string) { level = is })
		if took := time.Since(began); !locked || level != "problem" || took > lockPatience {
			t.Errorf("locked: %t, %s, after %s", locked, level, took)
		}
	})
}
