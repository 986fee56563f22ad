package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom/tracing"
)

// outcome is what became of one message of a claim.
type outcome struct {
	delivered bool
	fallback  string // the fallback that took it, "" for the agent's own transport
	reason    string // why the attempt, or the agent's own transport, failed
	code      Code   // delivery_failed or delivery_timeout
	permanent bool   // do not try again
	givenBack bool   // the process is stopping and the attempt had not come to an end
}

// shutdownGrace is how long an attempt may go on once the process was asked to stop. It leaves room in the 10 s within
// which `mailroom serve` exits.
const shutdownGrace = 6 * time.Second

// errStopping ends an attempt whose process must exit.
var errStopping = errors.New("the process is stopping")

// stallGrace is how long a transport may take to notice that its context has ended before it is left to itself.
const stallGrace = 2 * time.Second

// deliverTo delivers to one recipient until nothing is due: claim in a short transaction, deliver outside any, settle in
// the transaction of the next claim. When ctx ends, what is claimed is finished or given back, and nothing more claimed.
func (r *Router) deliverTo(ctx context.Context, recipient string, o DeliverOptions, y *tally) error {
	var held *claim
	var outcomes []outcome
	for {
		var next *claim
		var report settlement
		stopping := ctx.Err() != nil
		err := r.write(context.WithoutCancel(ctx), func(t *tx) (err error) {
			next, report = nil, settlement{}
			if held != nil {
				if report, err = t.settle(held, outcomes); err != nil {
					return err
				}
			}
			if !stopping {
				next, err = t.claimNext(recipient, o)
			}
			return err
		})
		if err != nil {
			return err
		}
		y.deliver(recipient, report.delivered)
		y.fail(report.failed...)
		if next == nil {
			return nil
		}
		held, outcomes = next, r.attempt(ctx, next)
	}
}

// transportOf finds the transport of a target such as "jsonl:/path" and the address in it.
func (r *Router) transportOf(target string) (Transport, string) {
	scheme, address, _ := strings.Cut(target, ":")
	return r.transports[scheme], address
}

// attempt tries to deliver a claim and returns one outcome per message. A message that carries marks is looked for
// first, wherever an earlier attempt may have left it.
func (r *Router) attempt(ctx context.Context, c *claim) []outcome {
	ctx, cancel := attemptContext(ctx, c.timeout)
	defer cancel()
	if len(c.messages) == 1 && c.messages[0].marks != "" {
		found, known := r.recoverEarlier(ctx, c)
		if known {
			return []outcome{found}
		}
	}
	outcomes := r.tryTarget(ctx, c, c.agent.Deliver)
	if c.agent.Fallback == "" {
		return outcomes
	}
	return r.tryFallback(ctx, c, outcomes)
}

// attemptContext ends at the delivery timeout, or some time after the process was asked to stop: an attempt under way
// is finished if it can be.
func attemptContext(parent context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(parent))
	ctx, cancel := context.WithTimeout(ctx, timeout)
	unhook := context.AfterFunc(parent, func() {
		timer := time.AfterFunc(shutdownGrace, func() { stop(errStopping) })
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	return ctx, func() {
		unhook()
		cancel()
		stop(nil)
	}
}

// tryFallback hands what the agent's own transport failed on to its fallback. Messages that failed for good stay so.
// The fallback has a delivery timeout of its own, since the transport may have used up the first.
func (r *Router) tryFallback(ctx context.Context, c *claim, outcomes []outcome) []outcome {
	if errors.Is(context.Cause(ctx), errStopping) {
		return outcomes
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(c.timeout, leaseGrace/2))
	defer cancel()
	rest := *c
	rest.messages = nil
	var places []int
	for i, out := range outcomes {
		if !out.delivered && !out.permanent {
			rest.messages = append(rest.messages, c.messages[i])
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return outcomes
	}
	for j, second := range r.tryTarget(ctx, &rest, c.agent.Fallback) {
		first := &outcomes[places[j]]
		if second.delivered {
			first.delivered, first.fallback = true, c.agent.Fallback
		} else {
			first.reason += "; and the fallback: " + second.reason
			first.permanent = second.permanent
		}
	}
	return outcomes
}

// recoverEarlier asks every transport that left a mark on the message whether it delivered it. known is false when none
// did and the message may be delivered now.
func (r *Router) recoverEarlier(ctx context.Context, c *claim) (found outcome, known bool) {
	marks := c.messages[0].marksOf()
	for _, target := range slices.Sorted(maps.Keys(marks)) {
		transport, address := r.transportOf(target)
		recoverer, ok := transport.(Recoverer)
		if !ok {
			continue
		}
		m := c.messages[0]
		m.Mark = marks[target]
		delivered, err := recoverer.Recover(ctx, Attempt{
			Recipient: c.agent.Name, Address: address, Messages: []Message{m}, Timeout: c.timeout,
		})
		switch {
		case delivered:
			out := outcome{delivered: true, reason: "an earlier attempt had delivered it"}
			if target != c.agent.Deliver {
				out.fallback = target
			}
			return out, true
		case err != nil:
			return failedOutcome(ctx, c, err), true
		}
	}
	return outcome{}, false
}

// tryTarget hands the claim to one transport under the delivery timeout. A transport that does not come back soon after
// its time is up is left behind: the lease protects the messages from what it may still do, and its late result counts
// for nothing.
func (r *Router) tryTarget(ctx context.Context, c *claim, target string) []outcome {
	transport, address := r.transportOf(target)
	if transport == nil {
		scheme, _, _ := strings.Cut(target, ":")
		return allOutcomes(c, outcome{reason: fmt.Sprintf("this program has no transport %q", scheme), code: DeliveryFailed})
	}
	if set, ok := transport.(SetTransport); ok {
		return []outcome{r.trySet(ctx, c, set)}
	}
	a := Attempt{
		Recipient: c.agent.Name, Address: address, Messages: c.messages, Timeout: c.timeout,
		Mark: func(ctx context.Context, note string) error { return r.mark(ctx, c, target, note) },
	}
	result := make(chan []error, 1)
	goSafe("transport of "+c.agent.Name, r.log, func() {
		errs := allErrors(len(c.messages), errors.New("the transport panicked; see the log"))
		defer func() { result <- errs }()
		errs = transport.Deliver(ctx, a)
	})
	select {
	case errs := <-result:
		return outcomesOf(ctx, c, errs)
	case <-ctx.Done():
	}
	grace := time.NewTimer(stallGrace)
	defer grace.Stop()
	select {
	case errs := <-result:
		return outcomesOf(ctx, c, errs)
	case <-grace.C:
		return allOutcomes(c, unfinished(ctx, c))
	}
}

// trySet delivers one message through a table, for the worker of an agent whose table refused it before.
func (r *Router) trySet(ctx context.Context, c *claim, set SetTransport) outcome {
	err := r.write(ctx, func(t *tx) error {
		if err := t.stillHeld(c); err != nil {
			return err
		}
		if err := t.setBatch(c.messages[0].seq); err != nil {
			return err
		}
		return set.DeliverSet(func(query string, args ...any) error {
			_, err := t.Exec(query, args...)
			return err
		}, t.now)
	})
	if err != nil {
		return failedOutcome(ctx, c, err)
	}
	return outcome{delivered: true}
}

func allErrors(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
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
	if errors.Is(context.Cause(ctx), errStopping) {
		return outcome{givenBack: true, reason: errStopping.Error()}
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
		if out.reason != "" {
			if err := t.note(bySeq(m.seq), tracing.AttemptFailed, out.reason); err != nil {
				return err
			}
		}
		how = "by the fallback " + out.fallback
	} else if out.reason != "" {
		how = out.reason
	}
	_, err := t.changeStatus(bySeq(m.seq), change{to: Delivered, attempted: true, event: tracing.Delivered, failure: how})
	return err
}

// giveBack ends the lease on a message whose attempt did not come to an end. It costs no rung.
func (t *tx) giveBack(m *Message) error {
	if err := t.note(bySeq(m.seq), tracing.Released, "given back: "+errStopping.Error()); err != nil {
		return err
	}
	t.ring = true
	_, err := t.Exec(`UPDATE agent_message SET lease_token = '', lease_until = '', lease_owner = '' WHERE seq = ?`, m.seq)
	return err
}

func (o *outcome) text() string {
	if o.delivered {
		return "delivered"
	}
	return o.reason
}
