package roster

import (
	"context"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/agents"
)

// GroupDeleteParams names a group.
type GroupDeleteParams struct {
	Name string `json:"name" desc:"name of the group" check:"agent|group" arg:"1"`
}

// GroupDeleteResult is the group before it was deleted.
type GroupDeleteResult struct {
	Group agents.Group `json:"group"`
}

var groupDeleteCommand = commands.Define(vocabulary, "group delete", groupDelete).
	With(commands.Traits{Confirm: "This deletes the group {name}."}).Knowing("name", knownGroups)

func groupDelete(ctx context.Context, env commands.Env, p GroupDeleteParams) (GroupDeleteResult, error) {
	group, err := agents.DeleteGroup(ctx, env.Ledger, p.Name)
	return GroupDeleteResult{group}, err
}

// Text writes the result for people.
func (r GroupDeleteResult) Text(w *terminal.Text) {
	if len(r.Group.Members) == 0 {
		w.Printf("Deleted the group %s. It had no members.\n", r.Group.Name)
		return
	}
	w.Printf("Deleted the group %s. Its members were: %s.\n", r.Group.Name, strings.Join(r.Group.Members, ", "))
}
