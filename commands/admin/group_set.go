package admin

import (
	"context"
	"strings"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// GroupSetParams say who is in a group.
type GroupSetParams struct {
	Name    string   `json:"name" desc:"name of the group" check:"agent|group" arg:"1"`
	Members []string `json:"members,omitempty" desc:"agents in it, all of them; none empties it" check:"agent" arg:"rest"`
}

// GroupSetResult is the group as it is now.
type GroupSetResult struct {
	Group orchestrator.Group `json:"group"`
}

var groupSetCommand = commands.Define(vocabulary, "group set", groupSet)

// groupSet replaces the members; repeating it changes nothing.
func groupSet(ctx context.Context, env commands.Env, p GroupSetParams) (GroupSetResult, error) {
	group, err := env.Router.SetGroup(ctx, p.Name, p.Members)
	return GroupSetResult{Group: group}, err
}

// Text says it in a sentence.
func (r GroupSetResult) Text(w *commands.Text) {
	if len(r.Group.Members) == 0 {
		w.Printf("%s has no members now; nobody can send to it.\n", r.Group.Name)
		return
	}
	w.Printf("%s: %s.\n", r.Group.Name, strings.Join(r.Group.Members, ", "))
}
