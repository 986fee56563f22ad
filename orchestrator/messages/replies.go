package messages

import (
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// insertReply stores a draft that answers a message, as changed by the parts.
func insertReply(t *ledger.Tx, conf *ledger.Config, said *orchestrator.Draft, recipients []string, isGroup,
	held bool) (sent orchestrator.Sent, err error) {
	re := ledger.Reply{Draft: *said, Recipients: recipients, IsGroup: isGroup} // the idempotency key is the original's
	if re.To, err = repliedTo(t, conf, &re); err != nil {
		return sent, err
	}
	for _, p := range t.Ledger.Parts {
		if p.Replying == nil {
			continue
		}
		if err := p.Replying(t, &re); err != nil {
			return sent, err
		}
	}
	if sent, err = InsertAll(t, conf, &re.Draft, recipients, isGroup, held, re.To.Hops+1); err != nil {
		return sent, err
	}
	if re.Draft.ThreadID != said.ThreadID {
		sent.Joined = re.Draft.ThreadID
	}
	sent.Outside = re.Outside
	if re.Stored != nil {
		err = re.Stored(&sent)
	}
	return sent, err
}

// repliedTo returns the message that a draft answers, as ParentOf does, if the draft may go to its recipient. An
// agent cannot answer a message that it may not see. An administrator can answer any message.
func repliedTo(t *ledger.Tx, conf *ledger.Config, re *ledger.Reply) (m orchestrator.Message, err error) {
	d := &re.Draft
	if t.Proved(d.Sender) {
		if _, err := OwnToAnswer(t.Conn, conf, d.ReplyTo, d.Sender); err != nil {
			return m, err
		}
	}
	if m, err = ParentOf(t, conf, d.ReplyTo); err == nil && !re.IsGroup {
		err = CheckAnswered(conf, &m, re.Recipients[0])
	}
	return m, err
}

// ParentOf returns the message to which an answer refers. Errors: not_found; conflict for a loop.
func ParentOf(t *ledger.Tx, conf *ledger.Config, id string) (orchestrator.Message, error) {
	m, found, err := ledger.MessageWithID(t.Conn, id)
	if err == nil && !found {
		err = orchestrator.Errorf(orchestrator.NotFound, "reply_to: there is no message %q", id)
	}
	if err == nil {
		err = CheckHops(t, conf, &m)
	}
	return m, err
}

// CheckHops refuses an answer if its chain of answers is longer than the setting allows, which most likely means that
// agents are in a loop. The user may always answer, which ends such a loop. Error: conflict.
func CheckHops(t *ledger.Tx, conf *ledger.Config, m *orchestrator.Message) error {
	limit := conf.Settings.MaxHops
	if m.Hops < limit || t.AsUser {
		return nil
	}
	answers := 1 // hops that are not answers have their own limit, see Inherit
	for id := m.ReplyTo; id != "" && answers <= limit; answers++ {
		before, _, err := ledger.MessageWithID(t.Conn, id)
		if err != nil {
			return err
		}
		id = before.ReplyTo
	}
	if answers <= limit {
		return nil
	}
	return orchestrator.Errorf(orchestrator.Conflict,
		"loop detected: this would be answer number %d in a chain of answers, but the limit is %d", answers, limit).
		WithHint("End the conversation, or start a new one without reply_to")
}

// OwnToAnswer returns the message that an agent answers: the agent's own copy, if it has one. An agent can answer
// messages that it has sent or received, and posts in threads in which it participates. Error: not_found for all
// others.
func OwnToAnswer(c *store.Conn, conf *ledger.Config, id, by string) (m orchestrator.Message, err error) {
	ms, err := FindIn(c, id)
	if err != nil {
		return m, err
	}
	own := slices.IndexFunc(ms, func(m orchestrator.Message) bool { return conf.Owns(&m, by) })
	posted := len(ms) > 0 && ms[0].IsPost()
	if own < 0 && posted {
		there, err := c.Number(`SELECT EXISTS (SELECT 1 FROM threads JOIN thread_participants USING (thread_id)
			WHERE thread_id = ? AND agent = ?)`,
			ms[0].ThreadID, by)
		if err != nil || there != 0 {
			return ms[0], err
		}
	}
	switch {
	case own < 0:
		return m, orchestrator.Errorf(orchestrator.NotFound, "reply_to: %s has not sent or received a message %q", by,
			orchestrator.Clip(id)).
			WithHint("Use the ID of a message that you received, or of a post in a thread that you take part in")
	case posted:
		return ms[0], nil
	}
	return ms[own], nil
}

// CheckAnswered refuses an answer to a message if the sender or recipient of that message was removed and the
// answer's recipient is a newer agent with the same name. Error: unknown_recipient.
func CheckAnswered(conf *ledger.Config, m *orchestrator.Message, recipient string) error {
	if recipient != m.Sender && recipient != m.Recipient || conf.Owns(m, recipient) {
		return nil
	}
	return orchestrator.Errorf(orchestrator.UnknownRecipient,
		"reply_to: the agent %s that sent or received the message %s was removed, and a different agent now has that name",
		recipient, orchestrator.Clip(m.ID)).
		WithHint("To write to the current agent, omit reply_to")
}
