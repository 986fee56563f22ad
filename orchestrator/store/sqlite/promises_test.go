package sqlite_test

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/sqlite"
	"mailroom/orchestrator/store/storetest"
)

// TestStorePromises checks the promises that package store requires of every store.
func TestStorePromises(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, func(t testing.TB) string { return filepath.Join(t.TempDir(), "a.db") }, openAt)
}

// TestHelperProcess runs the other processes of TestStorePromises.
func TestHelperProcess(t *testing.T) { helper.Run(storetest.Helpers(openAt)) }

func openAt(o storetest.Options) (store.Store, error) {
	return sqlite.Open(sqlite.Options{
		Path: o.Address, Now: time.Now, Log: slog.New(slog.DiscardHandler), BusyTimeout: o.BusyTimeout,
		Made: func(string) {}, Begin: o.Begin, End: o.End,
	})
}
