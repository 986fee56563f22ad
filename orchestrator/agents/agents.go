// Package agents holds who can send and be written to: agents, groups, tokens, what each was last known to do, and the operator and
// the user of this machine.
package agents

import (
	"context"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

func groupsOf(conf *ledger.Config, agent string) []string {
	groups := []string{}
	for group, members := range conf.Groups {
		if slices.Contains(members, agent) {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return groups
}

// List lists the agents that are known, by name. BuiltIns lists who else there is.
func List(ctx context.Context, l *ledger.Ledger) ([]ledger.Agent, error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]ledger.Agent, 0, len(conf.Names))
	for _, name := range conf.Names {
		a := *conf.Agents[name]
		a.Groups = groupsOf(conf, name)
		list = append(list, a)
	}
	return list, nil
}

// MustKnow refuses the name of an agent that nobody has. Error: unknown_recipient, with the nearest known names.
func MustKnow(ctx context.Context, l *ledger.Ledger, name string) error {
	name = orchestrator.FoldName(name)
	return l.ReadTables(ctx, func(c *store.Conn) error {
		conf, err := l.Config.Load(c)
		if err == nil && conf.Agents[name] == nil {
			err = UnknownAgent(c, orchestrator.UnknownRecipient, "", name, conf)
		}
		return err
	})
}

// Get returns one known agent, or the operator or the user. Error: not_found, with the nearest known names.
func Get(ctx context.Context, l *ledger.Ledger, name string) (ledger.Agent, error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return ledger.Agent{}, err
	}
	a := conf.Agents[orchestrator.FoldName(name)]
	if a == nil || l.PartOf(a.Name) != nil {
		return ledger.Agent{}, l.ReadTables(ctx, func(c *store.Conn) error { return NoAgent(c, orchestrator.FoldName(name), conf) })
	}
	found := *a
	found.Groups, found.Note = groupsOf(conf, a.Name), takenNote(conf, a.Name)
	return found, nil
}

// WakeStarter rings for an agent whose session may have to be started: what was sent rang too early.
func WakeStarter(t *ledger.Tx, conf *ledger.Config, recipient string) {
	if a := conf.Agents[recipient]; a != nil && a.StartCommand != "" {
		t.Ring.Add([]string{recipient})
	}
}
