package relay

import (
	"context"
	"strings"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// ListGroupsResult lists the groups with their members. Source: document 000, "list_groups".
type ListGroupsResult struct {
	Groups []orchestrator.Group `json:"groups"`
}

var listGroupsCommand = commands.Define(vocabulary, "list_groups", listGroups)

func listGroups(ctx context.Context, env commands.Env, _ struct{}) (ListGroupsResult, error) {
	groups, err := env.Router.Groups(ctx)
	return ListGroupsResult{Groups: groups}, err
}

// Text shows a line for each group.
func (r ListGroupsResult) Text(w *commands.Text) {
	rows := make([][]string, len(r.Groups))
	for i, g := range r.Groups {
		rows[i] = []string{g.Name, strings.Join(g.Members, ", ")}
	}
	w.Table([]string{"GROUP", "MEMBERS"}, rows)
}
