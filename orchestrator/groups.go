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
	conf, err := r.configuration()
	if err != nil {
		return nil, err
	}
	list := []Group{{Everyone, append([]string{}, conf.names...)}}
	for _, name := range conf.groupNames() {
		list = append(list, Group{name, append([]string{}, conf.groups[name]...)})
	}
	return list, nil
}

// SetGroup makes a group, or replaces its members. An empty list empties it. Errors: invalid_params, not_found for an
// unknown member, conflict when an agent has the name.
func (r *Router) SetGroup(ctx context.Context, name string, members []string) (Group, error) {
	name, err := checkNewName("group", name)
	if err != nil {
		return Group{}, err
	}
	group := Group{Name: name, Members: []string{}}
	for _, m := range members {
		if m, err = CheckName("agent", m); err != nil {
			return Group{}, err
		}
		if !slices.Contains(group.Members, m) {
			group.Members = append(group.Members, m)
		}
	}
	err = r.write(ctx, func(t *tx) error {
		conf, err := t.config()
		if err != nil {
			return err
		}
		if conf.agents[name] != nil {
			return Errorf(Conflict, "%s is the name of an agent", name).WithHint("Choose another name for the group")
		}
		for _, m := range group.Members {
			if IsBuiltIn(m) {
				return noMember(m, "group")
			}
			if conf.agents[m] == nil {
				return Errorf(NotFound, "there is no agent %q", m).WithHint("%s", didYouMean(m, conf.names))
			}
		}
		if _, err := t.Exec(`INSERT INTO groups (name, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING`, name, t.now); err != nil {
			return err
		}
		if _, err := t.Exec(`DELETE FROM group_members WHERE group_name = ?`, name); err != nil {
			return err
		}
		for i, m := range group.Members {
			if _, err := t.Exec(`INSERT INTO group_members (group_name, agent, position) VALUES (?, ?, ?)`, name, m, i+1); err != nil {
				return err
			}
		}
		return t.configChanged()
	})
	return group, err
}

// groupNames lists the stored groups by name.
func (conf *config) groupNames() []string { return slices.Sorted(maps.Keys(conf.groups)) }

// joinGroup adds an agent at the end of an existing group.
func (t *tx) joinGroup(conf *config, group, agent string) error {
	members, ok := conf.groups[group]
	if !ok {
		return Errorf(NotFound, "there is no group %q", group).
			WithHint("%s", strings.TrimSpace(didYouMean(group, conf.groupNames())+" `mailroom group list` lists them; `mailroom group set` makes one"))
	}
	if slices.Contains(members, agent) {
		return nil
	}
	_, err := t.Exec(`
		INSERT INTO group_members (group_name, agent, position)
		SELECT ?1, ?2, 1 + coalesce(max(position), 0) FROM group_members WHERE group_name = ?1`, group, agent)
	return err
}

// members resolves a recipient: the agent itself, or the members of the group. isGroup tells which it was.
func (conf *config) members(recipient string) (names []string, isGroup bool) {
	if recipient == Everyone {
		return conf.names, true
	}
	if conf.agents[recipient] != nil {
		return []string{recipient}, false
	}
	members, isGroup := conf.groups[recipient]
	return members, isGroup
}
