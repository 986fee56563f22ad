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
	err = r.read(ctx, func(c *Conn) error {
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
		others, err := c.foreignTo(recipient, r.Now())
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
				m.asAdopted(row[2:], row.Text(1), conf, r.Now())
			}
			b.Messages = append(b.Messages, m)
			return nil
		}
		const columns = foreign + `, traced_status, ` + messageColumns
		if err := c.query(`SELECT `+columns+` FROM agent_message WHERE `+live+` AND recipient = ?1 ORDER BY `+adoptedOrder+` LIMIT +?3`,
			list, recipient, stamp(r.Now()), n); err != nil || len(others) == 0 {
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
