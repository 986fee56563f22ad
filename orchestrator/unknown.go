package orchestrator

import (
	"cmp"
	"fmt"
	"strings"
)

// unknownAgent is the error for the name of an agent that nobody has, or has any more. what is as for removedAgent.
func (c *Conn) unknownAgent(code Code, what, name string, conf *config) error {
	return c.orRemoved(name, what, Errorf(code, "%snobody is known as %q", what, name).unknown(name, conf.names).
		WithHint("%s", strings.TrimSpace(didYouMean(name, conf.names)+" "+addIt(name))))
}

// noAgent is the error for the name of an agent that was looked up.
func (c *Conn) noAgent(name string, conf *config) error {
	return c.orRemoved(name, "", Errorf(NotFound, "there is no agent %q", name).WithHint("%s", whoThereIs(name, conf)))
}

// orRemoved returns an error about a name that nobody has, or in its place one that says that the agent was removed.
func (c *Conn) orRemoved(name, what string, unknown *Error) error {
	at, err := c.removedAt(name)
	switch {
	case err != nil:
		return err
	case at != "":
		return removedAgent(unknown.Code, what, name, at)
	}
	return unknown
}

// removedAgent is the error for the name of an agent that was removed. what begins its message and says whose name it is;
// it may be empty.
func removedAgent(code Code, what, name, at string) *Error {
	return Errorf(code, "%s%s", what, wasRemoved(name, at)).WithHint("`mailroom agent add %s` brings it back", name).unknown(name, nil)
}

// nobody says of a name that no agent has why that is, for an event or an explanation.
func (c *Conn) nobody(name string) (string, error) {
	at, err := c.removedAt(name)
	if at != "" {
		return wasRemoved(name, at), err
	}
	return fmt.Sprintf("nobody is known as %q", name), err
}

// removedAt returns when a name was removed that nobody has now; "" is never.
func (c *Conn) removedAt(name string) (string, error) {
	at, _, err := c.text(`SELECT removed_at FROM removed_agents WHERE name = ?`, name)
	return at, err
}

func wasRemoved(name, at string) string {
	return fmt.Sprintf("the agent %q was removed at %s", name, at)
}

// whoThereIs is the hint for the name of an agent that was looked up in vain.
func whoThereIs(name string, conf *config) string {
	return cmp.Or(didYouMean(name, conf.names), "`mailroom agent list` shows who there is")
}
