package postgres_test

import (
	"fmt"
	"testing"

	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// A server that crashes during a COMMIT reuses the transaction's id if it had written nothing of that transaction to
// its disk. The status of that id then belongs to the other transaction, and the first one must run again.
func TestNumberGivenTwice(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	place := postgrestest.Place(server)
	sql := func(statement string) (first string) {
		rows, err := postgrestest.SQL(t.Context(), place, statement)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) > 0 {
			first = rows[0]
		}
		return first
	}
	sql(`ALTER SYSTEM SET wal_writer_delay = '1s'`) // so that nothing of the transaction is on the disk
	sql(`SELECT pg_reload_conf()`)
	p := newProxy(t, place)
	st := opened(t, p.address)
	sql(`CREATE TABLE of_another (n integer)`)
	done := make(chan bool, 1)
	p.and = func() {
		defer func() { done <- true }()
		if err := postgrestest.Restart(server); err != nil {
			t.Error(err)
		}
		for range 5 {
			sql(`INSERT INTO of_another VALUES (1)`)
		}
	}
	for attempt := range 5 { // something may have reached the disk
		p.arm("before")
		key, number, runs := fmt.Sprint("lost ", attempt), "", 0
		err := write(st, store.Job(func(tx *store.Transaction) (err error) {
			if runs++; runs == 1 {
				number, _, err = tx.Text(`SELECT pg_current_xact_id()`)
			}
			if err == nil {
				err = add(key)(tx)
			}
			return err
		}))
		if err != nil || runs != 2 || count(t, st, key) != 1 {
			t.Fatalf("%v after %d runs, %d rows", err, runs, count(t, st, key))
		}
		<-done // the connection ends with the server, before anything that follows
		if sql(`SELECT pg_xact_status('`+number+`'::xid8)`) == "committed" {
			return
		}
	}
	t.Error("no number was given twice: nothing was put to the test")
}
