package orchestrator

import (
	"cmp"
	"context"
	"slices"

	"mailroom/orchestrator/store"
)

// Backlog is what waits for one recipient.
type Backlog struct {
	Recipient string
	Pending   int       // the whole backlog
	Unread    int       // delivered to its inbox and not read, or lent and not confirmed
	Messages  []Message // the oldest of the backlog
}

// Poll lists what waits for a recipient, by time of creation, at most n messages (1 to 1000). It changes nothing, and
// works on a read-only disk. What others wrote and nobody has adopted yet is shown as adoption would make it. Error:
// unknown_recipient for a name that nobody has and for which nothing waits.
func (r *Router) Poll(ctx context.Context, recipient string, n int) (Backlog, error) {
	recipient, err := CheckName("recipient", recipient)
	if err != nil {
		return Backlog{}, err
	}
	b := Backlog{Recipient: recipient, Messages: []Message{}}
	err = r.read(ctx, func(c *conn) error {
		conf, err := r.config.load(c)
		if err != nil {
			return err
		}
		count, err := c.number(`SELECT count(*) FROM agent_message WHERE `+live+` AND recipient = ?`, recipient)
		if err != nil {
			return err
		}
		unread, err := c.number(`SELECT count(*) FROM (`+unreadOf+`) AS u`, recipient)
		if err != nil {
			return err
		}
		others, err := c.foreignTo(recipient, r.now())
		if err != nil {
			return err
		}
		b.Pending, b.Unread = int(count)+len(others), int(unread)
		if b.Pending+b.Unread == 0 && conf.agents[recipient] == nil {
			return c.unknownAgent(UnknownRecipient, "nothing waits for that name: ", recipient, conf)
		}
		list := func(row store.Row) error {
			m := scanMessage(row[2:])
			if row.Int(0) != 0 {
				m.asAdopted(row[2:], row.Text(1), conf, r.now())
			}
			b.Messages = append(b.Messages, m)
			return nil
		}
		const columns = foreign + `, traced_status, ` + messageColumns
		if err := c.query(`SELECT `+columns+` FROM agent_message WHERE `+live+` AND recipient = ?1 ORDER BY `+adoptedOrder+` LIMIT +?3`,
			list, recipient, stamp(r.now()), n); err != nil || len(others) == 0 {
			return err
		}
		for _, seq := range others[:min(n, len(others))] {
			if err := c.query(`SELECT `+columns+` FROM agent_message WHERE seq = ?`, list, seq); err != nil {
				return err
			}
		}
		slices.SortStableFunc(b.Messages, func(a, b Message) int {
			return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.seq, b.seq))
		})
		b.Messages = b.Messages[:min(n, len(b.Messages))]
		return nil
	})
	return b, err
}

// findMessages returns the rows that an id names: one message, or all of a send to a group, or a post and its mentions.
// Rows that retention has archived are found too.
func (c *conn) findMessages(id string) ([]Message, error) {
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
func (c *conn) mustFind(id string) ([]Message, error) {
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
func (c *conn) mustFindOwn(conf *config, id, by string) ([]Message, error) {
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
	err = r.read(ctx, func(c *conn) error {
		ms, err = c.mustFind(id)
		return err
	})
	return ms, err
}
