package orchestrator

import (
	"context"
	"time"
)

// Wakeups returns a channel that gets a value whenever there may be something to deliver: after a ring of the bell, and
// when a retry, a review or the end of a lease is due. Several may become one. stop ends it.
func (r *Router) Wakeups(ctx context.Context) (wakeups <-chan struct{}, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	rings, stopRings, err := r.bell.Listen(ctx)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	out, done := make(chan struct{}, 1), make(chan struct{})
	goSafe("wake-ups", r.log, func() {
		defer close(done)
		r.wakeups(ctx, rings, out)
	})
	return out, func() {
		cancel()
		<-done
		stopRings()
	}, nil
}

// planAgain is how often the plan is looked at when nothing is planned, or when it cannot be read.
const planAgain = time.Minute

func (r *Router) wakeups(ctx context.Context, rings <-chan struct{}, out chan struct{}) {
	timer := time.NewTimer(r.untilDue())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-rings:
		case <-timer.C:
		}
		select {
		case out <- struct{}{}:
		default: // one is waiting already
		}
		timer.Reset(r.untilDue())
	}
}

// untilDue is how long nothing is planned.
func (r *Router) untilDue() time.Duration {
	next, err := r.nextDue("")
	if err != nil || next.IsZero() {
		return planAgain
	}
	return min(planAgain, max(next.Sub(r.now()), 10*time.Millisecond))
}
