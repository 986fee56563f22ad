package delivery

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// outcome is what became of one message of a claim.
type outcome struct {
	delivered bool
	fallback  string // the fallback that took it, "" for the agent's own transport
	// why the attempt, or the agent's own transport, failed; or how it is known that it was delivered
	reason    string
	earlier   bool              // not this attempt delivered it, but one that never reported back
	code      orchestrator.Code // delivery_failed or delivery_timeout
	permanent bool              // do not try again
	expired   bool              // its time had passed, and no transport has it
	givenBack bool              // the process is stopping and the attempt had not come to an end
	postponed bool              // the recipient asks to be tried later; that costs no rung
	gone      bool              // the address is gone for good
	noDevice  bool              // the user has no device
	wait      time.Duration     // the recipient asks for no attempt before
	detail    string            // what the transport reported of the attempt
}

func allOutcomes(c *claim, out outcome) []outcome {
	outs := make([]outcome, len(c.messages))
	for i := range outs {
		outs[i] = out
	}
	return outs
}

// unfinished is the outcome of an attempt whose context ended before the transport came back.
func unfinished(ctx context.Context, c *claim) outcome {
	if cause := context.Cause(ctx); errors.Is(cause, orchestrator.ErrStopping) || errors.Is(cause, errCutOff) {
		return outcome{givenBack: true, reason: cause.Error()}
	}
	return timedOut(c)
}

func timedOut(c *claim) outcome {
	return outcome{code: orchestrator.DeliveryTimeout, reason: "the attempt took longer than " +
		orchestrator.FormatDuration(c.timeout)}
}

func outcomesOf(ctx context.Context, c *claim, errs []error) []outcome {
	outs := make([]outcome, len(c.messages))
	for i := range outs {
		switch {
		case i >= len(errs):
			outs[i] = outcome{code: orchestrator.DeliveryFailed, reason: "the transport did not return a result for the message"}
		case errs[i] == nil:
			outs[i] = outcome{delivered: true}
		default:
			outs[i] = failedOutcome(ctx, c, errs[i])
		}
	}
	return outs
}

func failedOutcome(ctx context.Context, c *claim, err error) outcome {
	if errors.Is(err, errUnmarked) {
		return outcome{givenBack: true, reason: err.Error()}
	}
	if ctx.Err() != nil && !errors.Is(err, orchestrator.ErrUndecidable) {
		out := unfinished(ctx, c)
		out.reason += ": " + err.Error()
		return out
	}
	out := outcome{
		code: orchestrator.DeliveryFailed, reason: err.Error(),
		permanent: errors.Is(err, orchestrator.ErrUndecidable) || errors.Is(err, orchestrator.ErrRefused),
		postponed: errors.Is(err, orchestrator.ErrTryLater), gone: errors.Is(err, orchestrator.ErrGone),
		noDevice: errors.Is(err, orchestrator.ErrNoDevice),
	}
	var later *orchestrator.RetryAfter
	if errors.As(err, &later) {
		out.wait = later.Wait
	}
	return out
}

// settlement is what a settled claim adds to the run's result.
type settlement struct {
	delivered int
	putOff    int
	failed    []FailedAttempt
	disabled  string // the agent, if its transport was disabled
}

// settle ends a claim in the table, as far as this process still holds it. What another has taken over meanwhile is
// left alone, and the late result only noted.
func settle(t *ledger.Tx, c *claim, outcomes []outcome) (s settlement, err error) {
	for i := range outcomes {
		if err := settleOne(t, c, &c.messages[i], &outcomes[i], &s); err != nil {
			return s, err
		}
	}
	if p := t.Ledger.PartOf(c.agent.Name); p != nil {
		return s, p.Tried(t, c.agent.Name, outcomes[len(outcomes)-1].text())
	}
	s.disabled, err = disableGone(t, c, outcomes)
	return s, err
}

// settleOne ends the lease on one message of a claim.
func settleOne(t *ledger.Tx, c *claim, m *orchestrator.Message, out *outcome, s *settlement) error {
	part := t.Ledger.PartOf(c.agent.Name)
	held, err := t.Number(`SELECT count(*) FROM agent_message WHERE seq = ? AND lease_token = ? AND `+ledger.Live,
		m.Seq, c.token)
	switch {
	case err != nil:
		return err
	case held == 0:
		return t.Note(ledger.BySeq(m.Seq), tracing.Released, "late result ignored because the lease was lost: "+out.text())
	case out.delivered:
		s.delivered++
		return settleDelivered(t, m, out)
	case out.gone && part != nil:
		over := *out // the request may be run again
		if over.permanent, err = part.Gone(t, c.agent.Name, c.secret, out.reason); err != nil {
			return err
		}
		out = &over
	case out.expired:
		return Lapse(t, m, out.reason)
	case c.trial: // whatever comes of it, it is not tried again
	case out.givenBack:
		return giveBack(t, m, out)
	case out.gone:
		return giveBack(t, m, out) // it waits for another address
	case out.postponed:
		s.putOff++
		return postpone(t, m, out)
	case out.noDevice:
		s.putOff++
		return awaitDevice(t, m, out)
	}
	if part != nil {
		if over, err := cancelPointless(t, part, m, out); err != nil || over {
			return err
		}
	}
	retryAt, err := attemptFailed(t, m, out)
	if err != nil {
		return err
	}
	s.failed = append(s.failed, failedAttempt(m, out.code, out.reason, retryAt))
	return nil
}

// cancelPointless cancels a message of which an attempt failed, if its recipient's part says that it needs no other.
func cancelPointless(t *ledger.Tx, part *ledger.Part, m *orchestrator.Message, out *outcome) (over bool, err error) {
	why, err := part.Pointless(t, m)
	if err != nil || why == "" {
		return false, err
	}
	_, err = t.ChangeStatus(ledger.BySeq(m.Seq), ledger.Change{
		To: orchestrator.Cancelled, Event: tracing.Cancelled, Failure: why + " during the attempt: " + out.reason,
		Detail: out.detail,
	})
	return true, err
}

// What the trace says of a message that not the agent's own transport delivered, or not this attempt.
const (
	ByFallback   = "by the fallback " // and its target
	FoundEarlier = "an earlier attempt had delivered it"
)

func settleDelivered(t *ledger.Tx, m *orchestrator.Message, out *outcome) error {
	how := ""
	if out.fallback != "" {
		if out.reason != "" && !out.earlier {
			if err := t.Note(ledger.BySeq(m.Seq), tracing.AttemptFailed, out.reason); err != nil {
				return err
			}
		}
		how = ByFallback + out.fallback
		if out.earlier {
			how += ": " + out.reason
		}
	} else if out.reason != "" {
		how = out.reason
	}
	done := ledger.Change{
		To: orchestrator.Delivered, Attempted: true, Event: tracing.Delivered, Failure: how, Detail: out.detail,
		Final: m.Recipient == orchestrator.User || t.Ledger.PartOf(m.Recipient) != nil,
	}
	if _, err := t.ChangeStatus(ledger.BySeq(m.Seq), done); err != nil {
		return err
	}
	if m.Status == orchestrator.Retry {
		say(t, slog.LevelInfo, "delivered after a retry", m, "attempt", m.Attempt())
	}
	agents.WakeStarter(t, m.Recipient)
	return nil
}

// giveBack ends the lease on a message whose attempt did not come to an end. It costs no rung.
func giveBack(t *ledger.Tx, m *orchestrator.Message, out *outcome) error {
	t.WakeAll()
	return release(t, m, out, "given back: "+out.reason, "", nil)
}

// postpone ends the lease on a message whose recipient asks to be tried later: after the waits of the ladder, the last
// of them again and again, and without a step on it. It does so until the message expires.
func postpone(t *ledger.Tx, m *orchestrator.Message, out *outcome) error {
	conf := t.Config()
	before, err := TimesPutOff(t.Conn, m.ID)
	if err != nil {
		return err
	}
	ladder := conf.Settings.Ladder
	next := orchestrator.Stamp(t.Clock.Add(ladder[min(int(before), len(ladder)-1)]))
	if before >= int64(len(ladder)) {
		out.detail = "" // the trace has enough of them
	}
	return release(t, m, out, "put off until "+next+": "+out.reason, `next_attempt_at = ?2, error_message = ?3, `,
		[]any{next, out.reason})
}

// awaitDevice keeps a message to the user from further attempts until a device is approved. One that is active in the
// table all the same was approved meanwhile, or is not approved on this machine: that is looked at again.
func awaitDevice(t *ledger.Tx, m *orchestrator.Message, out *outcome) error {
	there, err := t.UserHasDevice()
	if err != nil {
		return err
	}
	if there {
		return postpone(t, m, out)
	}
	if err := t.Note(ledger.BySeq(m.Seq), tracing.Held, out.reason); err != nil {
		return err
	}
	return t.Run(`UPDATE agent_message SET held = 1, next_attempt_at = '', `+ledger.NoLease+` WHERE seq = ?1`, m.Seq)
}

// TimesPutOff returns how often the recipient of a message has asked to be tried later.
func TimesPutOff(c *store.Conn, id string) (int64, error) {
	return c.Number(`SELECT count(*) FROM message_trace WHERE message_id = ? AND event = 'released'
		AND error LIKE 'put off until %'`, id)
}

// release ends the lease on a message that stays what it is, and sets what else is given.
func release(t *ledger.Tx, m *orchestrator.Message, out *outcome, why, set string, args []any) error {
	event := t.Event(tracing.Released, why)
	event.Detail = out.detail
	if err := t.NoteEvent(ledger.BySeq(m.Seq), event); err != nil {
		return err
	}
	return t.Run(`UPDATE agent_message SET `+set+ledger.NoLease+` WHERE seq = ?1`, append([]any{m.Seq}, args...)...)
}

func (o *outcome) text() string {
	if o.delivered {
		return "delivered"
	}
	return o.reason
}
