package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// TestDeposedLeader makes a standby take the place of a server that does not notice it and keeps taking writes.
// Listeners find out, and nothing is read or written on the old server any more.
func TestDeposedLeader(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	place := postgrestest.Place(server)
	initAt(t, place)
	standby := postgrestest.Standby(t, server, "one")
	until(t, server, `SELECT state FROM pg_stat_replication`, "streaming")
	there, both := url.QueryEscape(hostOf(t, standby)), url.QueryEscape(hostOf(t, server)+","+hostOf(t, standby))
	address := func(host string) string { return strings.Replace(place, url.QueryEscape(hostOf(t, server)), host, 1) }

	nothing := func(*store.Transaction) error { return nil }
	s, err := postgres.Open(postgres.Options{DSN: address(both), Log: slog.New(slog.DiscardHandler),
		BusyTimeout: 10 * time.Second, Pulse: 100 * time.Millisecond, Begin: nothing, End: nothing})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	_, stop, err := s.Bell().Listen(t.Context(), "bob")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := write(s, add("before")); err != nil || count(t, s, "before") != 1 {
		t.Fatal(err)
	}
	if _, err := postgrestest.SQL(t.Context(), standby, `SELECT pg_promote()`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := 0; ; n++ {
		key := fmt.Sprint("after ", n)
		if err := write(s, add(key)); err != nil {
			t.Fatal(err)
		}
		rows, err := postgrestest.SQL(ctx, address(there), `SELECT count(*) FROM settings WHERE key = '`+key+`'`)
		if err != nil {
			t.Fatalf("after %d writes: %v", n, err)
		}
		if rows[0] == "1" {
			if count(t, s, key) != 1 {
				t.Error("what was written at the new place is read at the old one")
			}
			return
		}
	}
}
