package orchestrator

import (
	"context"
	"math"
	"strings"

	"mailroom/tracing"
)

// DeadLetterFilter selects dead letters; the zero value selects all.
type DeadLetterFilter struct {
	Recipient string
	Sender    string
	Since     string // created at or after, as stored
	Limit     int    // at most, newest first
	Own       bool   // only what Sender has sent itself, and not a removed agent that had its name
}

// deadLetters selects what a filter names.
const deadLetters = ` FROM agent_message WHERE status IN ('failed','expired')
	AND (?1 = '' OR recipient = ?1) AND (?2 = '' OR sender = ?2) AND (?3 = '' OR created_at >= ?3) AND +seq > ?4`

// DeadLetters lists messages that failed or expired, newest first, and how many there are in all.
func (r *Router) DeadLetters(ctx context.Context, f DeadLetterFilter) (ms []Message, total int64, err error) {
	err = r.read(ctx, func(c *Conn) error {
		args, err := f.args(r, c)
		if err != nil {
			return err
		}
		if total, err = c.number(`SELECT count(*)`+deadLetters, args...); err != nil {
			return err
		}
		ms, err = c.messages(`SELECT `+messageColumns+deadLetters+` ORDER BY seq DESC LIMIT +?5`, append(args, f.Limit)...)
		return err
	})
	return ms, total, err
}

// args are the parameters of deadLetters.
func (f *DeadLetterFilter) args(r *Router, c *Conn) ([]any, error) {
	after := int64(math.MinInt64)
	if f.Own {
		conf, err := r.config.load(c)
		if err != nil {
			return nil, err
		}
		after = conf.former(f.Sender)
	}
	return []any{f.Recipient, f.Sender, f.Since, after}, nil
}

// Replay puts dead letters back at the foot of the ladder: pending, with no retries made; their earlier attempts stay in the
// trace. An explicit ttl starts anew; what its sender wants later is not due before. by is the agent that asks and must be the
// sender; "" is the administrator. Errors: not_found, also for what by neither sent nor received; permission_denied when by
// received it; conflict for a message that is no dead letter; unknown_recipient when nobody has the recipient's name;
// unknown_sender when it was refused for its sender's, which nobody has yet.
func (r *Router) Replay(ctx context.Context, id, by string) (replayed []Message, err error) {
	err = r.write(ctx, func(t *tx) error {
		replayed = nil
		conf, err := t.config()
		if err != nil {
			return err
		}
		ms, err := t.mustFindOwn(conf, id, by)
		if err != nil {
			return err
		}
		for i := range ms {
			m := &ms[i]
			if m.Status != Failed && m.Status != Lapsed {
				continue
			}
			if by != "" && !conf.sent(m, by) {
				return Errorf(PermissionDenied, "%s was sent by %s; only its sender can replay it", m.ID, m.Sender)
			}
			if err := t.replay(m); err != nil {
				return err
			}
			replayed = append(replayed, *m)
		}
		if len(replayed) == 0 {
			return Errorf(Conflict, "%s is %s; only a failed or expired message can be replayed", ms[0].ID, ms[0].Status)
		}
		return nil
	})
	return replayed, err
}

// ReplayAll replays every dead letter that the filter selects, oldest first, up to its limit. Those that
// cannot be replayed, since nobody knows their recipient or sender, are left as they are and counted in skipped. What was
// replayed before an error is returned with it.
func (r *Router) ReplayAll(ctx context.Context, f DeadLetterFilter) (replayed []Message, skipped int, err error) {
	var ids []string
	err = r.read(ctx, func(c *Conn) error {
		args, err := f.args(r, c)
		if err != nil {
			return err
		}
		ids, err = c.texts(`SELECT message_id`+deadLetters+` ORDER BY recipient IN (SELECT name FROM agents) DESC,
			coalesce(error_message, '') LIKE 'unknown_sender: %' AND sender NOT IN (SELECT name FROM agents), seq LIMIT +?5`, append(args, f.Limit)...)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	for _, id := range ids {
		again, err := r.Replay(ctx, id, "")
		switch CodeOf(err) {
		case UnknownRecipient, UnknownSender, Conflict, NotFound:
			if err != nil {
				skipped++
				continue
			}
		}
		if err != nil {
			return replayed, skipped, err
		}
		replayed = append(replayed, again...)
	}
	return replayed, skipped, nil
}

// lacksSender reports whether a message was refused because nobody has its sender's name, and nobody has it yet.
func (conf *config) lacksSender(m *Message) bool {
	return strings.HasPrefix(m.Error, string(UnknownSender)+": ") && conf.agents[m.Sender] == nil
}

func (t *tx) replay(m *Message) error {
	conf, err := t.config()
	if err != nil {
		return err
	}
	if conf.lacksSender(m) {
		return t.unknownAgent(UnknownSender, m.ID+" cannot be replayed: ", m.Sender, conf)
	}
	if conf.agents[m.Recipient] == nil {
		return t.unknownAgent(UnknownRecipient, m.ID+" cannot be replayed: ", m.Recipient, conf)
	}
	if _, err := t.Exec(`DELETE FROM agent_inbox WHERE message_id = ? AND recipient = ? AND read_at = ''`, m.ID, m.Recipient); err != nil {
		return err
	}
	if _, err := t.changeStatus(bySeq(m.seq), change{to: Pending, event: tracing.Replayed}); err != nil {
		return err
	}
	if conf.sent(m, m.Sender) { // a removed agent asks nothing any more
		for _, p := range t.r.parts {
			if p.Replayed == nil {
				continue
			}
			if err := p.Replayed(t, m.ID); err != nil {
				return err
			}
		}
	}
	due, next := t.clock, ""
	if m.NotBefore > t.clockText {
		due, next = parseStamp(m.NotBefore), m.NotBefore
	}
	expires := due.Add(conf.settings.ExpireAfter)
	if m.ttl != nil {
		expires = due.Add(secondsUpTo(*m.ttl, MaxTTL))
	}
	_, err = t.Exec(`UPDATE agent_message SET expires_at = ?, review_at = ?, next_attempt_at = ? WHERE seq = ?`,
		stamp(expires), min(stamp(expires), stamp(due.Add(conf.settings.OverdueAfter))), next, m.seq)
	m.Status, m.RetryCount, m.Error, t.ring.all = Pending, 0, "", true
	return err
}
