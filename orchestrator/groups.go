package orchestrator

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// Group is a name that stands for several agents.
type Group struct {
	Name    string   `json:"name"`
	Members []string `json:"members"` // in order of joining
}

// Groups lists the groups by name; the built-in group of everybody comes first.
func (r *Router) Groups(ctx context.Context) ([]Group, error) {
	conf, err := r.configuration(ctx)
	if err != nil {
		return nil, err
	}
	list := []Group{{Everyone, append([]string{}, conf.names...)}}
	for _, name := range conf.groupNames() {
		list = append(list, Group{name, append([]string{}, conf.groups[name]...)})
	}
	return list, nil
}

// GroupChange is a group as it is now, and what it was.
type GroupChange struct {
	Group
	Before []string // its members until now; nil: there was no such group
}

// SetGroup makes a group, or replaces its members. An empty list empties it. Errors: invalid_params, not_found for an
// unknown member, conflict when an agent has the name.
func (r *Router) SetGroup(ctx context.Context, name string, members []string) (GroupChange, error) {
	return r.changeGroup(ctx, name, members, func(t *tx, conf *config, g *GroupChange, members []string) error {
		if conf.agents[g.Name] != nil {
			return Errorf(Conflict, "%s is the name of an agent", g.Name).WithHint("Choose another name for the group")
		}
		if err := conf.areAgents(members); err != nil {
			return err
		}
		if _, err := t.Exec(`INSERT INTO groups (name, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING`, g.Name, t.now); err != nil {
			return err
		}
		if _, err := t.Exec(`DELETE FROM group_members WHERE group_name = ?`, g.Name); err != nil {
			return err
		}
		g.Members = members
		for _, m := range members {
			if err := t.storeMember(g.Name, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// AddToGroup adds agents to a group, behind its members; those that are in it stay where they are. Errors: invalid_params,
// not_found for an unknown member or group.
func (r *Router) AddToGroup(ctx context.Context, name string, members []string) (GroupChange, error) {
	return r.changeGroup(ctx, name, members, func(t *tx, conf *config, g *GroupChange, members []string) error {
		if g.Before == nil {
			return conf.noGroup(g.Name)
		}
		if err := conf.areAgents(members); err != nil {
			return err
		}
		for _, m := range members {
			if err := t.joinGroup(conf, g.Name, m); err != nil {
				return err
			}
			if !slices.Contains(g.Members, m) {
				g.Members = append(g.Members, m)
			}
		}
		return nil
	})
}

// RemoveFromGroup takes members out of a group. Errors: invalid_params; not_found for an unknown group, and for who is not in
// it; then nobody is taken out.
func (r *Router) RemoveFromGroup(ctx context.Context, name string, members []string) (GroupChange, error) {
	return r.changeGroup(ctx, name, members, func(t *tx, conf *config, g *GroupChange, members []string) error {
		if g.Before == nil {
			return conf.noGroup(g.Name)
		}
		for _, m := range members {
			if !slices.Contains(g.Before, m) {
				return Errorf(NotFound, "%s is not in the group %s", m, g.Name).WithHint("%s", didYouMean(m, g.Before))
			}
			if _, err := t.Exec(`DELETE FROM group_members WHERE group_name = ? AND agent = ?`, g.Name, m); err != nil {
				return err
			}
			g.Members = slices.DeleteFunc(g.Members, func(have string) bool { return have == m })
		}
		return nil
	})
}

// changeGroup runs a change of a group, whose name and members it has checked and brought into their form.
func (r *Router) changeGroup(ctx context.Context, name string, members []string,
	change func(t *tx, conf *config, g *GroupChange, members []string) error,
) (g GroupChange, err error) {
	if name, err = checkNewName("group", name); err != nil {
		return g, err
	}
	list := []string{}
	for _, m := range members {
		if m, err = CheckName("agent", m); err != nil {
			return g, err
		}
		if !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	err = r.write(ctx, func(t *tx) error {
		conf, err := t.config()
		if err != nil {
			return err
		}
		before, known := conf.groups[name]
		g = GroupChange{Group: Group{Name: name, Members: append([]string{}, before...)}}
		if known {
			g.Before = append([]string{}, before...)
		}
		if err := change(t, conf, &g, list); err != nil {
			return err
		}
		if known && slices.Equal(g.Members, g.Before) {
			return nil
		}
		return t.configChanged()
	})
	return g, err
}

// areAgents refuses what cannot be a member of a group.
func (conf *config) areAgents(members []string) error {
	for _, m := range members {
		if IsBuiltIn(m) {
			return noMember(m, "group")
		}
		if conf.agents[m] == nil {
			return Errorf(NotFound, "there is no agent %q", m).WithHint("%s", whoThereIs(m, conf))
		}
	}
	return nil
}

// DeleteGroup removes a group and returns it as it was. What was sent to it is not touched. Errors: invalid_params for the
// groups that are always there; not_found.
func (r *Router) DeleteGroup(ctx context.Context, name string) (g Group, err error) {
	if name, err = CheckName("group", name); err != nil {
		return g, err
	}
	if name == Everyone || slices.Contains(presetGroups, name) {
		return g, Errorf(InvalidParams, "the group %s is always there", name).WithHint("%s", map[bool]string{
			true: "Everybody is in it", false: "`mailroom group set " + name + "` empties it",
		}[name == Everyone])
	}
	err = r.write(ctx, func(t *tx) error {
		conf, err := t.config()
		if err != nil {
			return err
		}
		g = Group{Name: name, Members: append([]string{}, conf.groups[name]...)}
		stored, err := t.number(`SELECT EXISTS (SELECT 1 FROM groups WHERE name = ?)`, name)
		if err != nil {
			return err
		}
		if stored == 0 {
			return conf.noGroup(name)
		}
		if _, err := t.Exec(`DELETE FROM group_members WHERE group_name = ?`, name); err != nil {
			return err
		}
		if _, err := t.Exec(`DELETE FROM groups WHERE name = ?`, name); err != nil {
			return err
		}
		return t.configChanged()
	})
	return g, err
}

// groupNames lists the stored groups by name.
func (conf *config) groupNames() []string { return slices.Sorted(maps.Keys(conf.groups)) }

// groupsWithMembers are the stored groups to which anybody can send, by name.
func (conf *config) groupsWithMembers() []string {
	return slices.DeleteFunc(conf.groupNames(), func(group string) bool { return len(conf.groups[group]) == 0 })
}

// noGroup is the error for the name of a group that there is not.
func (conf *config) noGroup(name string) error {
	return Errorf(NotFound, "there is no group %q", name).
		WithHint("%s", strings.TrimSpace(didYouMean(name, conf.groupNames())+" `mailroom group list` lists them; `mailroom group set` makes one"))
}

// joinGroup adds an agent at the end of an existing group, unless it is in it.
func (t *tx) joinGroup(conf *config, group, agent string) error {
	members, ok := conf.groups[group]
	if !ok {
		return conf.noGroup(group)
	}
	if slices.Contains(members, agent) {
		return nil
	}
	return t.storeMember(group, agent)
}

// storeMember adds an agent at the end of a group.
func (t *tx) storeMember(group, agent string) error {
	_, err := t.Exec(`
		INSERT INTO group_members (group_name, agent, position)
		SELECT ?1, ?2, 1 + coalesce(max(position), 0) FROM group_members WHERE group_name = ?1`, group, agent)
	return err
}

// members resolves a recipient: the agent itself, the members of the group, or those who have the role. several tells that it
// stands for any number of agents.
func (conf *config) members(recipient string) (names []string, several bool) {
	if recipient == Everyone {
		return conf.names, true
	}
	if conf.agents[recipient] != nil {
		return []string{recipient}, false
	}
	if strings.HasPrefix(recipient, RolePrefix) {
		return conf.withRole(conf.names, recipient), true
	}
	names, several = conf.groups[recipient]
	return names, several
}

// MembersOf returns the agents that get what is sent to a recipient; none for who is not known. Errors: those of the database.
func (r *Router) MembersOf(ctx context.Context, recipient string) ([]string, error) {
	conf, err := r.configuration(ctx)
	if err != nil {
		return nil, err
	}
	names, _ := conf.members(recipient)
	return names, nil
}

// withRole picks those of the agents that have the role which a recipient names.
func (conf *config) withRole(names []string, recipient string) (with []string) {
	role := strings.TrimPrefix(recipient, RolePrefix)
	for _, name := range names {
		if a := conf.agents[name]; a != nil && foldRole(a.Role) == role {
			with = append(with, name)
		}
	}
	return with
}

// nobodyIn is the error for a recipient that stands for several agents, and has none.
func (conf *config) nobodyIn(recipient string) error {
	role, is := strings.CutPrefix(recipient, RolePrefix)
	if !is {
		return Errorf(InvalidParams, "the group %s has no members", recipient).WithHint("Add some with `mailroom group add %s AGENT`", recipient)
	}
	var known []string
	for _, name := range conf.names {
		if has := foldRole(conf.agents[name].Role); has != "" && !slices.Contains(known, has) {
			known = append(known, has)
		}
	}
	slices.Sort(known)
	e := Errorf(UnknownRecipient, "no agent has the role %q", Clip(role))
	if len(known) == 0 {
		return e.WithHint("No agent has a role yet; `mailroom agent add NAME --role %s` gives one", Clip(role))
	}
	shown := known[:min(len(known), 20)]
	e.Details = map[string]any{"roles": shown}
	return e.WithHint("The roles are: %s", strings.Join(shown, ", "))
}
