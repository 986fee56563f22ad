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

// BuiltInsIn returns the operator and the user, as the configuration knows them, sorted by name.
func BuiltInsIn(conf *ledger.Config) (list []ledger.Agent) {
	for _, name := range []string{orchestrator.Operator, orchestrator.User} {
		a := *conf.Agents[name]
		a.Groups, a.Note = []string{}, takenNote(conf, name)
		list = append(list, a)
	}
	return list
}

// BuiltIns returns the recipients that always exist and are no agents: the operator and the user. Their Note is set if an agent
// or a group in the tables has the same name; that one is not used.
func BuiltIns(ctx context.Context, l *ledger.Ledger) ([]ledger.Agent, error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	return BuiltInsIn(conf), nil
}
