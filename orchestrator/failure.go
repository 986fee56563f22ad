package orchestrator

import (
	"encoding/json"
	"fmt"

	"mailroom/tracing"
)

// attemptFailed ends the attempt that m is making: it goes back on the ladder, or is given up. It returns when the next
// attempt is due, "" when there is none. An outcome that is permanent gives up at once; one with a wait puts the next
// attempt off, but no longer than the ladder's highest rung. m must be live, and still be what the caller read.
func (t *tx) attemptFailed(m *Message, out *outcome) (retryAt string, err error) {
	reason, permanent := out.reason, out.permanent
	conf, err := t.config()
	if err != nil {
		return "", err
	}
	wait, more := conf.settings.nextRung(m)
	if !permanent && !more && t.r.mayHaveArrived(m) {
		// Its transport could not be asked, time and again. The marks stay, so that a replay asks first.
		reason = fmt.Sprintf("%s. An earlier attempt never reported back: %v", reason, ErrUndecidable)
	}
	if permanent || !more {
		event := t.event(tracing.AttemptFailed, reason)
		event.Detail = out.detail
		if err := t.noteEvent(bySeq(m.seq), event); err != nil {
			return "", err
		}
		if permanent {
			// Nothing can tell any more whether it arrived. Whoever replays it accepts that it may arrive again.
			if _, err := t.Exec(`UPDATE agent_message SET delivery_marks = '' WHERE seq = ?`, m.seq); err != nil {
				return "", err
			}
		}
		return "", t.giveUp(m, reason, true)
	}
	if asked := min(out.wait, conf.settings.highestRung()); asked > wait {
		wait, reason = asked, reason+"; its recipient asks for no other attempt within "+FormatDuration(asked)
	}
	retryAt = stamp(t.clock.Add(wait))
	_, err = t.changeStatus(bySeq(m.seq), change{to: Retry, attempted: true, event: tracing.AttemptFailed, failure: reason, detail: out.detail, next: retryAt})
	return retryAt, err
}

// mayHaveArrived reports whether an attempt left its mark with a transport that can be asked about it, and nobody has
// heard yet what became of it.
func (r *Router) mayHaveArrived(m *Message) bool {
	for target := range m.marksOf() {
		transport, _ := r.transportOf(target)
		if _, ok := transport.(Recoverer); ok {
			return true
		}
	}
	return false
}

// giveUp makes a dead letter of a live message and tells its sender. attempted says that an attempt ends with it.
func (t *tx) giveUp(m *Message, reason string, attempted bool) error {
	if m.isTest() {
		return t.testFailed(m, reason)
	}
	retries := m.Attempt() - 1
	if !attempted {
		retries = m.RetryCount
	}
	if _, err := t.changeStatus(bySeq(m.seq), change{to: Failed, event: tracing.Failed, failure: reason, attempted: attempted}); err != nil {
		return err
	}
	return t.bounce(m, DeliveryFailed, reason, retries)
}

// bounce sends one error_report to the sender of a message that failed or expired. The router's own messages never
// bounce, nor does what it says of the end of a session, which a report would start anew. A sender that nobody knows cannot
// get one. Source: contract, "The ladder and retention".
func (t *tx) bounce(m *Message, code Code, reason string, retries int) error {
	conf, err := t.config()
	if err != nil {
		return err
	}
	sender := conf.agents[m.Sender]
	if sender == nil || !conf.settings.Bounce || m.Type == IdleNotification && sender.StartCommand != "" {
		return nil
	}
	payload, err := json.Marshal(map[string]any{
		"error": code, "message": reason, "message_id": m.ID, "recipient": m.Recipient, "message_type": m.Type,
		"retry_count": retries,
	})
	if err != nil {
		return err
	}
	return t.tellSender(m, "error_report", payload)
}
