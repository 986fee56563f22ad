package threads

import (
	"context"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// MessageView is a message as one agent may see it: with its receipts, its copies, and its thread.
type MessageView struct {
	Message  orchestrator.Message
	Receipts []messages.Receipt
	Copies   []MessageCopy // of a send to a group, or of a post in a thread: one for each agent that gets it
	Thread   Thread        // in which it stands, if the agent takes part there; its zero value is none
}

// MessageCopy is the copy that one of several recipients got of a message.
type MessageCopy struct {
	Message  orchestrator.Message
	Receipts []messages.Receipt
}

// OwnMessage returns a message that an agent has sent or got, or a post in a thread in which it takes part, whatever
// became of it since; "" is the administrator, who sees all. Of a send to a group, a member sees its own copy, and the
// sender sees all. Nothing is marked as read. Error: not_found, also for the messages of others, since an error must
// not tell a stranger that an id is taken.
func OwnMessage(ctx context.Context, l *ledger.Ledger, id, agent string) (view MessageView, err error) {
	agent = orchestrator.FoldName(agent)
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		view = MessageView{}
		ms, err := messages.FindOwn(c, conf, id, "")
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
