package roster

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/agents"
)

var groupRemoveCommand = commands.Define(vocabulary, "group remove", groupRemove).Knowing("name", knownGroups)

func groupRemove(ctx context.Context, env commands.Env, p GroupMembersParams) (GroupMembersResult, error) {
	change, err := agents.RemoveFromGroup(ctx, env.Ledger, p.Name, p.Members)
	return GroupMembersResult{change.Group}, err
}
