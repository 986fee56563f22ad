package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// The error that ends a transaction is the error that its caller gets, even if the work continues and then fails
// because the transaction has ended.
func TestFirstError(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Careless)
	ann, admin := user(t, server, "ann")
	s := initAt(t, ann)
	bad := func(t *store.Transaction) error {
		_, err := t.Exec(`INSERT INTO settings (key, value, updated_at) VALUES (?1, NULL, '')`, "x")
		return err
	}
	reads := func(t *store.Transaction) error {
		_, err := t.Number(`SELECT count(*) FROM settings`)
		return err
	}
	for name, w := range map[string]store.Job{
		"the last of several": func(t *store.Transaction) error { bad(t); return reads(t) },
		"a new statement": func(t *store.Transaction) error {
			bad(t)
			return t.Run(`DELETE FROM settings WHERE key = 'no ' || ?1`, "x")
		},
		"a savepoint": func(t *store.Transaction) error {
			bad(t)
			_,
				err := t.Exec("SAVEPOINT apart")
			return err
		},
		"none that the work told": func(t *store.Transaction) error { bad(t); return nil },
	} {
		if err := write(s, w); !strings.Contains(fmt.Sprint(err), `null value in column "value"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := write(s, store.Job(func(t *store.Transaction) error { // a failure that is undone ends nothing
		failure, err := t.Savepoint(func() error { return bad(t) })
		if failure == nil || err != nil {
			return errors.Join(errors.New("apart"), err)
		}
		return add("behind")(t)
	}))
	if err != nil || count(t, s, "behind") != 1 {
		t.Error(err)
	}

	if _, err := postgrestest.SQL(t.Context(), admin,
		"ALTER DATABASE ann SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	for _, w := range []store.Job{
		func(t *store.Transaction) error { add("y")(t); return reads(t) },
		func(t *store.Transaction) error { add("y")(t); t.Flush(); return reads(t) },
		func(t *store.Transaction) error { add("y")(t); t.Flush(); return nil },
	} {
		err := write(at(t, ann), w)
		want.Code(t, err, orchestrator.Unavailable)
		if !strings.Contains(fmt.Sprint(err), "does not accept writes") {
			t.Error(err)
		}
	}
}
