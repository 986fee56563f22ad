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
	Copies   []MessageCopy // of a message to a group, or of a post in a thread: one for each agent that gets it
	Thread   Thread        // the message's thread, if the agent takes part in it; otherwise zero
}

// MessageCopy is one recipient's copy of a message.
type MessageCopy struct {
	Message  orchestrator.Message
	Receipts []messages.Receipt
}

// OwnMessage returns a message that an agent has sent or received, or a post in a thread in which it takes part,
// whatever the message's state is now. An agent of "" is the administrator, who sees all messages. Of a message to a
// group, a member sees its own copy, and the sender sees all copies. Nothing is marked as read. Error: not_found,
// also for the messages of others, so that the error does not reveal to a stranger that an id exists.
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
