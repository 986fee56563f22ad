package postgres_test

import (
	"net/url"
	"testing"

	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/orchestrator/store/storetest"
)

// TestPoolers holds the store to what package store promises behind pgbouncer, with and without the server's own address beside.
func TestPoolers(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	for _, mode := range []string{"transaction", "session"} {
		pool := postgrestest.Pool(t, server, mode)
		t.Run(mode, func(t *testing.T) {
			storetest.Exercise(t, func(testing.TB) string { return postgrestest.Place(pool) }, openAt)
		})
		t.Run(mode+" with a direct address", func(t *testing.T) {
			storetest.Exercise(t, func(testing.TB) string { return postgrestest.Place(pool) + "&direct=" + url.QueryEscape(server) }, openAt)
		})
	}
}
