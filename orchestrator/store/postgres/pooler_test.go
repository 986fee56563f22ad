package postgres_test

import (
	"net/url"
	"testing"

	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/orchestrator/store/storetest"
)

// TestPoolerPromises holds this store to what package store promises of every one, behind pgbouncer.
func TestPoolerPromises(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	for _, mode := range []string{"transaction", "session"} {
		pool := postgrestest.Pool(t, server, mode)
		for name, direct := range map[string]string{"alone": "", "with direct": "&direct=" + url.QueryEscape(server)} {
			t.Run(mode+" "+name, func(t *testing.T) {
				storetest.Exercise(t, func(testing.TB) string { return postgrestest.Place(pool) + direct }, openAt)
			})
		}
	}
}
