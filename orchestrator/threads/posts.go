package threads

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// PostDraft describes a post that is about to be made in a thread.
type PostDraft struct {
	Session  string   // session of the sender; a participant may post from any
	Thread   string   // "" is the thread of the message in ReplyTo
	ReplyTo  string   // message that this one answers; "" is none
	Sender   string   // a participant
	Mentions []string // agents that get the post as a message of their own; see Posted.Ignored
	Type     string   // any word, at most 64 bytes
	// Payload returns the payload, one JSON value of at most MaxPayload bytes. Its argument is the list of the
	// mentions that are participants. It may be called several times.
	Payload func(mentions []string) (json.RawMessage, error)

	// Verdict is for an answer that goes to one agent; see orchestrator.Draft.Verdict.
	Verdict func(orchestrator.Asked) (*orchestrator.Verdict, error)
}

// Posted is the result of Post: the id and the thread of the post, and the agents that get it.
type Posted struct {
	MessageID string   // of the post, and also the multicast id of all its rows
	Thread    string   // "" for an answer that went to one agent, the only one in Mentions
	Mentions  []string // participants that get the post
	Ignored   []string // mentioned, but not participants; some may not be valid names
	Parties   []string // all participants of the thread
	CreatedAt string
	Withheld  []string // those of Mentions whose messages are withheld until the database is trusted
	Note      string   // see orchestrator.Sent

	Outside   string                      // why an answer is not in the thread of the message that it answers
	RequestID string                      // the team's request that the post answers
	Presence  orchestrator.PresenceStatus // presence of the sender in the team's session, if the answer changed it
}

// Post stores a post in a thread and sends it to the participants that it mentions, in one transaction. The post is
// on disk when Post returns. All participants can read it in the thread. The mentioned participants, except the
// sender, also get it as a message.
//
// With ReplyTo, the post also goes to the writer of the message that it answers. Without Thread, it joins the thread
// of that message. If there is no such thread, the thread is closed, or the sender does not take part, the post goes
// to the writer alone, as a plain message.
//
// The thread's own copy is a row of agent_message. Its recipient is orchestrator.ThreadPrefix followed by the
// thread's id.
//
// Errors: invalid_params; unknown_sender; not_found for the answered message or the thread, also if the sender does
// not take part in it; unknown_recipient if only the writer would get the post, and was removed; conflict for a
// closed thread, and for a chain of answers that is too long; unavailable if a mentioned agent has too many
// undelivered messages; busy.
func Post(ctx context.Context, l *ledger.Ledger, p PostDraft) (posted Posted, err error) {
	if p.Sender, err = orchestrator.CheckName("sender", p.Sender); err != nil {
		return posted, err
	}
	p.Mentions = slices.Clone(p.Mentions)
	for i, name := range p.Mentions {
		if folded, err := orchestrator.CheckName("mention", name); err == nil {
			p.Mentions[i] = folded // an invalid name is no participant
		}
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		posted, err = post(t, &p)
		return err
	})
	return posted, err
}

func post(t *ledger.Tx, p *PostDraft) (posted Posted, err error) {
	conf, err := agents.Acting(t, p.Sender)
	if err != nil {
		return posted, err
	}
	var a answered
	if p.ReplyTo != "" {
		if a, err = answeredBy(t, conf, p); err != nil {
			return posted, err
		}
	}
	if p.Thread == "" && a.thread == "" {
		return postDirectly(t, p, &a)
	}
	th, err := openThread(t, &Change{Session: p.Session, Thread: cmp.Or(p.Thread, a.thread), By: p.Sender})
	if err != nil {
		return posted, err
	}
	posted = Posted{Thread: th.ID, Mentions: []string{}, Parties: th.Names(), CreatedAt: t.Now}
	mentions := p.Mentions
	if !a.gone && th.Has(a.writer) {
		mentions = append([]string{a.writer}, mentions...)
	}
	for _, name := range mentions {
		switch {
		case name == p.Sender || slices.Contains(posted.Mentions, name) || slices.Contains(posted.Ignored, name):
		case th.Has(name) && conf.Agents[name] != nil:
			posted.Mentions = append(posted.Mentions, name)
		default:
			posted.Ignored = append(posted.Ignored, name)
		}
	}
	d := orchestrator.Draft{Sender: p.Sender, Type: p.Type, ThreadID: th.ID, SessionID: th.Session, ReplyTo: a.replyTo}
	if d.Payload, err = p.Payload(posted.Mentions); err != nil {
		return posted, err
	}
	if d, err = ledger.CheckContent(d); err != nil {
		return posted, err
	}
	if err := messages.CheckBacklog(t, conf, posted.Mentions, ""); err != nil {
		return posted, err
	}
	if posted.Note, err = messages.Inherit(t, conf, &d); err != nil {
		return posted, err
	}
	if err := insertPost(t, conf, &d, a.hops, &posted); err != nil {
		return posted, err
	}
	posted.Withheld = conf.WithheldFrom(posted.Mentions)
	t.Heartbeat(p.Sender)
	return posted, nil
}

// answered is the message that a post answers, from the sender's point of view.
type answered struct {
	writer  string // agent that is answered: the writer of the message, or the agent that got it from the sender
	gone    bool   // the writer was removed, and another agent has its name
	replyTo string // id of the message that all participants see
	hops    int
	thread  string // thread that the answer can join; "" is none
	outside string // why the answer cannot join the thread of the message
}

// answeredBy finds the message that a post answers, by the rules of messages.OwnToAnswer.
func answeredBy(t *ledger.Tx, conf *ledger.Config, p *PostDraft) (a answered, err error) {
	m, err := messages.OwnToAnswer(t.Conn, conf, p.ReplyTo, p.Sender)
	if err == nil {
		err = messages.CheckHops(t, conf, &m)
	}
	if err != nil {
		return a, err
	}
	th, _, err := thread(t.Conn, m.ThreadID)
	if err != nil {
		return a, err
	}
	a = answered{writer: m.Sender, replyTo: cmp.Or(m.PostID(), m.ID), hops: m.Hops + 1}
	if conf.Sent(&m, p.Sender) && !m.IsPost() {
		a.writer = m.Recipient
	}
	a.gone = messages.CheckAnswered(conf, &m, a.writer) != nil
	if th.ID != "" {
		if a.outside = th.shutsOut(p.Sender); a.outside == "" {
			a.thread = th.ID
		}
	}
	return a, nil
}

// postDirectly sends an answer only to the writer of the message that it answers.
func postDirectly(t *ledger.Tx, p *PostDraft, a *answered) (posted Posted, err error) {
	if a.writer == orchestrator.SystemSender || a.writer == p.Sender ||
		strings.HasPrefix(a.writer, orchestrator.ThreadPrefix) {
		return posted, orchestrator.Errorf(orchestrator.InvalidParams,
			"reply_to: you can answer %s only in a thread", a.replyTo).
			WithHint("Give the thread to post in, or direct:NAME to write to one agent")
	}
	d := orchestrator.Draft{
		Sender: p.Sender, Recipient: a.writer, Type: p.Type, ReplyTo: a.replyTo, SessionID: p.Session,
		Verdict: p.Verdict,
		Direct:  a.outside != "",
	}
	if d.Payload, err = p.Payload([]string{a.writer}); err != nil {
		return posted, err
	}
	if d, err = ledger.Check(d); err != nil {
		return posted, err
	}
	out, err := messages.SendIn(t, &d)
	if err == nil {
		err = messages.Undone(out.Refused)
	}
	sent := &out.Sent
	return Posted{
		MessageID: sent.MessageID, Mentions: []string{a.writer},
		Ignored: slices.DeleteFunc(slices.Clone(p.Mentions), func(name string) bool {
			return name == a.writer || name == p.Sender
		}),
		CreatedAt: sent.CreatedAt, Withheld: sent.Withheld, Outside: a.outside, RequestID: sent.RequestID,
		Presence: sent.Presence,
	}, err
}

// joinThread makes an answer a post in the thread of the message that it answers, if possible.
func joinThread(t *ledger.Tx, re *ledger.Reply) error {
	d := &re.Draft
	if d.ThreadID != "" || d.Direct || re.To.ThreadID == "" {
		return nil
	}
	th, found, err := thread(t.Conn, re.To.ThreadID)
	if err != nil {
		return err
	}
	if !found { // a label by which the sender groups messages
		d.ThreadID = re.To.ThreadID
		return nil
	}
	switch {
	case !ledger.DueAt(d, t.Clock).IsZero():
		re.Outside = "the answer is scheduled for later, but posts in a thread appear immediately"
	case re.IsGroup:
		re.Outside = d.Recipient + " refers to several agents, but only individual agents can take part in a thread"
	default:
		re.Outside = cmp.Or(th.shutsOut(d.Sender), th.shutsOut(re.Recipients[0]))
	}
	if re.Outside != "" {
		return nil
	}
	d.ThreadID, d.ReplyTo = th.ID, cmp.Or(re.To.PostID(), d.ReplyTo) // other participants see the post by its id
	if !d.SessionNamed {
		d.SessionID = th.Session
	}
	d.Post, err = insertThreadRow(t, t.Config(), d, re.To.Hops+1)
	return err
}

// shutsOut returns the reason why an answer from or to an agent cannot join the thread, or "" if it can.
func (th *Thread) shutsOut(agent string) string {
	switch {
	case th.Status != Open:
		return "the thread of the answered message was closed at " + th.ClosedAt
	case !th.Has(agent):
		return agent + " does not take part in the thread of the answered message"
	}
	return ""
}

// insertPost stores the thread's copy of a post, and one row for each mention.
func insertPost(t *ledger.Tx, conf *ledger.Config, d *orchestrator.Draft, hops int, posted *Posted) (err error) {
	if posted.MessageID, err = insertThreadRow(t, conf, d, hops); err != nil {
		return err
	}
	row := ledger.Insertion{
		Draft: d, Status: orchestrator.Pending, MaxRetries: conf.Settings.MaxRetries, Hops: hops,
		MulticastID: posted.MessageID, MulticastTarget: orchestrator.ThreadPrefix + d.ThreadID,
	}
	row.Expire(t, &conf.Settings)
	for _, name := range posted.Mentions {
		if row.Id, err = t.NewID("msg-"); err != nil {
			return err
		}
		row.Recipient = name
		if err := t.Insert(&row); err != nil {
			return err
		}
	}
	t.Wake(posted.Mentions...)
	return nil
}

// insertThreadRow stores the thread's own row of a post, and returns its id. The id is also the multicast id of all
// rows of the post.
func insertThreadRow(t *ledger.Tx, conf *ledger.Config, d *orchestrator.Draft, hops int) (id string, err error) {
	if id, err = t.NewID("msg-"); err != nil {
		return "", err
	}
	row := ledger.Insertion{
		Draft: d, Id: id, Recipient: orchestrator.ThreadPrefix + d.ThreadID, Status: orchestrator.Pending,
		MaxRetries: conf.Settings.MaxRetries, Hops: hops,
		MulticastID: id, MulticastTarget: orchestrator.ThreadPrefix + d.ThreadID,
	}
	if err := t.Insert(&row); err != nil {
		return "", err
	}
	if err := t.TraceCreated(); err != nil { // before its delivery
		return "", err
	}
	if _, err := t.ChangeStatus(ledger.BySeq(row.Seq),
		ledger.Change{To: orchestrator.Delivered, Event: tracing.Delivered}); err != nil {
		return "", err
	}
	// Retention deletes a row by the time at which it ended. A post has no such time until its thread is closed.
	if err := t.Run(`UPDATE agent_message SET ended_at = '' WHERE seq = ?`, row.Seq); err != nil {
		return "", err
	}
	if span := tracing.FromContext(t.Ctx); span != nil {
		span.Set(tracing.AttrMessageID, id)
		span.Set(tracing.AttrDestination, row.Recipient)
	}
	t.Wake(orchestrator.AnyThread)
	return id, nil
}
