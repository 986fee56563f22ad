package agents

import (
	"context"
	"maps"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Group is a name for several agents. A message to a group goes to each of its members.
type Group struct {
	Name    string   `json:"name"`
	Members []string `json:"members"` // in order of joining
}

// Groups returns the groups, sorted by name after the built-in group orchestrator.Everyone.
func Groups(ctx context.Context, l *ledger.Ledger) ([]Group, error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	list := []Group{{orchestrator.Everyone, append([]string{}, conf.Names...)}}
	for _, name := range groupNames(conf) {
		list = append(list, Group{name, append([]string{}, conf.Groups[name]...)})
	}
	return list, nil
}

// GroupChange is the result of a change of a group: the group as it is now, and its members before.
type GroupChange struct {
	Group
	Before []string // its members before; nil: the group did not exist
}

// SetGroup creates a group, or replaces the members of an existing group. With an empty list the group has no
// members. Errors: invalid_params; not_found for an unknown member; conflict if an agent has the group's name.
func SetGroup(ctx context.Context, l *ledger.Ledger, name string, members []string) (GroupChange, error) {
	return changeGroup(ctx, l, name, members, func(t *ledger.Tx, g *GroupChange, named []string) error {
		conf := t.Config()
		if conf.Agents[g.Name] != nil {
			return orchestrator.Errorf(orchestrator.Conflict, "%s is the name of an agent", g.Name).
				WithHint("Choose another name for the group")
		}
		if err := areAgents(conf, named); err != nil {
			return err
		}
		if err := t.Run(`INSERT INTO groups (name, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING`, g.Name,
			t.Now); err != nil {
			return err
		}
		if err := t.Run(`DELETE FROM group_members WHERE group_name = ?`, g.Name); err != nil {
			return err
		}
		g.Members = []string{}
		return addMembers(t, g, named)
	})
}

// AddToGroup adds agents at the end of a group's list of members. Agents that are already members keep their place.
// Errors: invalid_params; not_found for an unknown member or group.
func AddToGroup(ctx context.Context, l *ledger.Ledger, name string, members []string) (GroupChange, error) {
	return changeGroup(ctx, l, name, members, func(t *ledger.Tx, g *GroupChange, named []string) error {
		conf := t.Config()
		if g.Before == nil {
			return noGroup(conf, g.Name)
		}
		if err := areAgents(conf, named); err != nil {
			return err
		}
		return addMembers(t, g, named)
	})
}

// RemoveFromGroup removes members from a group. If one of them is not a member, it removes none. Errors:
// invalid_params; not_found for an unknown group or an agent that is not a member.
func RemoveFromGroup(ctx context.Context, l *ledger.Ledger, name string, members []string) (GroupChange, error) {
	return changeGroup(ctx, l, name, members, func(t *ledger.Tx, g *GroupChange, named []string) error {
		if g.Before == nil {
			return noGroup(t.Config(), g.Name)
		}
		for _, m := range named {
			if !slices.Contains(g.Before, m) {
				return orchestrator.Errorf(orchestrator.NotFound, "%s is not in the group %s", m, g.Name).
					WithHint("%s", orchestrator.DidYouMean(m, g.Before))
			}
			if err := t.Run(`DELETE FROM group_members WHERE group_name = ? AND agent = ?`, g.Name, m); err != nil {
				return err
			}
		}
		g.Members = slices.DeleteFunc(g.Members, func(have string) bool { return slices.Contains(named, have) })
		return nil
	})
}

// addMembers appends the agents that are not yet members.
func addMembers(t *ledger.Tx, g *GroupChange, named []string) error {
	for _, m := range named {
		if slices.Contains(g.Members, m) {
			continue
		}
		if err := addMember(t, g.Name, m); err != nil {
			return err
		}
		g.Members = append(g.Members, m)
	}
	return nil
}

// changeGroup runs a change of a group. The names that change gets are checked, folded and unique. A change leaves
// rows of members alone that the configuration ignores, unless it replaces all members; the doctor reports such
// rows.
func changeGroup(ctx context.Context, l *ledger.Ledger, name string, members []string,
	change func(t *ledger.Tx, g *GroupChange, named []string) error,
) (g GroupChange, err error) {
	if name, err = orchestrator.CheckNewName("group", name); err != nil {
		return g, err
	}
	named := []string{}
	for _, m := range members {
		if m, err = orchestrator.CheckName("agent", m); err != nil {
			return g, err
		}
		if !slices.Contains(named, m) {
			named = append(named, m)
		}
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		before, known := t.Config().Groups[name]
		g = GroupChange{Group: Group{Name: name, Members: append([]string{}, before...)}}
		if known {
			g.Before = append([]string{}, before...)
		}
		if err := change(t, &g, named); err != nil {
			return err
		}
		if known && slices.Equal(g.Members, g.Before) {
			return nil
		}
		return t.ConfigChanged()
	})
	return g, err
}

// areAgents returns an error if one of the names cannot be a member of a group.
func areAgents(conf *ledger.Config, members []string) error {
	for _, m := range members {
		if orchestrator.IsBuiltIn(m) {
			return NoMember(m, "group")
		}
		if conf.Agents[m] == nil {
			return orchestrator.Errorf(orchestrator.NotFound, "there is no agent %q", m).
				WithHint("%s", whoThereIs(m, conf))
		}
	}
	return nil
}

// DeleteGroup deletes a group and returns it as it was. Messages already sent to it are not affected. Errors:
// invalid_params for the built-in groups; not_found.
func DeleteGroup(ctx context.Context, l *ledger.Ledger, name string) (g Group, err error) {
	if name, err = orchestrator.CheckName("group", name); err != nil {
		return g, err
	}
	if name == orchestrator.Everyone || slices.Contains(orchestrator.PresetGroups, name) {
		return g, orchestrator.Errorf(orchestrator.InvalidParams, "%s is a built-in group that you cannot delete", name).
			WithHint("%s", map[bool]string{
				true: "All agents are members of this group", false: "To remove all members, run `mailroom group set " + name + "`",
			}[name == orchestrator.Everyone])
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		conf := t.Config()
		members, there := conf.Groups[name]
		if !there {
			return noGroup(conf, name)
		}
		g = Group{Name: name, Members: append([]string{}, members...)}
		if err := t.Run(`DELETE FROM group_members WHERE group_name = ?`, name); err != nil {
			return err
		}
		if err := t.Run(`DELETE FROM groups WHERE name = ?`, name); err != nil {
			return err
		}
		return t.ConfigChanged()
	})
	return g, err
}

// groupNames returns the names of the stored groups, sorted.
func groupNames(conf *ledger.Config) []string { return slices.Sorted(maps.Keys(conf.Groups)) }

// GroupsWithMembers returns the names of the stored groups that have at least one member, sorted.
func GroupsWithMembers(conf *ledger.Config) []string {
	return slices.DeleteFunc(groupNames(conf), func(group string) bool { return len(conf.Groups[group]) == 0 })
}

// noGroup returns the error for the name of a group that does not exist.
func noGroup(conf *ledger.Config, name string) error {
	return orchestrator.Errorf(orchestrator.NotFound, "there is no group %q", name).
		WithHint("%s", strings.TrimSpace(orchestrator.DidYouMean(name, groupNames(conf))+
			" To list the groups, run `mailroom group list`. To create a group, run `mailroom group set`"))
}

// joinGroup adds an agent at the end of an existing group, unless it is already a member.
func joinGroup(t *ledger.Tx, group, agent string) error {
	members, ok := t.Config().Groups[group]
	if !ok {
		return noGroup(t.Config(), group)
	}
	if slices.Contains(members, agent) {
		return nil
	}
	return addMember(t, group, agent)
}

// addMember adds an agent at the end of a group.
func addMember(t *ledger.Tx, group, agent string) error {
	return t.Run(`
		INSERT INTO group_members (group_name, agent, position)
		SELECT ?1, ?2, 1 + coalesce(max(position), 0) FROM group_members WHERE group_name = ?1`, group, agent)
}

// Members returns the agents that a recipient stands for: the agent itself, the members of a group, or the agents
// that have a role. several is true for a group or a role, however many agents it has.
func Members(conf *ledger.Config, recipient string) (names []string, several bool) {
	if recipient == orchestrator.Everyone {
		return conf.Names, true
	}
	if conf.Agents[recipient] != nil {
		return []string{recipient}, false
	}
	if strings.HasPrefix(recipient, orchestrator.RolePrefix) {
		return WithRole(conf, conf.Names, recipient), true
	}
	names, several = conf.Groups[recipient]
	return names, several
}

// MembersOf returns the agents that would get a message to this recipient, or none if nobody has the name. Errors:
// those of the database.
func MembersOf(ctx context.Context, l *ledger.Ledger, recipient string) ([]string, error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	names, _ := Members(conf, recipient)
	return names, nil
}

// WithRole returns the named agents that have the role in recipient, which is role:ROLE.
func WithRole(conf *ledger.Config, names []string, recipient string) (with []string) {
	role := strings.TrimPrefix(recipient, orchestrator.RolePrefix)
	for _, name := range names {
		if a := conf.Agents[name]; a != nil && orchestrator.FoldRole(a.Role) == role {
			with = append(with, name)
		}
	}
	return with
}

// NobodyIn returns the error for a message to a group without members, or to a role that no agent has.
func NobodyIn(conf *ledger.Config, recipient string) error {
	role, is := strings.CutPrefix(recipient, orchestrator.RolePrefix)
	if !is {
		return orchestrator.Errorf(orchestrator.InvalidParams, "the group %s has no members", recipient).
			WithHint("To add a member, run `mailroom group add %s AGENT`", recipient)
	}
	var known []string
	for _, name := range conf.Names {
		if has := orchestrator.FoldRole(conf.Agents[name].Role); has != "" && !slices.Contains(known, has) {
			known = append(known, has)
		}
	}
	slices.Sort(known)
	e := orchestrator.Errorf(orchestrator.UnknownRecipient, "no agent has the role %q", orchestrator.Clip(role))
	if len(known) == 0 {
		return e.WithHint("No agent has a role yet. To set a role, run `mailroom agent add NAME --role %s`",
			orchestrator.Clip(role))
	}
	shown := known[:min(len(known), 20)]
	e.Details = map[string]any{"roles": shown}
	return e.WithHint("The roles are: %s", strings.Join(shown, ", "))
}
