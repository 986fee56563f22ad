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

// outcome is the result of an attempt for one message of a claim.
type outcome struct {
	delivered bool
	fallback  string // target of the fallback that delivered it; "" for the agent's own transport
	// why the attempt, or the agent's own transport, failed; or the evidence that the message was delivered
	reason    string
	earlier   bool              // delivered by an earlier attempt that did not report back
	code      orchestrator.Code // delivery_failed or delivery_timeout
	permanent bool              // no further attempt
	expired   bool              // the message's time had passed, and no transport has it
	givenBack bool              // the process is stopping and the attempt was not finished
	postponed bool              // the recipient requested a later attempt, which does not use up a retry
	gone      bool              // the address is gone for good
	noDevice  bool              // the user has no device
	wait      time.Duration     // minimum wait before the next attempt, requested by the recipient
	detail    string            // the transport's report of the attempt
}

func allOutcomes(c *claim, out outcome) []outcome {
	outs := make([]outcome, len(c.messages))
	for i := range outs {
		outs[i] = out
	}
	return outs
}

// unfinished returns the outcome of an attempt whose context ended before the transport returned.
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

// settlement is the contribution of a settled claim to the result of the run.
type settlement struct {
	delivered int
	putOff    int
	failed    []FailedAttempt
	disabled  string // the agent whose transport was disabled, or ""
}

// settle records the outcomes of a claim for the messages that this process still holds. For messages that another
// process has taken over meanwhile, it only records the late result in the trace. A row that cannot be changed keeps
// its lease.
func settle(t *ledger.Tx, c *claim, outcomes []outcome) (s settlement, err error) {
	for i := range outcomes {
		before := s
		stuck, err := t.RowSavepoint("recording the result of its delivery", c.messages[i].ID, func() error {
			return settleOne(t, c, &c.messages[i], &outcomes[i], &s)
		})
		if err != nil {
			return s, err
		}
		if stuck {
			s = before
		}
	}
	if p := t.Ledger.PartOf(c.agent.Name); p != nil {
		return s, p.Tried(t, c.agent.Name, outcomes[len(outcomes)-1].text())
	}
	s.disabled, err = disableGone(t, c, outcomes)
	return s, err
}

// settleOne records the outcome of one message of a claim and ends its lease.
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
		over := *out // a copy, because the request may be run again
		if over.permanent, err = part.Gone(t, c.agent.Name, c.secret, out.reason); err != nil {
			return err
		}
		out = &over
	case out.expired:
		return Lapse(t, m, out.reason)
	case c.trial: // whatever the result, it is not retried
	case out.givenBack:
		return giveBack(t, m, out)
	case out.gone:
		return giveBack(t, m, out) // the message waits for another address
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

// cancelPointless cancels a message after a failed attempt if its recipient's part finds a further attempt pointless.
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

// Trace texts for a message that was delivered by the fallback or by an earlier attempt.
const (
	ByFallback   = "by the fallback " // followed by the target of the fallback
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

// giveBack ends the lease on a message whose attempt was not finished. It does not use up a retry.
func giveBack(t *ledger.Tx, m *orchestrator.Message, out *outcome) error {
	t.WakeAll()
	return release(t, m, out, "given back: "+out.reason, "", nil)
}

// postpone ends the lease on a message whose recipient requested a later attempt. The waits are those of the retry
// schedule, and the last one repeats, but no retry is used up. Postponing ends when the message expires.
func postpone(t *ledger.Tx, m *orchestrator.Message, out *outcome) error {
	conf := t.Config()
	before, err := TimesPutOff(t.Conn, m.ID)
	if err != nil {
		return err
	}
	ladder := conf.Settings.Ladder
	next := orchestrator.Stamp(t.Clock.Add(ladder[min(int(before), len(ladder)-1)]))
	if before >= int64(len(ladder)) {
		out.detail = "" // the trace has enough of these reports
	}
	return release(t, m, out, "put off until "+next+": "+out.reason, `next_attempt_at = ?2, error_message = ?3, `,
		[]any{next, out.reason})
}

// awaitDevice holds a message to the user until a device is approved. If the table nevertheless contains an active
// device, the device was approved meanwhile, or is not approved on this machine; the message is then postponed
// instead.
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

// TimesPutOff returns how often the recipient of a message has requested a later attempt.
func TimesPutOff(c *store.Conn, id string) (int64, error) {
	return c.Number(`SELECT count(*) FROM message_trace WHERE message_id = ? AND event = 'released'
		AND error LIKE 'put off until %'`, id)
}

// release ends the lease on a message without changing its status, and makes the additional assignments in set.
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
