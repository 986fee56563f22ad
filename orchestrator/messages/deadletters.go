package messages

import (
	"cmp"
	"context"
	"math"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// DeadLetterFilter selects dead letters, which are messages that failed or expired. The zero value selects all.
type DeadLetterFilter struct {
	Recipient string
	Sender    string
	Error     string // only those with a similar error, see Alike
	Limit     int    // maximum number, newest first
	Before    int64  // only messages sent before the one with this seq; 0 means all
	Own       bool   // only messages of the present Sender, not of a removed agent with that name
}

// deadLetters is the end of a SELECT of the dead letters that a filter selects. Pushes to phones are included only if
// the filter names the device, because what they announced remains visible in the app.
const deadLetters = ` FROM agent_message WHERE status IN ('failed','expired')
	AND (?1 = '' AND recipient NOT LIKE '` + push.DevicePrefix +
	`%' OR recipient = ?1) AND (?2 = '' OR sender = ?2) AND +seq > ?3 AND +seq < ?4`

// DeadLetterList is the result of DeadLetters.
type DeadLetterList struct {
	Total int64 `json:"total"` // number of selected letters without the limit
	// with an error: only the newest 20,000 dead letters were examined, and there are more
	Cut         bool                   `json:"cut,omitempty"`
	DeadLetters []orchestrator.Message `json:"dead_letters"`
}

// DeadLetters returns the messages that failed or expired, newest first, up to the filter's limit.
func DeadLetters(ctx context.Context, l *ledger.Ledger, f DeadLetterFilter) (list DeadLetterList, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		args := f.args(conf)
		if f.Error != "" {
			list, err = f.likeError(c, args)
			return err
		}
		if list.Total, err = c.Number(`SELECT count(*)`+deadLetters, args...); err != nil {
			return err
		}
		list.DeadLetters, err = ledger.Messages(c, `SELECT `+ledger.MessageColumns+deadLetters+
			` ORDER BY seq DESC LIMIT +?5`, append(args, f.Limit)...)
		return err
	})
	return list, err
}

// args returns the parameters of deadLetters.
func (f *DeadLetterFilter) args(conf *ledger.Config) []any {
	after := int64(math.MinInt64)
	if f.Own {
		after = conf.Former(f.Sender)
	}
	recipient := f.Recipient // which need not be a valid name, because rows may be written by hand
	if folded := orchestrator.FoldName(recipient); orchestrator.IsName(folded) {
		recipient = folded
	}
	return []any{recipient, f.Sender, after, cmp.Or(f.Before, math.MaxInt64)}
}

// Replay sends dead letters again. They become pending with a retry count of zero; the earlier attempts stay in the
// trace. A TTL that the sender gave starts again, and a time before which the sender did not want the delivery still
// applies. by is the agent that asks, which must be the sender, or "" for the administrator. Errors: not_found, also
// if by has neither sent nor received the message; permission_denied if by received it; conflict if it is not a dead
// letter; unknown_recipient if the recipient still does not exist; unknown_sender if the message was refused because
// of an unknown sender that still does not exist.
func Replay(ctx context.Context, l *ledger.Ledger, id, by string) (replayed []orchestrator.Message, err error) {
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		replayed = nil
		conf := t.Config()
		ms, err := FindOwn(t.Conn, conf, id, by)
		if err != nil {
			return err
		}
		for i := range ms {
			m := &ms[i]
			if m.Status != orchestrator.Failed && m.Status != orchestrator.Expired {
				continue
			}
			if by != "" && !conf.Sent(m, by) {
				return orchestrator.Errorf(orchestrator.PermissionDenied,
					"%s was sent by %s; only the sender can replay it", m.ID, m.Sender)
			}
			if err := replay(t, m); err != nil {
				return err
			}
			replayed = append(replayed, *m)
		}
		if len(replayed) == 0 {
			return orchestrator.Errorf(orchestrator.Conflict,
				"%s is %s; you can replay only a failed or expired message", ms[0].ID, ms[0].Status)
		}
		return nil
	})
	return replayed, err
}

// ReplayAll replays the dead letters that the filter selects, oldest first, up to its limit. skipped is the number of
// letters left unchanged because their recipient or sender does not exist, or because they are no longer dead
// letters. If ReplayAll returns an error, replayed holds the messages replayed before the error.
func ReplayAll(ctx context.Context, l *ledger.Ledger, f DeadLetterFilter) (replayed []orchestrator.Message, skipped int,
	err error) {
	ids, err := f.toReplay(ctx, l)
	if err != nil {
		return nil, 0, err
	}
	for _, id := range ids {
		again, err := Replay(ctx, l, id, "")
		switch orchestrator.CodeOf(err) {
		case orchestrator.UnknownRecipient, orchestrator.UnknownSender, orchestrator.Conflict, orchestrator.NotFound:
			skipped++
			continue
		}
		if err != nil {
			return replayed, skipped, err
		}
		replayed = append(replayed, again...)
	}
	return replayed, skipped, nil
}

// CountForReplay returns the number of dead letters that ReplayAll tries to replay, including those that it skips.
func CountForReplay(ctx context.Context, l *ledger.Ledger, f DeadLetterFilter) (int64, error) {
	ids, err := f.toReplay(ctx, l)
	return int64(len(ids)), err
}

// toReplay returns the ids of the dead letters that the filter selects, oldest first. Letters that cannot be replayed
// come last.
func (f *DeadLetterFilter) toReplay(ctx context.Context, l *ledger.Ledger) (ids []string, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		ids = nil
		like, limit := Alike(f.Error), f.Limit
		if f.Error != "" {
			limit = math.MaxInt32
		}
		return c.Query(`SELECT message_id, `+reason+deadLetters+` ORDER BY recipient IN (SELECT name FROM agents) DESC,
			coalesce(error_message, '') LIKE 'unknown_sender: %' AND sender NOT IN (SELECT name FROM agents), seq
				LIMIT +?5`, func(row store.Row) error {
			if len(ids) < f.Limit && (f.Error == "" || Alike(row.Text(1)) == like) {
				ids = append(ids, row.Text(0))
			}
			return nil
		}, append(f.args(conf), limit)...)
	})
	return ids, err
}

// LacksSender reports whether a message was refused because its sender was unknown, and the sender still is.
func LacksSender(conf *ledger.Config, m *orchestrator.Message) bool {
	return ledger.LackedSender(m.Error) && conf.Agents[m.Sender] == nil
}

func replay(t *ledger.Tx, m *orchestrator.Message) error {
	conf := t.Config()
	if LacksSender(conf, m) {
		return agents.Unknown(t.Conn, orchestrator.UnknownSender, m.ID+" cannot be replayed: ", m.Sender, conf)
	}
	if conf.Agents[m.Recipient] == nil {
		return agents.Unknown(t.Conn, orchestrator.UnknownRecipient, m.ID+" cannot be replayed: ", m.Recipient, conf)
	}
	if err := t.Run(`DELETE FROM agent_inbox WHERE message_id = ? AND recipient = ? AND read_at = ''`, m.ID,
		m.Recipient); err != nil {
		return err
	}
	if _, err := t.ChangeStatus(ledger.BySeq(m.Seq),
		ledger.Change{To: orchestrator.Pending, Event: tracing.Replayed}); err != nil {
		return err
	}
	if conf.Sent(m, m.Sender) { // a removed agent has no open requests
		for _, p := range t.Ledger.Parts {
			if p.Replayed == nil {
				continue
			}
			if err := p.Replayed(t, m.ID); err != nil {
				return err
			}
		}
	}
	due, next := t.Clock, ""
	if h := conf.HoldOf(m.Sender, m.Recipient, t.ClockText); h != nil && h.Until > m.NotBefore {
		m.NotBefore = h.Until
	}
	if m.NotBefore > t.ClockText {
		due, next = orchestrator.ParseStamp(m.NotBefore), m.NotBefore
	}
	expires := due.Add(conf.Settings.ExpireAfter)
	if m.TTL != nil {
		expires = due.Add(ledger.TTL(*m.TTL))
	}
	m.Status, m.RetryCount, m.Error = orchestrator.Pending, 0, ""
	t.WakeAll()
	return t.Run(`UPDATE agent_message SET expires_at = ?, review_at = ?, next_attempt_at = ?, not_before = ? WHERE seq = ?`,
		orchestrator.Stamp(expires),
		min(orchestrator.Stamp(expires), orchestrator.Stamp(due.Add(conf.Settings.OverdueAfter))), next, m.NotBefore, m.Seq)
}
