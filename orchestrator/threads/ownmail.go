package threads

import (
	"context"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// MessageView is one message as an agent may see it whose own it is.
type MessageView struct {
	Message  orchestrator.Message
	Receipts []messages.Receipt
	Copies   []MessageCopy // of a send to a group, or of a post in a thread: one for each agent that gets it
	Thread   Thread        // in which it stands, if the agent takes part there; its zero value is none
}

// MessageCopy is one row of a message that several agents get.
type MessageCopy struct {
	Message  orchestrator.Message
	Receipts []messages.Receipt
}

// OwnMessage returns a message that an agent sent or got, or a post in a thread of its own, whatever became of it since; ""
// is the administrator, who sees all. It marks nothing as read. Of a send to a group, a member sees its own copy, and who
// sent it all of them. Error: not_found, also for the mail of others: an error tells a stranger nothing about an id.
func OwnMessage(ctx context.Context, l *ledger.Ledger, id, agent string) (view MessageView, err error) {
	agent = orchestrator.FoldName(agent)
	err = l.ReadTables(ctx, func(c *store.Conn) error {
		view = MessageView{}
		conf, err := l.Config.Load(c)
		if err != nil {
			return err
		}
		ms, err := messages.MustFind(c, id)
		if err != nil {
			return err
		}
		th, _, err := thread(c, ms[0].ThreadID)
		if err != nil {
			return err
		}
		if agent == "" || th.Has(agent) {
			view.Thread = th
		}
		ms = slices.DeleteFunc(ms, func(m orchestrator.Message) bool {
			return agent != "" && !conf.Owns(&m, agent) && !(m.IsPost() && th.Has(agent))
		})
		if len(ms) == 0 {
			return messages.NoMessage(id)
		}
		view.Message = ms[0]
		if view.Receipts, err = messages.ReceiptsOf(c, &ms[0]); err != nil {
			return err
		}
		if ms[0].IsPost() {
			ms = ms[1:]
		} else if len(ms) == 1 {
			return nil
		}
		for i := range ms {
			receipts, err := messages.ReceiptsOf(c, &ms[i])
			if err != nil {
				return err
			}
			view.Copies = append(view.Copies, MessageCopy{ms[i], receipts})
		}
		return nil
	})
	return view, err
}
