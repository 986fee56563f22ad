package relay

import (
	"context"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/agents"
)

// ListGroupsResult lists the groups with their members, and the possible targets outside all groups. Source: document
// 000, "list_groups".
type ListGroupsResult struct {
	Groups []agents.Group `json:"groups"`
	Others []Other        `json:"others"`
}

// Other is the operator or the user.
type Other struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

var listGroupsCommand = commands.Define(vocabulary, "list_groups", listGroups).With(commands.Traits{ListsAgents: true})

func listGroups(ctx context.Context, env commands.Env, _ struct{}) (ListGroupsResult, error) {
	groups, err := agents.Groups(ctx, env.Ledger)
	if err != nil {
		return ListGroupsResult{}, err
	}
	r := ListGroupsResult{Groups: groups}
	builtIns, err := agents.BuiltIns(ctx, env.Ledger)
	for _, a := range builtIns {
		r.Others = append(r.Others, Other{a.Name, a.Role})
	}
	return r, err
}

// Text writes a line for each group.
func (r ListGroupsResult) Text(w *terminal.Text) {
	terminal.TableOf(w, []string{"GROUP", "MEMBERS"}, r.Groups, func(g *agents.Group) []string {
		return []string{g.Name, strings.Join(g.Members, ", ")}
	})
	for _, o := range r.Others {
		w.Printf("Not in any group: %s, %s.\n", o.Name, o.About)
	}
}
