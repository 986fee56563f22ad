package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// shutdownGrace is how long an attempt may continue after the process was asked to stop. It leaves time within the 10
// s in which `mailroom serve` exits.
const shutdownGrace = 6 * time.Second

// stallGrace is how long a transport that is not a Lingerer may take to return after its context has ended.
const stallGrace = 2 * time.Second

// deliverTo delivers to one recipient until nothing is due. It claims in a short transaction, delivers outside any
// transaction, and settles in the transaction of the next claim. When ctx ends, claimed messages are finished or
// given back, and no more are claimed.
//
// If the transport limits the attempts for its recipient, the worker holds one of its slots throughout, and does
// nothing if none is free, because the holders of the slots deliver, too. After releasing its slot, the worker
// therefore checks once more: the process of a message sent after the last claim may have found the slot taken.
func (e *Engine) deliverTo(ctx context.Context, recipient string, o Options, r *run) error {
	for looked := false; ; looked = true {
		slot, err := takeSlot(ctx, e.Ledger, recipient)
		if errors.Is(err, orchestrator.ErrNoSlot) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot get a slot to run a command for %s: %w", recipient, err)
		}
		o.slot = slot
		claims, err := e.deliverClaims(ctx, recipient, o, r)
		if slot == nil {
			return err
		}
		slot.Release()
		if err != nil || ctx.Err() != nil || looked && claims == 0 {
			return err
		}
		if more, err := claimable(ctx, e.Ledger, recipient); err != nil || !more {
			return err
		}
	}
}

// claimable reports whether a worker would find anything to claim for a recipient.
func claimable(ctx context.Context, l *ledger.Ledger, recipient string) (bool, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (bool, error) {
		n, err := c.Number(`SELECT EXISTS (SELECT 1 FROM agent_message m WHERE `+ledger.Claimable+`)`,
			orchestrator.Stamp(l.Now()), recipient)
		return n != 0, err
	})
}

// deliverClaims delivers to one recipient until nothing is due, and returns the number of claims.
func (e *Engine) deliverClaims(ctx context.Context, recipient string, o Options, r *run) (claims int, err error) {
	var held *claim
	var outcomes []outcome
	for ; ; claims++ {
		next, report, err := settleAndClaim(ctx, e.Ledger, held, outcomes, recipient, o)
		r.add(recipient, &report)
		if err != nil {
			return claims, err
		}
		if next == nil {
			return claims, nil
		}
		if err := e.callHelp(ctx, next.agent, o, r); err != nil {
			e.Log.Warn("cannot check for more messages", "recipient", recipient, "error", err)
		}
		held, outcomes = next, attempt(ctx, e.Ledger, next)
	}
}

// settleAndClaim settles one claim and makes the next. If that fails, it first settles alone, because the cause may
// be a message that it would claim, such as one that another program has locked. It retries for as long as a lease
// lasts, so that a delivered message does not count as a crash while the database refuses writes. If only the claim
// fails, settleAndClaim returns the settlement and the error.
func settleAndClaim(ctx context.Context, l *ledger.Ledger, held *claim, outcomes []outcome, recipient string,
	o Options) (next *claim, report settlement, err error) {
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(2*time.Second)) // a process that stops waits for this, too
	scope := store.Of(recipient)
	if held != nil {
		retry.MaxElapsedTime = held.timeout + ledger.LeaseGrace
		scope = store.Of(held.agent.Name) // a trial claims nothing afterwards
	}
	alone := false
	err = backoff.Retry(func() error {
		claims := !alone && ctx.Err() == nil && l.Store.Alive().Err() == nil // otherwise an attempt would be cut off at once
		err := l.Write(context.WithoutCancel(ctx), scope, func(t *ledger.Tx) (err error) {
			next, report, t.Quiet = nil, settlement{}, true
			if held != nil {
				if report, err = settle(t, held, outcomes); err != nil {
					return err
				}
			}
			if claims {
				next, err = claimNext(t, recipient, o)
			}
			return err
		})
		switch {
		case err == nil:
			return nil
		case held == nil, !claims && (ctx.Err() != nil || store.IsRefused(err)):
			return backoff.Permanent(err)
		}
		if !alone {
			alone = true
			l.Log.Warn("cannot record the result of a delivery yet", "recipient", held.agent.Name, "error", err)
		}
		return err
	}, retry)
	switch {
	case err != nil:
		return nil, settlement{}, err
	case alone && ctx.Err() == nil && recipient != "":
		next, _, err = settleAndClaim(ctx, l, nil, nil, recipient, o)
	}
	return next, report, err
}

// attempt tries to deliver a claim and returns one outcome per message. For a message with marks, it first checks
// whether an earlier attempt has delivered it.
func attempt(ctx context.Context, l *ledger.Ledger, c *claim) []outcome {
	parent := ctx
	ctx, cancel := attemptContext(parent, l.Store.Alive(), c.timeout)
	defer cancel()
	if len(c.messages) == 1 && c.messages[0].Marks != "" {
		found, known := recoverEarlier(ctx, l, c, &c.messages[0])
		if known {
			return []outcome{found}
		}
		if m := &c.messages[0]; m.ExpiresAt != "" && m.ExpiresAt <= orchestrator.Stamp(l.Now()) {
			return []outcome{{expired: true, reason: "not delivered before it expired at " + m.ExpiresAt}}
		}
	}
	if c.agent.Disabled != "" {
		return useFallback(parent, l, c)
	}
	outcomes := tryTarget(ctx, l, c, c.agent.Deliver)
	if c.agent.Fallback == "" {
		return outcomes
	}
	if parent.Err() != nil {
		return outcomes // the process is stopping: leave the fallback for another time
	}
	return tryFallback(parent, l, c, outcomes)
}

// errTimeUp is the cause with which an attempt's context ends at the delivery timeout.
var errTimeUp = errors.New("the time limit was reached")

// errCutOff is the cause with which an attempt's context ends when other hosts may soon consider this process dead.
var errCutOff = errors.New("the database was unreachable for so long that another host now delivers instead of this one")

// attemptContext returns a context that ends at the delivery timeout or with known, see store.Store. It also ends
// shutdownGrace after parent, so that an attempt in progress can be finished when the process is asked to stop.
func attemptContext(parent, known context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(parent))
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeUp)
	unhook := context.AfterFunc(parent, func() {
		timer := time.AfterFunc(shutdownGrace, func() { stop(orchestrator.ErrStopping) })
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	unhookKnown := context.AfterFunc(known, func() { stop(errCutOff) })
	return ctx, func() {
		unhook()
		unhookKnown()
		cancel()
		stop(nil)
	}
}

// tryFallback delivers the messages that the agent's own transport failed to deliver through the fallback. Messages
// that failed permanently stay failed, and postponed messages wait for the recipient. The fallback has its own time
// limit, because the transport may have used up the first.
func tryFallback(ctx context.Context, l *ledger.Ledger, c *claim, outcomes []outcome) []outcome {
	ctx, cancel := attemptContext(ctx, l.Store.Alive(), min(c.timeout, ledger.LeaseGrace/2))
	defer cancel()
	rest := *c
	rest.messages = nil
	var places []int
	for i, out := range outcomes {
		if !out.delivered && !out.permanent && !out.postponed && wroteNothing(ctx, l, c, &c.messages[i], &outcomes[i]) {
			rest.messages = append(rest.messages, c.messages[i])
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return outcomes
	}
	for j, second := range tryTarget(ctx, l, &rest, c.agent.Fallback) {
		first := &outcomes[places[j]]
		if second.delivered {
			first.delivered, first.fallback = true, c.agent.Fallback
		} else {
			first.reason += "; fallback: " + second.reason
			first.permanent = second.permanent
		}
	}
	return outcomes
}

// wroteNothing reports whether the failed transport has certainly not delivered a message, so that the fallback may
// deliver it. The transport may have written the message without returning. wroteNothing stores its findings in out.
func wroteNothing(ctx context.Context, l *ledger.Ledger, c *claim, m *orchestrator.Message, out *outcome) bool {
	if m.Marks == "" {
		return true
	}
	found, known := recoverEarlier(ctx, l, c, m)
	switch {
	case known && found.delivered:
		*out = found
	case known:
		out.reason += "; fallback not used because the message might have arrived: " + found.reason
		out.permanent = found.permanent
	}
	return !known
}

// recoverEarlier asks every transport that left a mark on the message whether it delivered the message. known is
// false if none did and the message may be delivered now.
func recoverEarlier(ctx context.Context, l *ledger.Ledger, c *claim, message *orchestrator.Message) (found outcome,
	known bool) {
	marks := MarksOf(message)
	for _, target := range slices.Sorted(maps.Keys(marks)) {
		transport, address := l.TransportOf(target)
		recoverer, ok := transport.(orchestrator.Recoverer)
		if !ok || strings.HasPrefix(address, "/") && agents.IsOwnFile(l, address) {
			continue
		}
		m := *message
		m.Mark = marks[target]
		a := newAttempt(l, c, address)
		a.Messages = []orchestrator.Message{m}
		var delivered bool
		err := bounded(ctx, l, "recovery of "+c.agent.Name, stallGrace, func() (err error) {
			delivered, err = recoverer.Recover(ctx, a)
			return err
		})
		switch {
		case errors.Is(err, errStalled):
			return unfinished(ctx, c), true
		case delivered:
			out := outcome{delivered: true, earlier: true, reason: FoundEarlier}
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

// tryTarget delivers a claim through one transport within the delivery timeout. A transport that does not return soon
// after its time is up is abandoned. The lease protects the messages from its further actions, and its late result is
// ignored.
func tryTarget(ctx context.Context, l *ledger.Ledger, c *claim, target string) []outcome {
	transport, address := l.TransportOf(target)
	if transport == nil {
		scheme, _, _ := strings.Cut(target, ":")
		return allOutcomes(c,
			outcome{reason: fmt.Sprintf("this program has no transport %q", scheme), code: orchestrator.DeliveryFailed})
	}
	if set, ok := transport.(orchestrator.SetTransport); ok {
		return []outcome{trySet(ctx, l, c, set)}
	}
	if strings.HasPrefix(address, "/") && agents.IsOwnFile(l, address) { // written by hand: agent add refuses it
		return allOutcomes(c,
			outcome{reason: "the file " + address + " belongs to the database", code: orchestrator.DeliveryFailed})
	}
	if _, ok := transport.(orchestrator.Slotted); ok && c.slot == nil {
		return allOutcomes(c, outcome{givenBack: true, reason: "the agent's transport was changed in the meantime"})
	}
	a := newAttempt(l, c, address)
	a.Mark = func(ctx context.Context, note string) error { return mark(ctx, l, c, target, note) }
	var report report
	a.Report = report.take
	var errs []error
	err := bounded(ctx, l, "transport of "+c.agent.Name, lingering(transport), func() error {
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
		outcomes[i].detail = "in the same attempt as " + c.messages[0].ID + "; for the report, see the trace of that message"
	}
	return outcomes
}

// errStalled means that a transport did not return in time. Its further actions have no effect on the outcome.
var errStalled = errors.New("the transport did not return in time")

// bounded runs f in a goroutine and abandons it if it does not return within linger after ctx has ended. Variables
// that f sets may be read only if the error is not errStalled.
func bounded(ctx context.Context, l *ledger.Ledger, name string, linger time.Duration, f func() error) error {
	result := make(chan error, 1)
	orchestrator.GoSafe(name, l.Log, func() {
		err := errors.New("panic in the transport; see the log")
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

// trySet delivers one message through a table, for the worker of an agent whose table refused the message before.
func trySet(ctx context.Context, l *ledger.Ledger, c *claim, set orchestrator.SetTransport) outcome {
	err := l.Write(ctx, store.Of(c.messages[0].Recipient), func(t *ledger.Tx) error {
		if err := stillHeld(t, c); err != nil {
			return err
		}
		if err := t.SetBatch(c.messages[0].Seq); err != nil {
			return err
		}
		return ledger.DeliverBatch(t, set, map[string]int{c.messages[0].Recipient: 1})
	})
	if err != nil {
		return failedOutcome(ctx, c, err)
	}
	return outcome{delivered: true}
}

// newAttempt returns the Attempt for a claim, without Mark and Report.
func newAttempt(l *ledger.Ledger, c *claim, address string) orchestrator.Attempt {
	return orchestrator.Attempt{
		Recipient: c.agent.Name, Since: c.agent.CreatedAt, Address: address, Messages: c.messages, Database: l.Path(),
		At:     l.Now(),
		Folder: c.agent.Folder, PassEnv: c.agent.PassEnv, Secret: c.secret, AllowPrivate: c.agent.AllowPrivate,
		Slot: c.slot,
	}
}

// report stores a transport's report of an attempt. An abandoned transport may still call take.
type report struct {
	mu   sync.Mutex
	said string
}

// maxReport is the maximum length of a stored report in bytes.
const maxReport = 16 << 10

func (p *report) take(text string) {
	text = strings.ToValidUTF8(text[:min(len(text), maxReport)], "\uFFFD") // which may lengthen it
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = strings.ToValidUTF8(text[:min(len(text), maxReport)], "")
}

func (p *report) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said
}

// lingering returns how long a transport may take to return after its context has ended before it is abandoned.
func lingering(transport orchestrator.Transport) time.Duration {
	if l, ok := transport.(orchestrator.Lingerer); ok {
		return l.Linger()
	}
	return stallGrace
}
