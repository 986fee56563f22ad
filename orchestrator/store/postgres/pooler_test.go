package postgres_test

import (
	"net/url"
	"testing"

	"mailroom/orchestrator/store/postgres/postgrestest"
)

// TestPoolers writes and reads behind pgbouncer, with and without the server's own address beside. What is written is there once.
func TestPoolers(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	for _, mode := range []string{"transaction", "session"} {
		pool := postgrestest.Pool(t, server, mode)
		for _, direct := range []string{"", "&direct=" + url.QueryEscape(server)} {
			st := opened(t, postgrestest.Place(pool)+direct)
			for _, key := range []string{"one", "two", "three"} {
				if err := write(st, add(key)); err != nil || count(t, st, key) != 1 {
					t.Errorf("%s%s: %v, %d rows", mode, direct, err, count(t, st, key))
				}
			}
		}
	}
}
