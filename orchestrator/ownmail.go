package orchestrator

import (
	"context"
	"slices"
)

// MessageView is one message as an agent may see it whose own it is.
type MessageView struct {
	Message  Message
	Receipts []Receipt
	Copies   []MessageCopy // of a send to a group, or of a post in a thread: one for each agent that gets it
	Thread   Thread        // in which it stands, if the agent takes part there; its zero value is none
}

// MessageCopy is one row of a message that several agents get.
type MessageCopy struct {
	Message  Message
	Receipts []Receipt
}

// OwnMessage returns a message that an agent sent or got, or a post in a thread of its own, whatever became of it since; ""
// is the administrator, who sees all. It marks nothing as read. Of a send to a group, a member sees its own copy, and who
// sent it all of them. Error: not_found, also for the mail of others: an error tells a stranger nothing about an id.
func (r *Router) OwnMessage(ctx context.Context, id, agent string) (view MessageView, err error) {
	agent = foldName(agent)
	err = r.read(ctx, func(c *Conn) error {
		view = MessageView{}
		conf, err := r.config.load(c)
		if err != nil {
			return err
		}
		ms, err := c.mustFind(id)
		if err != nil {
			return err
		}
		th, _, err := c.thread(ms[0].ThreadID)
		if err != nil {
			return err
		}
		if agent == "" || th.Has(agent) {
			view.Thread = th
		}
		ms = slices.DeleteFunc(ms, func(m Message) bool {
			return agent != "" && !conf.owns(&m, agent) && !(m.isPost() && th.Has(agent))
		})
		if len(ms) == 0 {
			return noMessage(id)
		}
		view.Message = ms[0]
		if view.Receipts, err = c.receipts(&ms[0]); err != nil {
			return err
		}
		if ms[0].isPost() {
			ms = ms[1:]
		} else if len(ms) == 1 {
			return nil
		}
		for i := range ms {
			receipts, err := c.receipts(&ms[i])
			if err != nil {
				return err
			}
			view.Copies = append(view.Copies, MessageCopy{ms[i], receipts})
		}
		return nil
	})
	return view, err
}
