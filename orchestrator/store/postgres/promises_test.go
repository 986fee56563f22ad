package postgres_test

import (
	"log/slog"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres"
	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/orchestrator/store/storetest"
)

// TestStorePromises checks the promises that package store requires of every store.
func TestStorePromises(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	storetest.Exercise(t, func(testing.TB) string { return postgrestest.Place(server) }, openAt)
}

// TestHelperProcess runs the other processes of TestStorePromises and TestUpgrade.
func TestHelperProcess(t *testing.T) {
	all := storetest.Helpers(openAt)
	all["upgrade"] = upgradeHelper
	helper.Run(all)
}

// pulse is long enough for a process to reconnect in half the time, on a busy machine.
const pulse = 500 * time.Millisecond

func openAt(o storetest.Options) (store.Store, error) {
	return postgres.Open(postgres.Options{
		DSN: o.Address, Log: slog.New(slog.DiscardHandler), BusyTimeout: o.BusyTimeout, Begin: o.Begin, End: o.End,
		Pulse: pulse,
	})
}
