package orchestrator

import (
	"slices"

	"mailroom/orchestrator/store"
)

// insertReply stores a draft that answers a message, as the parts make it.
func (t *tx) insertReply(conf *config, said *Draft, recipients []string, isGroup, held bool) (sent Sent, err error) {
	re := reply{draft: *said, recipients: recipients, isGroup: isGroup} // an idempotency key belongs to what was said
	if re.to, err = t.repliedTo(conf, &re); err != nil {
		return sent, err
	}
	for _, p := range t.r.parts {
		if p.Replying == nil {
			continue
		}
		if err := p.Replying(t, &re); err != nil {
			return sent, err
		}
	}
	if sent, err = t.insertAll(conf, &re.draft, recipients, isGroup, held, re.to.Hops+1); err != nil {
		return sent, err
	}
	if re.draft.ThreadID != said.ThreadID {
		sent.Joined = re.draft.ThreadID
	}
	sent.Outside = re.outside
	if re.stored != nil {
		err = re.stored(&sent)
	}
	return sent, err
}

// repliedTo returns the message that a draft answers, as parentOf does, if it may go to its recipient. What an agent may not
// know of, it cannot answer; an administrator answers anything.
func (t *tx) repliedTo(conf *config, re *reply) (m Message, err error) {
	d := &re.draft
	if d.RegisterSender {
		if _, err := t.ownToAnswer(conf, d.ReplyTo, d.Sender); err != nil {
			return m, err
		}
	}
	if m, err = t.parentOf(conf, d.ReplyTo); err == nil && !re.isGroup {
		err = conf.checkAnswered(&m, re.recipients[0])
	}
	return m, err
}

// parentOf returns of a message that is to be answered who sent and got it, when, and where it stands. Errors: not_found;
// conflict for a loop.
func (t *tx) parentOf(conf *config, id string) (m Message, err error) {
	found := false
	err = t.query(`
		SELECT hops, thread_id, multicast_target, multicast_id, sender, recipient, seq, ended_at FROM agent_message WHERE message_id = ?1
		UNION ALL SELECT hops, thread_id, multicast_target, multicast_id, sender, recipient, seq, ended_at
		FROM agent_message_archive WHERE message_id = ?1`,
		func(row store.Row) error {
			found = true
			m = Message{
				ID: id, Hops: int(row.Int(0)), ThreadID: row.Text(1), Group: row.Text(2), MulticastID: row.Text(3),
				Sender: row.Text(4), Recipient: row.Text(5), seq: row.Int(6), EndedAt: row.Text(7),
			}
			return nil
		}, id)
	if err == nil && !found {
		err = Errorf(NotFound, "reply_to: there is no message %q", id)
	}
	if err == nil {
		err = t.checkHops(conf, &m)
	}
	return m, err
}

// checkHops refuses the answer to a message that stands at the end of a long chain of answers: a loop. A person may answer it,
// and so ends what agents do not.
func (t *tx) checkHops(conf *config, m *Message) error {
	hops := m.Hops + 1
	if hops <= conf.settings.MaxHops || t.asUser {
		return nil
	}
	return Errorf(Conflict, "a loop: this would be answer number %d to one message; at most %d are allowed", hops, conf.settings.MaxHops).
		WithHint("Let somebody end the conversation, or start a new one without reply_to")
}

// ownToAnswer returns the message that an agent would answer, as it knows it. For those who neither sent nor got it, nor take
// part in the thread in which it was posted, there is none of that id. Error: not_found.
func (c *Conn) ownToAnswer(conf *config, id, by string) (m Message, err error) {
	ms, err := c.findMessages(id)
	if err != nil {
		return m, err
	}
	own := slices.IndexFunc(ms, func(m Message) bool { return conf.owns(&m, by) })
	posted := len(ms) > 0 && ms[0].isPost()
	if own < 0 && posted {
		there, err := c.number(`SELECT EXISTS (SELECT 1 FROM threads JOIN thread_participants USING (thread_id) WHERE thread_id = ? AND agent = ?)`,
			ms[0].ThreadID, by)
		if err != nil || there != 0 {
			return ms[0], err
		}
	}
	switch {
	case own < 0:
		return m, Errorf(NotFound, "reply_to: %s has sent and got no message %q", by, Clip(id)).
			WithHint("Name the id of a message that you got, or of a post in a thread of yours")
	case posted:
		return ms[0], nil
	}
	return ms[own], nil
}

// checkAnswered refuses an answer to a message that would go to an agent which has only the name of the one that sent or got it.
func (conf *config) checkAnswered(m *Message, recipient string) error {
	if recipient != m.Sender && recipient != m.Recipient || conf.owns(m, recipient) {
		return nil
	}
	return Errorf(UnknownRecipient, "reply_to: the agent %s of the message %s was removed; the one that has the name now is another",
		recipient, Clip(m.ID)).
		WithHint("Leave reply_to out to write to that one")
}
