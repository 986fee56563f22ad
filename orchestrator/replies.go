package orchestrator

import (
	"cmp"
	"slices"
	"strings"

	"mailroom/orchestrator/store"
)

// reply is what the router has found out about a draft that answers a message.
type reply struct {
	hops    int
	thread  *Thread    // that it joins as a post
	outside string     // why it joins none, though what it answers stands in one
	request *requestOf // of a team, that it decides
	approve bool
}

// parent is the message that another answers.
type parent struct {
	Message        // only who sent and got it, and when
	hops           int
	thread, postID string // postID: of the post that it is, or is a copy of
}

// parentOf returns the message that a draft answers. Errors: not_found; conflict for a loop.
func (t *tx) parentOf(conf *config, replyTo string) (p parent, err error) {
	found := false
	err = t.query(`
		SELECT hops, thread_id, multicast_target, multicast_id, sender, recipient, seq, ended_at FROM agent_message WHERE message_id = ?1
		UNION ALL SELECT hops, thread_id, multicast_target, multicast_id, sender, recipient, seq, ended_at
		FROM agent_message_archive WHERE message_id = ?1`,
		func(row store.Row) error {
			found = true
			p = parent{hops: int(row.Int(0)) + 1, thread: row.Text(1)}
			p.ID, p.Sender, p.Recipient, p.seq, p.EndedAt = replyTo, row.Text(4), row.Text(5), row.Int(6), row.Text(7)
			if strings.HasPrefix(row.Text(2), ThreadPrefix) {
				p.postID = row.Text(3)
			}
			return nil
		}, replyTo)
	switch {
	case err != nil:
		return p, err
	case !found:
		return p, Errorf(NotFound, "reply_to: there is no message %q", replyTo)
	case p.hops > conf.settings.MaxHops && !t.asUser: // a person ends what agents do not
		return p, Errorf(Conflict, "a loop: this would be answer number %d to one message; at most %d are allowed", p.hops, conf.settings.MaxHops).
			WithHint("Let somebody end the conversation, or start a new one without reply_to")
	}
	return p, nil
}

// ownToAnswer returns the message that an agent would answer, as it knows it, and the thread in which that stands, if it does. For
// those who neither sent nor got it, nor take part in the thread in which it was posted, there is none of that id. Error: not_found.
func (c *Conn) ownToAnswer(conf *config, id, by string) (m Message, th Thread, err error) {
	unknown := Errorf(NotFound, "reply_to: %s has sent and got no message %q", by, Clip(id)).
		WithHint("Name the id of a message that you got, or of a post in a thread of yours")
	ms, err := c.findMessages(id)
	if err == nil && len(ms) == 0 {
		err = unknown
	}
	if err != nil {
		return m, th, err
	}
	if th, _, err = c.thread(ms[0].ThreadID); err != nil {
		return m, th, err
	}
	m = ms[0]
	own := slices.IndexFunc(ms, func(m Message) bool { return conf.owns(&m, by) })
	if own >= 0 && !m.isPost() {
		m = ms[own]
	}
	if own < 0 && !(m.isPost() && th.Has(by)) {
		return m, th, unknown
	}
	return m, th, nil
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

// replying looks up the message that a draft answers, finds out whether the answer joins a thread or decides a team's request,
// and changes the draft into what is stored.
func (t *tx) replying(conf *config, d *Draft, recipients []string, isGroup bool) (re reply, err error) {
	if d.RegisterSender { // what an agent may not know of, it cannot answer; an administrator answers anything
		if _, _, err := t.ownToAnswer(conf, d.ReplyTo, d.Sender); err != nil {
			return re, err
		}
	}
	p, err := t.parentOf(conf, d.ReplyTo)
	if err == nil && !isGroup {
		err = conf.checkAnswered(&p.Message, recipients[0])
	}
	if err != nil {
		return re, err
	}
	re.hops = p.hops
	later := !d.dueAt(t.clock).IsZero()
	if err := t.decides(&re, d); err != nil || re.request != nil {
		if err == nil && later {
			err = Errorf(InvalidParams, "not_before: an answer to a team's request decides it at once").WithHint("Send it when it is to be decided")
		}
		return re, err
	}
	if d.ThreadID != "" || d.Direct || p.thread == "" {
		return re, nil
	}
	th, found, err := t.thread(p.thread)
	if err != nil {
		return re, err
	}
	if !found { // a word of the sender's, who groups messages by it
		d.ThreadID = p.thread
		return re, nil
	}
	switch {
	case later:
		re.outside = "it is wanted later, and what is posted in a thread stands there at once"
	case isGroup:
		re.outside = d.Recipient + " is several agents, which take part in no thread together"
	default:
		re.outside = cmp.Or(th.shutsOut(d.Sender), th.shutsOut(recipients[0]))
	}
	if re.outside != "" {
		return re, nil
	}
	re.thread = &th
	d.ThreadID = th.ID
	if p.postID != "" { // the others know it by this id
		d.ReplyTo = p.postID
	}
	if !d.SessionNamed {
		d.SessionID = th.Session
	}
	return re, nil
}

// shutsOut says why an answer from or to somebody cannot join the thread in which what it answers stands; "" when it can.
func (th *Thread) shutsOut(agent string) string {
	switch {
	case th.Status != OpenThread:
		return "the thread of the message answered was closed at " + th.ClosedAt
	case !th.Has(agent):
		return agent + " takes no part in the thread of the message answered"
	}
	return ""
}

// decides looks whether a draft answers a team's request, and makes it the answer that a teammate would have sent. What says
// nothing of approval decides nothing, unless its sender is asked to decide.
func (t *tx) decides(re *reply, d *Draft) error {
	if d.Verdict == nil {
		return nil
	}
	q, found, err := t.requestBy("message_id", d.ReplyTo)
	if err != nil || !found {
		return err
	}
	v, unclear := d.Verdict(Asked{q.id, q.kind})
	refusal := q.refuses(d.Sender, d.Recipient)
	if unclear != nil && refusal == nil {
		return unclear
	}
	if unclear != nil || v == nil {
		return nil
	}
	if refusal != nil {
		return refusal
	}
	d.Type, d.Payload, d.Summary, d.SessionID = v.Type, v.Payload, v.Summary, q.session
	re.request, re.approve = &q, v.Approve
	return nil
}

// requestBy returns the request that a column of team_requests names.
func (c *Conn) requestBy(column, id string) (q requestOf, found bool, err error) {
	err = c.query(`SELECT `+requestColumns+` FROM team_requests q WHERE q.`+column+` = ?`, func(row store.Row) error {
		q, found = scanRequest(row), true
		return nil
	}, id)
	return q, found, err
}

// refuses is why an agent cannot answer the request with a message to another; nil if it can.
func (q *requestOf) refuses(sender, recipient string) error {
	switch {
	case q.responder != sender:
		return Errorf(PermissionDenied, "%s was sent to %s; only its recipient can answer it", q.id, q.responder)
	case !q.void && q.status != requestOpen:
		return Errorf(Conflict, "%s was %s at %s", q.id, q.status, q.answeredAt)
	case q.void:
		return Errorf(Conflict, "%s is not open: its message %s reached nobody, or %s was removed since", q.id, q.messageID, q.requester).
			WithHint("`mailroom why %s` says what became of it", q.messageID)
	case q.requester != recipient:
		return Errorf(InvalidParams, "to: %s was asked by %s, and the answer goes there", q.id, q.requester).
			WithHint("Send it to %s", q.requester)
	}
	return nil
}

// decide notes how a request was answered, by the message that was just sent, and does what was asked.
func (t *tx) decide(q *requestOf, approve bool, sent *Sent) error {
	sent.RequestID, sent.Type = q.id, q.kind.response()
	status := requestRejected
	if approve {
		status = requestApproved
	}
	if _, err := t.Exec(`UPDATE team_requests SET status = ?, answer_id = ?, answered_at = ? WHERE request_id = ?`,
		status, sent.MessageID, t.now, q.id); err != nil || !approve {
		return err
	}
	if q.kind == PlanApproval {
		return t.endPlanMode(q.requester)
	}
	p, err := t.takePresence(q.session, q.responder, Stopped)
	sent.Presence = p.Status
	return err
}
