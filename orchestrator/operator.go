package orchestrator

import (
	"context"
	"fmt"
	"strings"
)

// takenNote says of a built-in name that it was, or is, somebody else's, too; "" when it is not.
func (conf *config) takenNote(name string) string {
	if len(conf.taken[name]) == 0 {
		return ""
	}
	return fmt.Sprintf("the tables have %s of the name %s, which is not used: %s is %s, and has the mail to that name",
		strings.Join(conf.taken[name], " and "), name, name, builtIns[name])
}

// builtInAgents lists the operator and the user, by name.
func (conf *config) builtInAgents() (list []Agent) {
	for _, name := range []string{Operator, User} {
		a := *conf.agents[name]
		a.Groups, a.Note = []string{}, conf.takenNote(name)
		list = append(list, a)
	}
	return list
}

// BuiltIns lists who can be written to and is no agent: the operator and the user. Note says of one that an agent, or a group,
// has the name in the tables, too.
func (r *Router) BuiltIns(ctx context.Context) ([]Agent, error) {
	conf, err := r.configuration(ctx)
	if err != nil {
		return nil, err
	}
	return conf.builtInAgents(), nil
}
