package orchestrator

import (
	"context"

	"mailroom/tracing"
)

// Cancel takes back a message that was not delivered yet, or all such of a send to a group. by is the agent that asks;
// "" is the administrator. It returns the rows that it cancelled. Errors: not_found, also for what by neither sent nor
// received; permission_denied when by received it; conflict when it is delivered, being delivered or otherwise at its end.
func (r *Router) Cancel(ctx context.Context, id, by string) (cancelled []Message, err error) {
	err = r.write(ctx, func(t *tx) error {
		cancelled = nil
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
			if by != "" && !conf.sent(m, by) {
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
	if m.isUnowned() {
		return Errorf(Conflict, "%s is under a lease without an owner until %s", m.ID, m.LeaseUntil).
			WithHint("`mailroom why %s` says what to do about it", m.ID)
	}
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
