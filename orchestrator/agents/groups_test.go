package agents_test

import (
	"context"
	"testing"

	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// Adding and removing members of a group changes no other row: names that are no longer agents stay, and members
// keep their places.
func TestGroupChangesLeaveOtherRows(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "g", []string{"b", "a"}); err != nil {
		t.Fatal(err)
	}
	f.SQL(`INSERT INTO group_members VALUES ('g', 'gone', 0), ('g', 'left', 4)`)
	f.Set("retry.max_retries", "2") // makes every process read the configuration again
	for _, step := range []struct {
		change func(context.Context, *ledger.Ledger, string, []string) (agents.GroupChange, error)
		named  []string
		rows   []string
	}{
		{agents.AddToGroup, []string{"b", "c"}, []string{"0 gone", "1 b", "2 a", "4 left", "5 c"}},
		{agents.RemoveFromGroup, []string{"b"}, []string{"0 gone", "2 a", "4 left", "5 c"}},
		{agents.SetGroup, []string{"c"}, []string{"1 c"}},
	} {
		if _, err := step.change(t.Context(), f.Ledger, "g", step.named); err != nil {
			t.Fatal(err)
		}
		want.Rows(t, f.Rows(`SELECT position, agent FROM group_members WHERE group_name = 'g' ORDER BY position`),
			step.rows...)
	}
}
