//go:build postgres

package postgres

import (
	"fmt"
	"testing"

	"mailroom/orchestrator/store/postgres/postgrestest"
)

// TestStatementsOfVersions makes servers of all other versions prepare every statement of the engine.
func TestStatementsOfVersions(t *testing.T) {
	for _, version := range []int{14, 16, 17, 18} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			prepareAll(t, postgrestest.StartVersion(t, version))
		})
	}
}
