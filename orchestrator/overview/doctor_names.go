package overview

import (
	"fmt"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/adoption"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/store"
)

// odd names what is passed over in the configuration.
func (d *doctor) odd(conf *ledger.Config) {
	for i, says := range conf.Odd {
		if i == maxOdd {
			d.add("configuration", "problem", fmt.Sprintf("%d more of the kind", len(conf.Odd)-maxOdd), "")
			break
		}
		d.add("configuration", "problem", says, "Somebody wrote it by hand: mend it there")
	}
	if len(conf.Odd) == 0 {
		d.add("configuration", "ok", "every agent, group and setting can be read", "")
	}
}

// maxOdd is how many odd rows the doctor names one by one.
const maxOdd = 10

// builtInNames tells of what has a built-in name in the tables, and of tokens for one. Those of the operator that run out are sessions
// of the console.
func (d *doctor) builtInNames(c *store.Conn, conf *ledger.Config) error {
	found := false
	for _, a := range agents.BuiltInsIn(conf) {
		n, err := c.Number(`SELECT count(*) FROM tokens WHERE agent = ? AND revoked_at = '' AND (expires_at = '' OR expires_at > ? AND agent <> 'operator')`, a.Name, orchestrator.Stamp(d.ledger.Now()))
		if err != nil {
			return err
		}
		if n > 0 {
			found = true
			d.add("name "+a.Name, "problem", fmt.Sprintf("there are %s for %s, which nobody can use any more", orchestrator.Plural(int(n), "token"), a.Name),
				"`mailroom agent token "+a.Name+" --revoke`, and issue one for an agent of another name")
		}
		if a.Note == "" {
			continue
		}
		found = true
		do := "`mailroom agent add` another name for that agent, then `mailroom agent remove " + a.Name + "`: the mail stays, and `mailroom wait --recipient " + a.Name + "` reads it"
		if a.Name == orchestrator.User {
			do = "`mailroom agent add` another name for that agent, then `mailroom agent remove " + a.Name + "`"
		}
		if slices.Contains(conf.Taken[a.Name], ledger.TakenByGroup) {
			do = "`mailroom group set` another name with the members of that group, then `mailroom group delete " + a.Name + "`"
		}
		d.add("name "+a.Name, "problem", a.Note, do)
	}
	if !found {
		d.add("reserved names", "ok", "nobody else is called operator or user", "")
	}
	return nil
}

// recipients tells of undelivered messages to names that nobody has: those that an agent can be added with, and others, which
// somebody wrote by hand.
func (d *doctor) recipients(c *store.Conn, conf *ledger.Config) error {
	const name = "unknown recipients"
	written, err := c.Texts(`SELECT DISTINCT recipient FROM agent_message WHERE ` + ledger.Live)
	if err != nil {
		return err
	}
	possible, impossible := map[string]bool{}, map[string]bool{}
	for _, recipient := range written {
		recipient = adoption.Name(recipient)
		switch {
		case conf.Agents[recipient] != nil || strings.HasPrefix(recipient, push.DevicePrefix):
		case orchestrator.CanBeAgent(recipient):
			possible[recipient] = true
		default:
			impossible[recipient] = true
		}
	}
	if len(possible) > 0 {
		d.add(name, "problem", fmt.Sprintf("undelivered messages wait for %s that nobody has", orchestrator.Plural(len(possible), "name")),
			"`mailroom status` shows them; `mailroom agent add NAME`, or `mailroom cancel ID`")
	}
	if len(impossible) > 0 {
		d.add(name, "problem", fmt.Sprintf("undelivered messages wait for %s that no agent can have", orchestrator.Plural(len(impossible), "name")),
			"`mailroom status` shows them; `mailroom cancel ID` takes each message back")
	}
	if len(possible)+len(impossible) == 0 {
		d.add(name, "ok", "none", "")
	}
	return nil
}
