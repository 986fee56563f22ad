package orchestrator

import (
	"cmp"
	"context"
	"slices"
)

// findMessages returns the rows that an id names: one message, or all of a send to a group, or a post and its mentions.
// Rows that retention has archived are found too.
func (c *Conn) findMessages(id string) ([]Message, error) {
	ms, err := c.messages(`SELECT `+messageColumns+` FROM agent_message WHERE message_id = ?`, id)
	if err != nil || len(ms) > 0 && !ms[0].isPost() {
		return ms, err
	}
	ms = nil
	for _, from := range []string{messageColumns + ` FROM agent_message`, archivedColumns + ` FROM agent_message_archive`} {
		found, err := c.messages(`SELECT `+from+` WHERE multicast_id = ? ORDER BY seq`, id)
		if err != nil {
			return nil, err
		}
		ms = append(ms, found...)
	}
	if len(ms) > 0 {
		slices.SortFunc(ms, func(a, b Message) int { return cmp.Compare(a.seq, b.seq) })
		return ms, nil
	}
	return c.messages(`SELECT `+archivedColumns+` FROM agent_message_archive WHERE message_id = ?`, id)
}

// mustFind returns the messages that an id names; see findMessages. Error: not_found when there are none.
func (c *Conn) mustFind(id string) ([]Message, error) {
	ms, err := c.findMessages(id)
	if err != nil {
		return nil, err
	}
	if len(ms) == 0 {
		return nil, noMessage(id)
	}
	return ms, nil
}

// mustFindOwn returns what an id names to an agent that sent or received it. For anybody else there is no such message: an
// error must not tell a stranger that an id is taken, or by whom. Of a send to a group a member finds its own message. "" finds
// all. Error: not_found.
func (c *Conn) mustFindOwn(conf *config, id, by string) ([]Message, error) {
	ms, err := c.mustFind(id)
	if err != nil || by == "" {
		return ms, err
	}
	own := slices.DeleteFunc(ms, func(m Message) bool { return !conf.owns(&m, by) })
	if len(own) == 0 {
		return nil, noMessage(id)
	}
	return own, nil
}

// noMessage is the error for an id that names no message, or none that whoever asks may know of.
func noMessage(id string) error {
	return Errorf(NotFound, "there is no message %q", Clip(id)).
		WithHint("`mailroom mail search_messages` finds what an agent has sent or got; " +
			"`mailroom sql \"SELECT message_id, recipient, status FROM agent_message ORDER BY seq DESC LIMIT 10\"` lists the latest")
}

// Find returns the messages that an id names; see findMessages. Error: not_found.
func (r *Router) Find(ctx context.Context, id string) (ms []Message, err error) {
	err = r.read(ctx, func(c *Conn) error {
		ms, err = c.mustFind(id)
		return err
	})
	return ms, err
}
