package roster

import (
	"context"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/agents"
)

// GroupSetParams names a group and all its members.
type GroupSetParams struct {
	Name    string   `json:"name" desc:"name of the group" check:"agent|group" arg:"1"`
	Members []string `json:"members,omitempty" desc:"all agents of the group; without agents, the group becomes empty" check:"agent" arg:"rest"`
}

// GroupSetResult is the group after the change, and its previous members.
type GroupSetResult struct {
	Group    agents.Group `json:"group"`
	Replaced *[]string    `json:"replaced,omitempty"` // previous members; left out if the group is new
}

var groupSetCommand = commands.Define(vocabulary, "group set", groupSet).Knowing("name", knownGroups)

// groupSet replaces the members of a group. Repeating the call changes nothing.
func groupSet(ctx context.Context, env commands.Env, p GroupSetParams) (GroupSetResult, error) {
	change, err := agents.SetGroup(ctx, env.Ledger, p.Name, p.Members)
	r := GroupSetResult{Group: change.Group}
	if change.Before != nil {
		r.Replaced = &change.Before
	}
	return r, err
}

// Text writes the members of the group, and the previous members if they differ.
func (r GroupSetResult) Text(w *terminal.Text) {
	textOfGroup(w, &r.Group)
	if r.Replaced != nil && !slices.Equal(*r.Replaced, r.Group.Members) && len(*r.Replaced) > 0 {
		w.Printf("Members before: %s.\n", strings.Join(*r.Replaced, ", "))
	}
}

// textOfGroup writes the members of a group.
func textOfGroup(w *terminal.Text, g *agents.Group) {
	if len(g.Members) == 0 {
		w.Printf("The group %s has no members now. Nobody can send messages to it.\n", g.Name)
		return
	}
	w.Printf("%s: %s.\n", g.Name, strings.Join(g.Members, ", "))
}
