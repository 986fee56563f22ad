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

// Bounds of the pause before the plan is looked at again when what it names stays due: a retry whose attempt is under
// way, or one that waits behind such an attempt.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

func (r *Router) wakeups(ctx context.Context, rings <-chan struct{}, out chan struct{}) {
	var a alarm
	timer := time.NewTimer(a.wait(r))
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
		timer.Reset(a.wait(r))
	}
}

// alarm says how long to sleep until something is due.
type alarm struct {
	overdue time.Time     // what was due already at the last look
	pause   time.Duration // slept for it last
}

// wait is how long nothing is planned. For as long as the same thing is overdue, it doubles.
func (a *alarm) wait(r *Router) time.Duration {
	next, err := r.nextDue("")
	if err != nil || next.IsZero() {
		return planAgain
	}
	if left := next.Sub(r.now()); left > 0 {
		return min(planAgain, max(left, firstPause))
	}
	if !next.Equal(a.overdue) {
		a.overdue, a.pause = next, firstPause/2
	}
	a.pause = min(2*a.pause, lastPause)
	return a.pause
}
