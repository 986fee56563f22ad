package roster

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/agents"
)

// GroupMembersParams name a group and some of its members, or who is to be one.
type GroupMembersParams struct {
	Name    string   `json:"name" desc:"name of the group" check:"agent|group" arg:"1"`
	Members []string `json:"members" desc:"names of the agents" check:"agent,min=1" arg:"rest"`
}

// GroupMembersResult is the group as it is now.
type GroupMembersResult struct {
	Group agents.Group `json:"group"`
}

var groupAddCommand = commands.Define(vocabulary, "group add", groupAdd).Knowing("name", knownGroups)

// groupAdd leaves who is a member already where it stands; repeating it changes nothing.
func groupAdd(ctx context.Context, env commands.Env, p GroupMembersParams) (GroupMembersResult, error) {
	change, err := agents.AddToGroup(ctx, env.Ledger, p.Name, p.Members)
	return GroupMembersResult{change.Group}, err
}

// Text says it in a sentence.
func (r GroupMembersResult) Text(w *terminal.Text) { textOfGroup(w, &r.Group) }
