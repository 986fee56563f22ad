package agents_test

import (
	"context"
	"testing"

	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// Adding members to a group and removing some changes no other row: what the configuration passes over stays for the doctor to
// name, and members keep their places.
func TestGroupChangesLeaveOtherRows(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "g", []string{"b", "a"}); err != nil {
		t.Fatal(err)
	}
	odd, hex := any([]byte{0xff}), "FF" // no name, be it for its type
	if f.OnServer() {
		odd, hex = "\u00ff", "C3BF"
	}
	f.SQL(`INSERT INTO group_members VALUES ('g', '', 0), ('g', ?, 3), ('g', 'user', 4)`, odd)
	f.Set("retry.max_retries", "2") // has everybody read it all anew
	for _, step := range []struct {
		change func(context.Context, *ledger.Ledger, string, []string) (agents.GroupChange, error)
		named  []string
		rows   []string
	}{
		{agents.AddToGroup, []string{"b", "c"}, []string{"0 ", "1 62", "2 61", "3 " + hex, "4 75736572", "5 63"}},
		{agents.RemoveFromGroup, []string{"b"}, []string{"0 ", "2 61", "3 " + hex, "4 75736572", "5 63"}},
		{agents.SetGroup, []string{"c"}, []string{"1 63"}},
	} {
		if _, err := step.change(t.Context(), f.Ledger, "g", step.named); err != nil {
			t.Fatal(err)
		}
		want.Rows(t, f.Rows(`SELECT position, hex(agent) FROM group_members WHERE group_name = 'g' ORDER BY position`), step.rows...)
	}
}
