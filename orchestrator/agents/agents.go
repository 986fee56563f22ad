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

// List returns the agents, sorted by name. The operator and the user are no agents; BuiltIns returns them.
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

// MustKnow returns an error unless an agent with this name exists. Error: unknown_recipient, whose hint names the most similar
// agents.
func MustKnow(ctx context.Context, l *ledger.Ledger, name string) error {
	name = orchestrator.FoldName(name)
	return l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		if conf.Agents[name] == nil {
			return Unknown(c, orchestrator.UnknownRecipient, "", name, conf)
		}
		return nil
	})
}

// Get returns an agent, or the operator or the user, by name. Error: not_found, whose hint names the most similar agents.
func Get(ctx context.Context, l *ledger.Ledger, name string) (found ledger.Agent, err error) {
	name = orchestrator.FoldName(name)
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		a := conf.Agents[name]
		if a == nil || l.PartOf(name) != nil {
			return NoAgent(c, name, conf)
		}
		found = *a
		found.Groups, found.Note = groupsOf(conf, name), takenNote(conf, name)
		return nil
	})
	return found, err
}

// WakeStarter rings the bell for an agent that has a start command, once the transaction is committed. The ring of the original
// send came too early to start its session: the message was not delivered yet.
func WakeStarter(t *ledger.Tx, recipient string) {
	if a := t.Config().Agents[recipient]; a != nil && a.StartCommand != "" {
		t.Wake(recipient)
	}
}
