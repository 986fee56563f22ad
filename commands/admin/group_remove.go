package admin

import (
	"context"

	"mailroom/commands"
)

var groupRemoveCommand = commands.Define(vocabulary, "group remove", groupRemove)

func groupRemove(ctx context.Context, env commands.Env, p GroupMembersParams) (GroupMembersResult, error) {
	change, err := env.Ledger.RemoveFromGroup(ctx, p.Name, p.Members)
	return GroupMembersResult{change.Group}, err
}
