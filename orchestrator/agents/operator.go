package agents

import (
	"context"
	"fmt"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// takenNote says of a built-in name that it was, or is, somebody else's, too; "" when it is not.
func takenNote(conf *ledger.Config, name string) string {
	if len(conf.Taken[name]) == 0 {
		return ""
	}
	return fmt.Sprintf("the tables have %s of the name %s, which is not used: %s is %s, and has the mail to that name",
		strings.Join(conf.Taken[name], " and "), name, name, orchestrator.BuiltIns[name])
}

// BuiltInAgents lists the operator and the user, by name.
func BuiltInAgents(conf *ledger.Config) (list []ledger.Agent) {
	for _, name := range []string{orchestrator.Operator, orchestrator.User} {
		a := *conf.Agents[name]
		a.Groups, a.Note = []string{}, takenNote(conf, name)
		list = append(list, a)
	}
	return list
}

// BuiltIns lists who can be written to and is no agent: the operator and the user. Note says of one that an agent, or a group,
// has the name in the tables, too.
func BuiltIns(ctx context.Context, l *ledger.Ledger) ([]ledger.Agent, error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	return BuiltInAgents(conf), nil
}
