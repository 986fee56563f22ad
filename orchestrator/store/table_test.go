package store_test

import (
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
)

// Columns of one name get numbers, however many there are, and whatever others are called.
func TestUniqueColumns(t *testing.T) {
	t.Parallel()
	many := make([]string, 30)
	for i := range many {
		many[i] = "n"
	}
	names := store.UniqueColumns(append(many, "m_2", "m", "m"))
	want.Equal(t, "the thirtieth", names[29], "n_30")
	want.Equal(t, "one whose number is taken", names[32], "m_3")
}
