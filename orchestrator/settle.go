package orchestrator

import (
	"context"
	"errors"

	"mailroom/tracing"
)

// outcome is what became of one message of a claim.
type outcome struct {
	delivered bool
	fallback  string // the fallback that took it, "" for the agent's own transport
	reason    string // why the attempt, or the agent's own transport, failed; or how it is known that it was delivered
	earlier   bool   // not this attempt delivered it, but one that never reported back
	code      Code   // delivery_failed or delivery_timeout
	permanent bool   // do not try again
	lapsed    bool   // its time had passed, and no transport has it
	givenBack bool   // the process is stopping and the attempt had not come to an end
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
	if errors.Is(context.Cause(ctx), ErrStopping) {
		return outcome{givenBack: true, reason: ErrStopping.Error()}
	}
	return timedOut(c)
}

func timedOut(c *claim) outcome {
	return outcome{code: DeliveryTimeout, reason: "the attempt took longer than " + FormatDuration(c.timeout)}
}

func outcomesOf(ctx context.Context, c *claim, errs []error) []outcome {
	outs := make([]outcome, len(c.messages))
	for i := range outs {
		switch {
		case i >= len(errs):
			outs[i] = outcome{code: DeliveryFailed, reason: "the transport gave no result for the message"}
		case errs[i] == nil:
			outs[i] = outcome{delivered: true}
		default:
			outs[i] = failedOutcome(ctx, c, errs[i])
		}
	}
	return outs
}

func failedOutcome(ctx context.Context, c *claim, err error) outcome {
	if ctx.Err() != nil && !errors.Is(err, ErrUndecidable) {
		out := unfinished(ctx, c)
		out.reason += ": " + err.Error()
		return out
	}
	return outcome{code: DeliveryFailed, reason: err.Error(), permanent: errors.Is(err, ErrUndecidable)}
}

// settlement is what a settled claim adds to the run's result.
type settlement struct {
	delivered int
	failed    []FailedAttempt
}

// settle ends a claim in the table, as far as this process still holds it. What another has taken over meanwhile is left
// alone, and the late result only noted.
func (t *tx) settle(c *claim, outcomes []outcome) (s settlement, err error) {
	for i, out := range outcomes {
		m := &c.messages[i]
		held, err := t.number(`SELECT count(*) FROM agent_message WHERE seq = ? AND lease_token = ? AND `+live, m.seq, c.token)
		if err != nil {
			return s, err
		}
		if held == 0 {
			if err := t.note(bySeq(m.seq), tracing.Released, "late result ignored, the lease was lost: "+out.text()); err != nil {
				return s, err
			}
			continue
		}
		if out.delivered {
			s.delivered++
			if err := t.settleDelivered(m, out); err != nil {
				return s, err
			}
			continue
		}
		if out.lapsed {
			if err := t.lapse(m, out.reason); err != nil {
				return s, err
			}
			continue
		}
		if out.givenBack {
			if err := t.giveBack(m); err != nil {
				return s, err
			}
			continue
		}
		retryAt, err := t.attemptFailed(m, out.reason, out.permanent)
		if err != nil {
			return s, err
		}
		s.failed = append(s.failed, failedAttempt(m, out.code, out.reason, retryAt))
	}
	return s, nil
}

func (t *tx) settleDelivered(m *Message, out outcome) error {
	how := ""
	if out.fallback != "" {
		if out.reason != "" && !out.earlier {
			if err := t.note(bySeq(m.seq), tracing.AttemptFailed, out.reason); err != nil {
				return err
			}
		}
		how = "by the fallback " + out.fallback
		if out.earlier {
			how += ": " + out.reason
		}
	} else if out.reason != "" {
		how = out.reason
	}
	_, err := t.changeStatus(bySeq(m.seq), change{to: Delivered, attempted: true, event: tracing.Delivered, failure: how})
	return err
}

// giveBack ends the lease on a message whose attempt did not come to an end. It costs no rung.
func (t *tx) giveBack(m *Message) error {
	if err := t.note(bySeq(m.seq), tracing.Released, "given back: "+ErrStopping.Error()); err != nil {
		return err
	}
	t.ring.all = true
	_, err := t.Exec(`UPDATE agent_message SET `+noLease+` WHERE seq = ?`, m.seq)
	return err
}

func (o *outcome) text() string {
	if o.delivered {
		return "delivered"
	}
	return o.reason
}
