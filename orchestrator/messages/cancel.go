package messages

import (
	"context"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Cancel cancels a message that is not yet delivered, or the undelivered messages of a send to a group, and returns
// the cancelled messages. by is the agent that asks, or "" for the administrator. Errors: not_found, also if by has
// neither sent nor received the message; permission_denied if by received it; conflict if it is delivered, being
// delivered, or has ended otherwise.
func Cancel(ctx context.Context, l *ledger.Ledger, id, by string) (cancelled []orchestrator.Message, err error) {
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		cancelled = nil
		conf := t.Config()
		ms, err := FindOwn(t.Conn, conf, id, by)
		if err != nil {
			return err
		}
		for i := range ms {
			m := &ms[i]
			if by != "" && !conf.Sent(m, by) {
				return orchestrator.Errorf(orchestrator.PermissionDenied,
					"%s was sent by %s; only the sender can cancel it", m.ID, m.Sender)
			}
			if m.LeaseToken != "" || m.Marks != "" ||
				(m.Status != orchestrator.Pending && m.Status != orchestrator.Retry) {
				continue
			}
			if _, err := t.ChangeStatus(ledger.BySeq(m.Seq),
				ledger.Change{To: orchestrator.Cancelled, Event: tracing.Cancelled}); err != nil {
				return err
			}
			m.Status, m.EndedAt = orchestrator.Cancelled, t.Now
			cancelled = append(cancelled, *m)
		}
		if len(cancelled) == 0 {
			return tooLate(&ms[0])
		}
		return nil
	})
	return cancelled, err
}

func tooLate(m *orchestrator.Message) error {
	if ledger.IsUnowned(m) {
		return orchestrator.Errorf(orchestrator.Conflict, "no process owns the lease of %s, and the lease expires at %s", m.ID,
			m.LeaseUntil).
			WithHint("To see how to fix this, run `mailroom why %s`", m.ID)
	}
	if m.LeaseToken != "" {
		return orchestrator.Errorf(orchestrator.Conflict, "%s is currently being delivered by %s", m.ID, m.LeaseOwner).
			WithHint("Try again later. You can cancel the message if the attempt fails")
	}
	if m.Marks != "" && (m.Status == orchestrator.Pending || m.Status == orchestrator.Retry) {
		return orchestrator.Errorf(orchestrator.Conflict,
			"%s might have arrived: an attempt to deliver it did not report a result", m.ID).
			WithHint("The next delivery run checks whether the message arrived. To see when the run is due, run `mailroom why %s`", m.ID)
	}
	return orchestrator.Errorf(orchestrator.Conflict,
		"%s is %s; you can cancel only a message with the status pending or retry", m.ID, m.Status)
}
