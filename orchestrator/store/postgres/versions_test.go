//go:build postgres

package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/orchestrator/store/storetest"
)

// TestVersions checks the promises of the store on every supported version of the server other than Debian's.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, version := range []int{14, 16, 17, 18} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			server := postgrestest.StartVersion(t, version)
			storetest.Exercise(t, func(testing.TB) string { return postgrestest.Place(server) }, openAt)
		})
	}
}

// TestServerBefore14IsRefused checks that an older server, which lacks the features that coordinate writers, is
// refused.
func TestServerBefore14IsRefused(t *testing.T) {
	t.Parallel()
	address := postgrestest.Place(postgrestest.StartVersion(t, 13))
	_, err := at(t, address).Create()
	var e *orchestrator.Error
	if !errors.As(err, &e) || e.Code != orchestrator.Unavailable || !strings.Contains(e.Message, "is PostgreSQL 13.") ||
		!strings.Contains(e.Message, "14 or later") || e.Hint == "" {
		t.Errorf("%#v", err)
	}
	rows, err := postgrestest.SQL(t.Context(), address, `SELECT count(*) FROM pg_namespace WHERE nspname ^@ 't'`)
	if err != nil || rows[0] != "0" {
		t.Errorf("schemas made: %v, %v", rows, err)
	}
}
