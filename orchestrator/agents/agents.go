// Package agents holds who can send and be written to: agents, groups, tokens, what each was last known to do, and the
// operator and the user of this machine.
package agents

import (
	"cmp"
	"context"
	"fmt"
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
	return Of(conf, conf.Names), nil
}

// Of returns the agents with these names, as the configuration knows them; the operator or the user may be among them.
func Of(conf *ledger.Config, names []string) []ledger.Agent {
	list := make([]ledger.Agent, len(names))
	for i, name := range names {
		list[i] = *conf.Agents[name]
		list[i].Groups = groupsOf(conf, name)
	}
	return list
}

// MustKnow returns an error unless an agent with this name exists. Error: unknown_recipient, whose hint names the most
// similar agents.
func MustKnow(ctx context.Context, l *ledger.Ledger, name string) error {
	name = orchestrator.FoldName(name)
	return l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		if conf.Agents[name] == nil {
			return Unknown(c, orchestrator.UnknownRecipient, "", name, conf)
		}
		return nil
	})
}

// Get returns an agent, or the operator or the user, by name. Error: not_found, whose hint names the most similar
// agents.
func Get(ctx context.Context, l *ledger.Ledger, name string) (found ledger.Agent, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		found, err = GetIn(c, l, conf, name)
		return err
	})
	return found, err
}

// GetIn is Get with the configuration of a transaction.
func GetIn(c *store.Conn, l *ledger.Ledger, conf *ledger.Config, name string) (ledger.Agent, error) {
	name = orchestrator.FoldName(name)
	if conf.Agents[name] == nil || l.PartOf(name) != nil {
		return ledger.Agent{}, NoAgent(c, name, conf)
	}
	return Of(conf, []string{name})[0], nil
}

// WakeStarter rings the bell for an agent that has a start command, once the transaction is committed. The ring of the
// original send came too early to start its session: the message was not delivered yet.
func WakeStarter(t *ledger.Tx, recipient string) {
	if a := t.Config().Agents[recipient]; a != nil && a.StartCommand != "" {
		t.Wake(recipient)
	}
}

// Unknown returns the error for a name that no agent has, with this code. It says so if the agent was removed. what
// begins the message and says whose name it is, as in "lead: "; it may be empty.
func Unknown(c *store.Conn, code orchestrator.Code, what, name string, conf *ledger.Config) error {
	return orRemoved(c, name, what, orchestrator.Errorf(code, "%sunknown agent %q", what, name).
		WithUnknown(name, conf.Names).
		WithHint("%s", orchestrator.MeantOrAdd(name, conf.Names)))
}

// NoAgent returns the not_found error for the name of an agent that was looked up.
func NoAgent(c *store.Conn, name string, conf *ledger.Config) error {
	return orRemoved(c, name, "", orchestrator.Errorf(orchestrator.NotFound, "there is no agent %q", name).
		WithHint("%s", whoThereIs(name, conf)))
}

// orRemoved returns an error about a name that nobody has, or in its place one that says that the agent was removed.
func orRemoved(c *store.Conn, name, what string, unknown *orchestrator.Error) error {
	at, err := RemovedAt(c, name)
	switch {
	case err != nil:
		return err
	case at != "":
		return Removed(unknown.Code, what, name, at)
	}
	return unknown
}

// Removed returns the error for the name of an agent that was removed at this time. what is as for Unknown.
func Removed(code orchestrator.Code, what, name, at string) *orchestrator.Error {
	return orchestrator.Errorf(code, "%s%s", what, wasRemoved(name, at)).
		WithHint("To restore the agent, run `mailroom agent add %s`", name).WithUnknown(name, nil)
}

// Nobody explains in words why no agent has this name: it was removed, or was never added.
func Nobody(c *store.Conn, name string) (string, error) {
	at, err := RemovedAt(c, name)
	if at != "" {
		return wasRemoved(name, at), err
	}
	return fmt.Sprintf("unknown agent %q", name), err
}

// RemovedAt returns when the agent with this name was removed; "" if none was, or if there is one again.
func RemovedAt(c *store.Conn, name string) (string, error) {
	at, _, err := c.Text(`SELECT removed_at FROM removed_agents WHERE name = ?`, name)
	return at, err
}

func wasRemoved(name, at string) string {
	return fmt.Sprintf("the agent %q was removed at %s", name, at)
}

// whoThereIs is the hint for the name of an agent that was looked up in vain.
func whoThereIs(name string, conf *ledger.Config) string {
	return cmp.Or(orchestrator.DidYouMean(name, conf.Names), "To list the agents, run `mailroom agent list`")
}
