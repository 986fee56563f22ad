package roster

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/agents"
)

// GroupMembersParams names a group and the members to add or remove.
type GroupMembersParams struct {
	Name    string   `json:"name" desc:"name of the group" check:"agent|group" arg:"1"`
	Members []string `json:"members" desc:"names of the agents" check:"agent,min=1" arg:"rest"`
}

// GroupMembersResult is the group after the change.
type GroupMembersResult struct {
	Group agents.Group `json:"group"`
}

var groupAddCommand = commands.Define(vocabulary, "group add", groupAdd).Knowing("name", knownGroups)

// groupAdd adds members to a group. Existing members keep their position, so repeating the call changes nothing.
func groupAdd(ctx context.Context, env commands.Env, p GroupMembersParams) (GroupMembersResult, error) {
	change, err := agents.AddToGroup(ctx, env.Ledger, p.Name, p.Members)
	return GroupMembersResult{change.Group}, err
}

// Text writes the members of the group.
func (r GroupMembersResult) Text(w *terminal.Text) { textOfGroup(w, &r.Group) }
