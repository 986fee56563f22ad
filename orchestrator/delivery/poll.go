package delivery

import (
	"cmp"
	"context"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/adoption"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// Backlog holds the messages that wait for a recipient.
type Backlog struct {
	Recipient string
	Pending   int                    // number of undelivered messages
	Unread    int                    // number delivered to its inbox and not read, or lent and not confirmed
	Messages  []orchestrator.Message // the oldest undelivered messages
}

// Poll returns the backlog of a recipient with its oldest messages, at most n of them (1 to 1000). It changes nothing
// and works on a read-only disk. Rows that others wrote are shown as adoption would convert them. Error:
// unknown_recipient if the name is unknown and nothing waits for it.
func Poll(ctx context.Context, l *ledger.Ledger, recipient string, n int) (Backlog, error) {
	recipient, err := orchestrator.CheckName("recipient", recipient)
	if err != nil {
		return Backlog{}, err
	}
	var b Backlog
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		b = Backlog{Recipient: recipient, Messages: []orchestrator.Message{}}
		count, err := c.Number(`SELECT count(*) FROM agent_message WHERE `+ledger.Live+` AND recipient = ?`, recipient)
		if err != nil {
			return err
		}
		unread, err := c.Number(`SELECT count(*) FROM (`+messages.UnreadOf+`) AS u`, recipient)
		if err != nil {
			return err
		}
		others, err := adoption.ForeignMessagesTo(c, recipient, l.Now())
		if err != nil {
			return err
		}
		b.Pending, b.Unread = int(count)+len(others), int(unread)
		if b.Pending+b.Unread == 0 && conf.Agents[recipient] == nil {
			return agents.Unknown(c, orchestrator.UnknownRecipient, "no messages for this name: ", recipient, conf)
		}
		list := func(row store.Row) error {
			m := ledger.ScanMessage(row[2:])
			if row.Int(0) != 0 {
				adoption.AsAdopted(&m, row[2:], row.Text(1), conf, l.Now())
			}
			b.Messages = append(b.Messages, m)
			return nil
		}
		const columns = ledger.Foreign + `, traced_status, ` + ledger.MessageColumns
		if err := c.Query(`SELECT `+columns+` FROM agent_message WHERE `+ledger.Live+` AND recipient = ?1 ORDER BY `+
			adoption.Order+` LIMIT +?3`,
			list, recipient, orchestrator.Stamp(l.Now()), n); err != nil || len(others) == 0 {
			return err
		}
		for _, seq := range others[:min(n, len(others))] {
			if err := c.Query(`SELECT `+columns+` FROM agent_message WHERE seq = ?`, list, seq); err != nil {
				return err
			}
		}
		slices.SortStableFunc(b.Messages, func(a, b orchestrator.Message) int {
			return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.Seq, b.Seq))
		})
		b.Messages = b.Messages[:min(n, len(b.Messages))]
		return nil
	})
	return b, err
}
