package roster

import (
	"context"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/agents"
)

// GroupListResult lists the groups.
type GroupListResult struct {
	Groups []agents.Group `json:"groups"`
}

var groupListCommand = commands.Define(vocabulary, "group list", groupList)

func groupList(ctx context.Context, env commands.Env, _ struct{}) (GroupListResult, error) {
	groups, err := agents.Groups(ctx, env.Ledger)
	return GroupListResult{Groups: groups}, err
}

// Text writes a table.
func (r GroupListResult) Text(w *terminal.Text) {
	terminal.TableOf(w, []string{"GROUP", "MEMBERS"}, r.Groups, func(g *agents.Group) []string {
		return []string{g.Name, strings.Join(g.Members, ", ")}
	})
}

// knownGroups returns the groups, as completions for a shell.
func knownGroups(ctx context.Context, env commands.Env) ([]commands.Known, error) {
	list, err := agents.Groups(ctx, env.Ledger)
	return commands.KnownOf(list, func(g *agents.Group) commands.Known {
		return commands.Known{Value: g.Name, About: strings.Join(g.Members, ", ")}
	}), err
}
