package overview

import (
	"fmt"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/adoption"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/store"
)

// odd names what is passed over in the configuration.
func (d *doctor) odd(conf *ledger.Config) {
	for _, says := range conf.Odd {
		d.add("configuration", "problem", says, "Somebody wrote it by hand: mend it there")
	}
	if len(conf.Odd) == 0 {
		d.add("configuration", "ok", "every agent, group and setting can be read", "")
	}
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
