package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// cancel waits until a condition on pg_stat_activity holds for a process, and then makes the server cancel its
// statement.
func cancel(t *testing.T, address, condition string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for ctx.Err() == nil {
		rows, err := postgrestest.SQL(ctx, address,
			`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND `+condition)
		if err == nil && len(rows) > 0 {
			return
		}
	}
	t.Errorf("nobody to cancel: %s", condition)
}

// A statement that the server ended, for a timeout or for an administrator, can be tried again, since its work was
// undone.
func TestEndedByServer(t *testing.T) {
	t.Parallel()
	address := postgrestest.Place(postgrestest.Start(t))
	s := initAt(t, address)
	sleep := func(c *store.Conn) error {
		// A statement without arguments would be sent ahead the next time: see opening.
		_, err := c.Number(`SELECT count(pg_sleep(?1))`, 60)
		return err
	}
	const sleeps, waits = `wait_event = 'PgSleep'`, `wait_event_type = 'Lock'`
	says := func(err error, part string) {
		t.Helper()
		want.Code(t, err, orchestrator.Busy)
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v; want %q", err, part)
		}
	}
	ended := make(chan error)
	go func() { ended <- s.Look(t.Context(), sleep) }()
	cancel(t, address, sleeps)
	says(<-ended, "stopped a statement")
	go func() { ended <- write(s, store.Job(func(t *store.Transaction) error { return sleep(t.Conn) })) }()
	cancel(t, address, sleeps)
	says(<-ended, "stopped a statement")
	says(write(s, store.Job(func(t *store.Transaction) error {
		if err := t.Script(`SET LOCAL statement_timeout = 50`); err != nil {
			return err
		}
		return sleep(t.Conn)
	})), "stopped a statement")

	other := postgrestest.Connect(t, address)
	other.Run(`BEGIN; LOCK TABLE settings`)
	go func() { ended <- write(s, add("never")) }()
	cancel(t, address, waits)
	says(<-ended, "stopped a statement")
	says(write(s, store.Job(func(t *store.Transaction) error {
		if err := t.Script(`SET LOCAL lock_timeout = 50`); err != nil {
			return err
		}
		return add("neither")(t)
	})), "is locked by another program")
	other.Run(`ROLLBACK`)
	if err := write(s, add("afterwards")); err != nil {
		t.Error(err)
	}
	for key, n := range map[string]int64{"never": 0, "neither": 0, "afterwards": 1} {
		want.Equal(t, key, count(t, s, key), n)
	}
}

// A reader does not wait for ever for a table that somebody has locked.
func TestReaderOfALockedTable(t *testing.T) {
	t.Parallel()
	address := postgrestest.Place(postgrestest.Start(t))
	s := initAt(t, address)
	read := func() error {
		return s.Look(t.Context(), func(c *store.Conn) error {
			_, err := c.Number(`SELECT count(*) FROM agents WHERE name = ?1`, "a")
			return err
		})
	}
	other := postgrestest.Connect(t, address)
	other.Run(`BEGIN; LOCK TABLE agents`)
	want.Code(t, read(), orchestrator.Busy)
	other.Run(`ROLLBACK`)
	if err := read(); err != nil {
		t.Error(err)
	}
}
