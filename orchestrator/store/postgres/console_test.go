package postgres_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// A query that takes the lock of all writers, in whatever form, or waits for it, is ended with an error. Other
// programs can write meanwhile.
func TestQueryCannotKeepOthersFromWriting(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Careless)
	for name, address := range map[string]string{
		"direct": postgrestest.Place(server),
		"pooled": postgrestest.Place(postgrestest.Pool(t, server, "transaction").Past(server)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := initAt(t, address)
			locks := fmt.Sprintf(`SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
				WHERE l.locktype = 'advisory' AND a.usename = 'mailroom_audit' AND l.objid::bigint = %d`,
				s.NumberOfWriters())
			lock := s.LockOfWriters()
			numbers := lock[strings.IndexByte(lock, '('):]
			for _, call := range []string{
				lock, `U&"pg\005fadvisory_xact_lock"` + numbers, "pg_advisory_lock" + numbers,
				"pg_try_advisory_lock" + numbers,
				`query_to_xml('SELECT pg_' || 'advisory_xact_lock` + numbers + `', true, false, '')`,
			} {
				ended := make(chan error, 1)
				go func() {
					_, err := s.Query(t.Context(), "SELECT "+call+", pg_sleep(3600)", store.Bound{Rows: 1})
					ended <- err
				}()
				for len(ended) == 0 { // it may be ended before it is seen
					if rows, err := postgrestest.SQL(t.Context(), address, locks); err == nil && rows[0] == "1" {
						break
					}
				}
				if err := write(s, add("during "+call)); err != nil {
					t.Errorf("%s: a write beside it: %v", call, err)
				}
				err := <-ended
				want.Code(t, err, orchestrator.InvalidParams)
				if !strings.Contains(fmt.Sprint(err), "took an advisory lock") {
					t.Errorf("%s: %v", call, err)
				}
				until(t, address, locks, "0") // behind a pooler, the server notices by itself that the query is over
			}
			waiting := store.Job(func(*store.Transaction) error {
				_, err := s.Query(t.Context(), "SELECT "+lock, store.Bound{Rows: 1})
				if !strings.Contains(fmt.Sprint(err), "took an advisory lock") {
					t.Errorf("one that waits for the lock: %v", err)
				}
				return nil
			})
			if err := write(s, waiting); err != nil {
				t.Error(err)
			}
			table, err := s.Query(t.Context(),
				`SELECT count(*), current_setting('client_connection_check_interval'), 'pg_advisory_lock'
					FROM settings`, store.Bound{Rows: 1})
			if err != nil || table.Rows.Values()[0][1] != "1s" {
				t.Errorf("a query that only reads, and ends with its program: %v, %v", table.Rows.Values(), err)
			}
		})
	}
}

// A row that is longer than the maximum result is rejected before it is in memory.
func TestQueryOfALongRow(t *testing.T) {
	t.Parallel()
	s := initAt(t, postgrestest.Place(postgrestest.Start(t, postgrestest.Careless)))
	for _, query := range []string{`SELECT repeat('x', 40000000)`,
		`SELECT repeat('x', 20000000) AS a, repeat('x', 20000000) AS b`} {
		_, err := s.Query(t.Context(), query, store.Bound{Rows: 1})
		want.Code(t, err, orchestrator.InvalidParams)
		if !strings.Contains(fmt.Sprint(err), "a row of the result is larger than 33554432 bytes") {
			t.Errorf("%s: %v", query, err)
		}
	}
	table, err := s.Query(t.Context(), `SELECT repeat('x', 1000000) FROM generate_series(1, 10)`,
		store.Bound{Rows: 100, Bytes: 3 << 20})
	if err != nil || len(table.Rows.Values()) != 3 || !table.Truncated {
		t.Errorf("%d rows, truncated %t, %v", len(table.Rows.Values()), table.Truncated, err)
	}
}

// If the audit user has no free connection, another query fails with busy.
func TestQueryWithoutAConnection(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Careless)
	address := postgrestest.Place(server)
	initAt(t, address)
	nothing := func(*store.Transaction) error { return nil }
	s, err := postgres.Open(postgres.Options{DSN: address, Log: slog.New(slog.DiscardHandler),
		BusyTimeout: 100 * time.Millisecond, Begin: nothing, End: nothing})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := postgrestest.SQL(t.Context(), server, "ALTER ROLE mailroom_audit CONNECTION LIMIT 1"); err != nil {
		t.Fatal(err)
	}
	postgrestest.Connect(t, strings.Replace(server, "postgres@", "mailroom_audit@", 1))
	_, err = s.Query(t.Context(), "SELECT 1", store.Bound{Rows: 1})
	want.Code(t, err, orchestrator.Busy)
}
