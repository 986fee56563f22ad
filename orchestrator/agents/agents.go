// Package agents manages the senders and recipients of messages: agents, groups, tokens, presences, and the
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

// List returns the agents, sorted by name. The operator and the user are not agents; BuiltIns returns them.
func List(ctx context.Context, l *ledger.Ledger) ([]ledger.Agent, error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	return Of(conf, conf.Names), nil
}

// Of returns the agents with these names from the configuration. The names may include the operator and the user.
func Of(conf *ledger.Config, names []string) []ledger.Agent {
	list := make([]ledger.Agent, len(names))
	for i, name := range names {
		list[i] = *conf.Agents[name]
		list[i].Groups = groupsOf(conf, name)
	}
	return list
}

// MustKnow returns an error unless an agent with this name exists. The error is unknown_recipient; its hint names
// the most similar agents.
func MustKnow(ctx context.Context, l *ledger.Ledger, name string) error {
	name = orchestrator.FoldName(name)
	return l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		if conf.Agents[name] == nil {
			return Unknown(c, orchestrator.UnknownRecipient, "", name, conf)
		}
		return nil
	})
}

// Get returns the agent with this name, or the operator or the user. The error is not_found; its hint names the
// most similar agents.
func Get(ctx context.Context, l *ledger.Ledger, name string) (found ledger.Agent, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		found, err = GetIn(c, l, conf, name)
		return err
	})
	return found, err
}

// GetIn returns an agent by name, like Get, with the configuration of a transaction.
func GetIn(c *store.Conn, l *ledger.Ledger, conf *ledger.Config, name string) (ledger.Agent, error) {
	name = orchestrator.FoldName(name)
	if conf.Agents[name] == nil || l.PartOf(name) != nil {
		return ledger.Agent{}, NoAgent(c, name, conf)
	}
	return Of(conf, []string{name})[0], nil
}

// WakeStarter rings the bell, once the transaction is committed, for an agent that has a start command. The ring of
// the original send came too early to start the agent's session, because the message was not delivered yet.
func WakeStarter(t *ledger.Tx, recipient string) {
	if a := t.Config().Agents[recipient]; a != nil && a.StartCommand != "" {
		t.Wake(recipient)
	}
}

// Unknown returns the error, with this code, for a name that no agent has. If the agent was removed, the error
// reports that. The text begins with what, such as "lead: ", which names the use of the name and may be empty.
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

// orRemoved returns the error unknown, or in its place an error that reports that the agent was removed.
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

// Removed returns the error for the name of an agent that was removed at this time. The text begins with what.
func Removed(code orchestrator.Code, what, name, at string) *orchestrator.Error {
	return orchestrator.Errorf(code, "%s%s", what, wasRemoved(name, at)).
		WithHint("To restore the agent, run `mailroom agent add %s`", name).WithUnknown(name, nil)
}

// Nobody explains why no agent has this name: the agent was removed or was never added.
func Nobody(c *store.Conn, name string) (string, error) {
	at, err := RemovedAt(c, name)
	if at != "" {
		return wasRemoved(name, at), err
	}
	return fmt.Sprintf("unknown agent %q", name), err
}

// RemovedAt returns when the agent with this name was removed, or "" if none was removed or the agent exists again.
func RemovedAt(c *store.Conn, name string) (string, error) {
	at, _, err := c.Text(`SELECT removed_at FROM removed_agents WHERE name = ?`, name)
	return at, err
}

func wasRemoved(name, at string) string {
	return fmt.Sprintf("the agent %q was removed at %s", name, at)
}

// whoThereIs returns the hint for an agent name that was not found.
func whoThereIs(name string, conf *ledger.Config) string {
	return cmp.Or(orchestrator.DidYouMean(name, conf.Names), "To list the agents, run `mailroom agent list`")
}
