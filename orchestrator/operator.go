package orchestrator

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Operator is the name of whoever types in a shell of this machine without saying as whom. It has an inbox as agents have,
// is always there and belongs to no group or team. It is no proof of a person: who can open the file can act as it. Over the
// network nobody does: no token speaks as it.
const Operator = "operator"

// builtIns say of the names that are always there, and are no agents, who is behind them.
var builtIns = map[string]string{
	Operator: "whoever types in a shell of this machine",
	User:     "the person who runs the agents, on a phone",
}

// IsBuiltIn reports whether a name is that of the operator or the user, who are always there and are no agents.
func IsBuiltIn(name string) bool { return builtIns[name] != "" }

// addBuiltIns adds those whom messages can reach though they are no agents: the operator, the user, and the devices that are
// pushed to.
func (conf *config) addBuiltIns(devices []*Agent) {
	conf.agents[Operator] = &Agent{Name: Operator, Deliver: "inbox"}
	conf.agents[User] = &Agent{Name: User, Deliver: "person:", TimeoutSeconds: 30}
	for name, who := range builtIns {
		conf.agents[name].BuiltIn, conf.agents[name].Role = true, who
	}
	for _, d := range devices {
		conf.agents[d.Name] = d
	}
}

// noteTaken keeps what has a built-in name from before the name was reserved, or by hand, apart from what is in use.
func (conf *config) noteTaken(kind, name string) {
	if !slices.Contains(conf.taken[name], kind) {
		conf.taken[name] = append(conf.taken[name], kind)
	}
}

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

// noMember refuses a built-in name as a part of a group, a session or a thread.
func noMember(name, of string) *Error {
	return Errorf(InvalidParams, "%s is %s, and takes part in no %s", name, builtIns[name], of).WithHint("Write to %s by its name", name)
}

// giveUpName removes the agent that has a built-in name in the tables, also from groups. The mail is that of the name, and
// stays.
func (t *tx) giveUpName(conf *config, name string) error {
	if len(conf.taken[name]) == 0 {
		return Errorf(InvalidParams, "%s is always there: it is %s", name, builtIns[name]).WithHint("It cannot be removed")
	}
	return t.forget(name)
}

// What can have a built-in name in the tables.
const (
	takenByAgent  = "an agent"
	takenByGroup  = "a group"
	takenByMember = "a member of the group " // and its name
)

// builtInNames tells of what has a built-in name in the tables, and of tokens for one.
func (d *doctor) builtInNames(c *conn, conf *config) error {
	found := false
	for _, a := range conf.builtInAgents() {
		n, err := c.number(`SELECT count(*) FROM tokens WHERE agent = ? AND revoked_at = '' AND (expires_at = '' OR expires_at > ?)`, a.Name, stamp(d.r.now()))
		if err != nil {
			return err
		}
		if n > 0 {
			found = true
			d.add("name "+a.Name, "problem", fmt.Sprintf("there are %s for %s, which nobody can use any more", plural(int(n), "token"), a.Name),
				"`mailroom agent token "+a.Name+" --revoke`, and issue one for an agent of another name")
		}
		if a.Note == "" {
			continue
		}
		found = true
		do := "`mailroom agent add` another name for that agent, then `mailroom agent remove " + a.Name + "`: the mail stays, and `mailroom wait --recipient " + a.Name + "` reads it"
		if a.Name == User {
			do = "`mailroom agent add` another name for that agent, then `mailroom agent remove " + a.Name + "`"
		}
		if slices.Contains(conf.taken[a.Name], takenByGroup) {
			do = "`mailroom group set` another name with the members of that group, then `mailroom group delete " + a.Name + "`"
		}
		d.add("name "+a.Name, "problem", a.Note, do)
	}
	if !found {
		d.add("reserved names", "ok", "nobody else is called operator or user", "")
	}
	return nil
}
