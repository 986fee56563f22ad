package orchestrator

import (
	"context"

	"mailroom/tracing"
)

// Cancel takes back a message that was not delivered yet, or all such of a send to a group. by is the agent that asks;
// "" is the administrator. It returns the rows that it cancelled. Errors: not_found; permission_denied when somebody
// else sent it; conflict when it is delivered, being delivered or otherwise at its end.
func (r *Router) Cancel(ctx context.Context, id, by string) (cancelled []Message, err error) {
	err = r.write(ctx, func(t *tx) error {
		cancelled = nil
		ms, err := t.mustFind(id)
		if err != nil {
			return err
		}
		for i := range ms {
			m := &ms[i]
			if by != "" && m.Sender != by {
				return Errorf(PermissionDenied, "%s was sent by %s; only its sender can cancel it", m.ID, m.Sender)
			}
			if m.leaseToken != "" || m.marks != "" || (m.Status != Pending && m.Status != Retry) {
				continue
			}
			if _, err := t.changeStatus(bySeq(m.seq), change{to: Cancelled, event: tracing.Cancelled}); err != nil {
				return err
			}
			m.Status, m.EndedAt = Cancelled, t.now
			cancelled = append(cancelled, *m)
		}
		if len(cancelled) == 0 {
			return tooLate(&ms[0])
		}
		return nil
	})
	return cancelled, err
}

func tooLate(m *Message) error {
	if m.leaseToken != "" {
		return Errorf(Conflict, "%s is being delivered by %s right now", m.ID, m.LeaseOwner).
			WithHint("Try again: if the attempt fails, it can be cancelled")
	}
	if m.marks != "" && (m.Status == Pending || m.Status == Retry) {
		return Errorf(Conflict, "%s may have arrived already: an attempt to deliver it did not report back", m.ID).
			WithHint("The next delivery run finds out; `mailroom why %s` says when", m.ID)
	}
	return Errorf(Conflict, "%s is %s already; only a pending message or a retry can be cancelled", m.ID, m.Status)
}

// Acknowledge notes that the recipient has dealt with a message; it counts as read too. by is the agent that asks; "" is
// the administrator. Repeating it changes nothing. Errors: not_found; permission_denied when somebody else received it;
// conflict when it is not delivered.
func (r *Router) Acknowledge(ctx context.Context, id, by string) (m Message, err error) {
	err = r.write(ctx, func(t *tx) error {
		ms, err := t.mustFind(id)
		if err != nil {
			return err
		}
		if len(ms) > 1 {
			return Errorf(InvalidParams, "%s names %d messages; acknowledge your own", id, len(ms)).
				WithHint("`mailroom trace %s` lists them", id)
		}
		m = ms[0]
		switch {
		case by != "" && m.Recipient != by:
			return Errorf(PermissionDenied, "%s was sent to %s; only its recipient can acknowledge it", m.ID, m.Recipient)
		case m.Status != Delivered:
			return Errorf(Conflict, "%s is %s; only a delivered message can be acknowledged", m.ID, m.Status)
		case m.AcknowledgedAt != "":
			return nil
		}
		if m.ReadAt == "" {
			m.ReadAt = t.now
			if err := t.markRead(&m, t.now, tracing.Read, ""); err != nil {
				return err
			}
		}
		m.AcknowledgedAt = t.now
		if _, err := t.Exec(`UPDATE `+m.table()+` SET acknowledged_at = ? WHERE message_id = ?`, t.now, m.ID); err != nil {
			return err
		}
		e := t.event(tracing.Acknowledged, "")
		e.MessageID, e.OldStatus, e.NewStatus = m.ID, string(m.Status), string(m.Status)
		return tracing.Record(t, e)
	})
	return m, err
}
