package ledger_test

import (
	"testing"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/store"
)

// TestConfigurationIsChangedAlone checks that a request can change the configuration whatever its scope, even if it
// ignores the first error of MustBeAlone. In a file, which has one writer at a time, the request never runs again; on
// a server it runs again once.
func TestConfigurationIsChangedAlone(t *testing.T) {
	t.Parallel()
	path := enginetest.Place(t)
	e := enginetest.OpenWith(t, ledger.Options{Path: path})
	again := int64(1) // number of runs of a request that was not alone at first
	if (&enginetest.Fixture{Path: path}).OnServer() {
		again = 2
	}
	for _, c := range []struct {
		name  string
		scope store.Scope
		runs  int64
	}{{"alone", store.Alone, 1}, {"shared", store.Shared, again}, {"of", store.Of("worker"), again},
		{"waiting", store.Waiting, again}} {
		runs := int64(0)
		if err := e.Write(t.Context(), c.scope, func(tx *ledger.Tx) error {
			runs++
			if err := tx.StoreSetting("runs."+c.name, "written"); err != nil {
				return err
			}
			_, err := tx.Savepoint(tx.ConfigChanged)
			return err
		}); err != nil || runs != c.runs {
			t.Errorf("%s: ran %d times, not %d; error %v", c.name, runs, c.runs, err)
		}
		stored := int64(0)
		if err := e.Look(t.Context(), func(conn *store.Conn) (err error) {
			stored, err = conn.Number(`SELECT count(*) FROM settings WHERE key = ?`, "runs."+c.name)
			return err
		}); err != nil || stored != 1 {
			t.Errorf("%s: %d rows stored; error %v", c.name, stored, err)
		}
	}
}
