package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// shutdownGrace is how long an attempt may go on once the process was asked to stop. It leaves room in the 10 s within
// which `mailroom serve` exits.
const shutdownGrace = 6 * time.Second

// stallGrace is the usual lingering of a transport.
const stallGrace = 2 * time.Second

// deliverTo delivers to one recipient until nothing is due: claim in a short transaction, deliver outside any, settle in
// the transaction of the next claim. When ctx ends, what is claimed is finished or given back, and nothing more claimed.
//
// Where the transport bounds the attempts of its recipient, the worker has one of its slots all the while, and does
// nothing when there is none: whoever holds it delivers, too. So it looks once more when it has given its slot back: what
// was sent after its last claim may have found the slot taken.
func (e *Engine) deliverTo(ctx context.Context, recipient string, o DeliverOptions, y *tally) error {
	for looked := false; ; looked = true {
		slot, err := e.takeSlot(ctx, recipient)
		if errors.Is(err, ErrNoSlot) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("no slot for the commands of %s can be had: %w", recipient, err)
		}
		o.slot = slot
		claims, err := e.deliverClaims(ctx, recipient, o, y)
		if slot == nil {
			return err
		}
		slot.Release()
		if err != nil || ctx.Err() != nil || looked && claims == 0 {
			return err
		}
		if more, err := e.claimable(ctx, recipient); err != nil || !more {
			return err
		}
	}
}

// claimable looks whether a worker would find anything to claim for a recipient.
func (r *Router) claimable(ctx context.Context, recipient string) (found bool, err error) {
	err = r.read(ctx, func(c *Conn) error {
		n, err := c.number(`SELECT EXISTS (SELECT 1 FROM agent_message m WHERE `+claimable+`)`, stamp(r.Now()), recipient)
		found = n != 0
		return err
	})
	return found, err
}

// deliverClaims delivers to one recipient until nothing is due, and returns how many claims it took.
func (e *Engine) deliverClaims(ctx context.Context, recipient string, o DeliverOptions, y *tally) (claims int, err error) {
	var held *claim
	var outcomes []outcome
	for ; ; claims++ {
		next, report, err := e.settleAndClaim(ctx, held, outcomes, recipient, o)
		if err != nil {
			return claims, err
		}
		y.deliver(recipient, report.delivered)
		y.fail(report.failed...)
		y.settled(&report)
		if next == nil {
			return claims, nil
		}
		if err := e.callHelp(ctx, recipient, o, y); err != nil {
			e.log.Warn("no look for more could be taken", "recipient", recipient, "error", err)
		}
		held, outcomes = next, e.attempt(ctx, next)
	}
}

// settleAndClaim ends one claim and makes the next. A settlement that the database refuses for the moment is tried again
// for as long as the lease lasts: what was delivered must not count as a crash because the disk was full for a second.
func (r *Router) settleAndClaim(ctx context.Context, held *claim, outcomes []outcome, recipient string, o DeliverOptions) (next *claim, report settlement, err error) {
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(5*time.Second),
		backoff.WithMaxElapsedTime(leaseGrace/2))
	err = backoff.Retry(func() error {
		err := r.write(context.WithoutCancel(ctx), func(t *tx) (err error) {
			next, report, t.quiet = nil, settlement{}, true
			if held != nil {
				if report, err = t.settle(held, outcomes); err != nil {
					return err
				}
			}
			if ctx.Err() == nil {
				next, err = t.claimNext(recipient, o)
			}
			return err
		})
		if err != nil && (held == nil || ctx.Err() != nil) {
			return backoff.Permanent(err)
		}
		return err
	}, retry)
	return next, report, err
}

// attempt tries to deliver a claim and returns one outcome per message. A message that carries marks is looked for
// first, wherever an earlier attempt may have left it.
func (r *Router) attempt(ctx context.Context, c *claim) []outcome {
	parent := ctx
	ctx, cancel := attemptContext(parent, c.timeout)
	defer cancel()
	if len(c.messages) == 1 && c.messages[0].marks != "" {
		found, known := r.recoverEarlier(ctx, c, &c.messages[0])
		if known {
			return []outcome{found}
		}
		if m := &c.messages[0]; m.ExpiresAt != "" && m.ExpiresAt <= stamp(r.Now()) {
			return []outcome{{lapsed: true, reason: "not delivered before it expired at " + m.ExpiresAt}}
		}
	}
	if c.agent.Disabled != "" {
		return r.useFallback(parent, c)
	}
	outcomes := r.tryTarget(ctx, c, c.agent.Deliver)
	if c.agent.Fallback == "" {
		return outcomes
	}
	if parent.Err() != nil {
		return outcomes // the process is stopping: the fallback is for another time
	}
	return r.tryFallback(parent, c, outcomes)
}

// errTimeUp is the cause with which an attempt's context ends at the delivery timeout.
var errTimeUp = errors.New("its time was up")

// attemptContext ends at the delivery timeout, or some time after the process was asked to stop: an attempt under way
// is finished if it can be.
func attemptContext(parent context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(parent))
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeUp)
	unhook := context.AfterFunc(parent, func() {
		timer := time.AfterFunc(shutdownGrace, func() { stop(ErrStopping) })
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	return ctx, func() {
		unhook()
		cancel()
		stop(nil)
	}
}

// tryFallback hands what the agent's own transport failed on to its fallback. Messages that failed for good stay so, and
// those that were put off wait for the recipient.
// The fallback has a delivery timeout of its own, since the transport may have used up the first.
func (r *Router) tryFallback(ctx context.Context, c *claim, outcomes []outcome) []outcome {
	ctx, cancel := attemptContext(ctx, min(c.timeout, leaseGrace/2))
	defer cancel()
	rest := *c
	rest.messages = nil
	var places []int
	for i, out := range outcomes {
		if !out.delivered && !out.permanent && !out.postponed && r.wroteNothing(ctx, c, &c.messages[i], &outcomes[i]) {
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

// wroteNothing makes sure, before a fallback gets a message, that the transport which failed did not deliver it after
// all: it may have written and not come back. What it finds out goes into out.
func (r *Router) wroteNothing(ctx context.Context, c *claim, m *Message, out *outcome) bool {
	if m.marks == "" {
		return true
	}
	found, known := r.recoverEarlier(ctx, c, m)
	switch {
	case known && found.delivered:
		*out = found
	case known:
		out.reason += "; no fallback, since it is not known whether it arrived: " + found.reason
		out.permanent = found.permanent
	}
	return !known
}

// recoverEarlier asks every transport that left a mark on the message whether it delivered it. known is false when none
// did and the message may be delivered now.
func (r *Router) recoverEarlier(ctx context.Context, c *claim, message *Message) (found outcome, known bool) {
	marks := message.marksOf()
	for _, target := range slices.Sorted(maps.Keys(marks)) {
		transport, address := r.transportOf(target)
		recoverer, ok := transport.(Recoverer)
		if !ok || strings.HasPrefix(address, "/") && r.isOwnFile(address) {
			continue
		}
		m := *message
		m.Mark = marks[target]
		a := r.newAttempt(c, address)
		a.Messages = []Message{m}
		var delivered bool
		err := r.bounded(ctx, "recovery of "+c.agent.Name, stallGrace, func() (err error) {
			delivered, err = recoverer.Recover(ctx, a)
			return err
		})
		switch {
		case errors.Is(err, errStalled):
			return unfinished(ctx, c), true
		case delivered:
			out := outcome{delivered: true, earlier: true, reason: foundEarlier}
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
	if strings.HasPrefix(address, "/") && r.isOwnFile(address) { // written by hand: agent add refuses it
		return allOutcomes(c, outcome{reason: "the file " + address + " belongs to the database", code: DeliveryFailed})
	}
	if _, ok := transport.(Slotted); ok && c.slot == nil {
		return allOutcomes(c, outcome{givenBack: true, reason: "the agent has got another transport meanwhile"})
	}
	a := r.newAttempt(c, address)
	a.Mark = func(ctx context.Context, note string) error { return r.mark(ctx, c, target, note) }
	var report report
	a.Report = report.take
	var errs []error
	err := r.bounded(ctx, "transport of "+c.agent.Name, lingering(transport), func() error {
		errs = transport.Deliver(ctx, a)
		return nil
	})
	var outcomes []outcome
	switch {
	case errors.Is(err, errStalled):
		outcomes = allOutcomes(c, unfinished(ctx, c))
	case err != nil:
		outcomes = allOutcomes(c, failedOutcome(ctx, c, err))
	default:
		outcomes = outcomesOf(ctx, c, errs)
	}
	outcomes[0].detail = report.text()
	for i := 1; i < len(outcomes) && outcomes[0].detail != ""; i++ {
		outcomes[i].detail = "in one attempt with " + c.messages[0].ID + ", whose trace has what it reported"
	}
	return outcomes
}

// errStalled reports a transport that did not come back in time. What it may still do concerns nobody.
var errStalled = errors.New("the transport does not come back")

// bounded runs a transport in a goroutine of its own, and leaves it behind when it does not come back within some time
// after ctx has ended. What f sets may be read only when the error is not errStalled.
func (r *Router) bounded(ctx context.Context, name string, linger time.Duration, f func() error) error {
	result := make(chan error, 1)
	GoSafe(name, r.log, func() {
		err := errors.New("the transport panicked; see the log")
		defer func() { result <- err }()
		err = f()
	})
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(linger)
	defer grace.Stop()
	select {
	case err := <-result:
		return err
	case <-grace.C:
		return errStalled
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
		return set.DeliverSet(t.run, t.now)
	})
	if err != nil {
		return failedOutcome(ctx, c, err)
	}
	return outcome{delivered: true}
}
