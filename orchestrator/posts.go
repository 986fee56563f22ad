package orchestrator

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"mailroom/tracing"
)

// PostDraft is a post about to be made in a thread.
type PostDraft struct {
	Session  string // of the sender; a participant may post from any
	Thread   string
	Sender   string   // a participant
	Mentions []string // who gets it as a message of its own; see Posted.Ignored
	Type     string   // any word, at most 64 bytes
	// Payload makes the payload, one JSON value of at most MaxPayload bytes, for those mentions that count. It may be
	// called several times.
	Payload  func(mentions []string) (json.RawMessage, error)
	Register bool // the sender proved its identity: add it if nobody knows it yet
}

// Posted is the answer to a PostDraft.
type Posted struct {
	MessageID string   // of the post, and the multicast id of all its rows
	Mentions  []string // participants that get it
	Ignored   []string // mentioned, but no participants; some may be no names
	Parties   []string // everybody who takes part in the thread
	CreatedAt string
}

// Post stores a post in its thread and sends it to the participants that it mentions, in one transaction; it is on disk
// when Post returns. The thread's copy is a row of agent_message to ThreadPrefix and the thread's id, delivered at once.
// Who mentions itself is not told of it. Errors: invalid_params, unknown_sender, not_found for the thread,
// permission_denied for a sender that takes no part, conflict for a closed thread, unavailable (the backlog limit of
// somebody mentioned), busy.
func (r *Router) Post(ctx context.Context, p PostDraft) (posted Posted, err error) {
	if p.Sender, err = CheckName("sender", p.Sender); err != nil {
		return posted, err
	}
	p.Mentions = slices.Clone(p.Mentions)
	for i, name := range p.Mentions {
		if folded, err := CheckName("mention", name); err == nil {
			p.Mentions[i] = folded // what is no name takes no part
		}
	}
	err = r.write(ctx, func(t *tx) error {
		posted, err = t.post(&p)
		return err
	})
	return posted, err
}

func (t *tx) post(p *PostDraft) (posted Posted, err error) {
	conf, err := t.acting(p.Sender, p.Register)
	if err != nil {
		return posted, err
	}
	th, err := t.openThread(&ThreadChange{Session: p.Session, Thread: p.Thread, By: p.Sender})
	if err != nil {
		return posted, err
	}
	posted = Posted{Mentions: []string{}, Parties: th.Names(), CreatedAt: t.now}
	for _, name := range p.Mentions {
		switch {
		case name == p.Sender || slices.Contains(posted.Mentions, name) || slices.Contains(posted.Ignored, name):
		case th.Has(name) && conf.agents[name] != nil:
			posted.Mentions = append(posted.Mentions, name)
		default:
			posted.Ignored = append(posted.Ignored, name)
		}
	}
	d := Draft{Sender: p.Sender, Type: p.Type, ThreadID: th.ID, SessionID: th.Session}
	if d.Payload, err = p.Payload(posted.Mentions); err != nil {
		return posted, err
	}
	if d, err = d.checkContent(); err != nil {
		return posted, err
	}
	if err := t.checkBacklog(conf, posted.Mentions); err != nil {
		return posted, err
	}
	if err := t.insertPost(conf, &d, &posted); err != nil {
		return posted, err
	}
	return posted, t.heard(p.Sender)
}

// insertPost stores the thread's copy of a post, and one row for each of its mentions.
func (t *tx) insertPost(conf *config, d *Draft, posted *Posted) (err error) {
	if posted.MessageID, err = t.newID("msg-"); err != nil {
		return err
	}
	own := insertion{
		draft: d, id: posted.MessageID, recipient: ThreadPrefix + d.ThreadID, status: Pending, maxRetries: conf.settings.MaxRetries,
		multicastID: posted.MessageID, multicastTarget: ThreadPrefix + d.ThreadID,
	}
	if err := t.insert(&own); err != nil {
		return err
	}
	if _, err := t.changeStatus(bySeq(own.seq), change{to: Delivered, event: tracing.Delivered}); err != nil {
		return err
	}
	// Retention goes by the time at which a row ended. A post goes by the end of its thread, see clearPosts.
	if _, err := t.Exec(`UPDATE agent_message SET ended_at = '' WHERE seq = ?`, own.seq); err != nil {
		return err
	}
	row := own
	row.expire(t, &conf.settings)
	for _, name := range posted.Mentions {
		if row.id, err = t.newID("msg-"); err != nil {
			return err
		}
		row.recipient = name
		if err := t.insert(&row); err != nil {
			return err
		}
	}
	if span := tracing.FromContext(t.ctx); span != nil {
		span.Set(tracing.AttrMessageID, posted.MessageID)
		span.Set(tracing.AttrDestination, own.recipient)
	}
	t.ring.add(posted.Mentions)
	t.ring.add([]string{anyThread})
	return nil
}

// isPost reports whether m is a thread's own copy of a post.
func (m *Message) isPost() bool { return strings.HasPrefix(m.Recipient, ThreadPrefix) }
