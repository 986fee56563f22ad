package orchestrator

import (
	"context"
	"slices"
)

func (conf *config) groupsOf(agent string) []string {
	groups := []string{}
	for group, members := range conf.groups {
		if slices.Contains(members, agent) {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return groups
}

// Agents lists the agents that are known, by name. BuiltIns lists who else there is.
func (r *Router) Agents(ctx context.Context) ([]Agent, error) {
	conf, err := r.configuration(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Agent, 0, len(conf.names))
	for _, name := range conf.names {
		a := *conf.agents[name]
		a.Groups = conf.groupsOf(name)
		list = append(list, a)
	}
	return list, nil
}

// MustKnow refuses the name of an agent that nobody has. Error: unknown_recipient, with the nearest known names.
func (r *Router) MustKnow(ctx context.Context, name string) error {
	name = foldName(name)
	return r.read(ctx, func(c *Conn) error {
		conf, err := r.config.load(c)
		if err == nil && conf.agents[name] == nil {
			err = c.unknownAgent(UnknownRecipient, "", name, conf)
		}
		return err
	})
}

// Agent returns one known agent, or the operator or the user. Error: not_found, with the nearest known names.
func (r *Router) Agent(ctx context.Context, name string) (Agent, error) {
	conf, err := r.configuration(ctx)
	if err != nil {
		return Agent{}, err
	}
	a := conf.agents[foldName(name)]
	if a == nil || r.partOf(a.Name) != nil {
		return Agent{}, r.read(ctx, func(c *Conn) error { return c.noAgent(foldName(name), conf) })
	}
	found := *a
	found.Groups, found.Note = conf.groupsOf(a.Name), conf.takenNote(a.Name)
	return found, nil
}

// wakeStarter rings for an agent whose session may have to be started: what was sent rang too early.
func (t *tx) wakeStarter(conf *config, recipient string) {
	if a := conf.agents[recipient]; a != nil && a.StartCommand != "" {
		t.ring.add([]string{recipient})
	}
}
