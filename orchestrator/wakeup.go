package orchestrator

import (
	"context"
	"time"
)

// Wakeups returns a channel that gets a value whenever there may be something to deliver: after a ring of the bell, and
// when a retry, a review or the end of a lease is due. Several may become one. stop ends it.
func (r *Router) Wakeups(ctx context.Context) (wakeups <-chan struct{}, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	rings, stopRings, err := r.bell.Listen(ctx, "")
	if err != nil {
		cancel()
		return nil, nil, err
	}
	out, done := make(chan struct{}, 1), make(chan struct{})
	GoSafe("wake-ups", r.log, func() {
		defer close(done)
		r.wakeups(ctx, rings, out)
	})
	return out, func() {
		cancel()
		<-done
		stopRings()
	}, nil
}

// A rung or a lease that is set rings no bell, so the plan is looked at every planAgain; that costs some ten microseconds.
// Nothing may be heard of a row for slowPoll at most, were a ring to be lost.
const (
	planAgain = time.Second
	slowPoll  = time.Minute
)

// firstPause is slept before the next wake-up when what is due stays due: a retry whose attempt is under way, or one
// that waits behind such an attempt. It doubles up to planAgain.
const firstPause = 10 * time.Millisecond

func (r *Router) wakeups(ctx context.Context, rings <-chan bool, out chan struct{}) {
	a := alarm{r: r, rang: time.Now()}
	timer := time.NewTimer(a.wait(ctx))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-rings:
		case <-timer.C:
			if !a.rings() {
				timer.Reset(a.wait(ctx))
				continue
			}
		}
		select {
		case out <- struct{}{}:
		default: // one is waiting already
		}
		a.rang = time.Now()
		timer.Reset(a.wait(ctx))
	}
}

// alarm says how long to sleep until something is due. The zero time in its fields stands for never.
type alarm struct {
	r       *Router
	rang    time.Time     // the last wake-up, by the system's clock
	next    time.Time     // what is due next, or is due
	overdue time.Time     // what was due already when the plan was last looked at
	pause   time.Duration // slept for it last
}

// rings reports whether the sleep ended because something is due, and not to look at the plan again.
func (a *alarm) rings() bool {
	return (!a.next.IsZero() && !a.next.After(a.r.now())) || time.Since(a.rang) >= slowPoll
}

// wait looks at the plan, and returns how long to sleep.
func (a *alarm) wait(ctx context.Context) time.Duration {
	next, err := a.r.nextDue(ctx, "")
	if a.next = next; err != nil || next.IsZero() {
		return planAgain
	}
	if left := next.Sub(a.r.now()); left > 0 {
		return min(planAgain, left)
	}
	if !next.Equal(a.overdue) {
		a.overdue, a.pause = next, firstPause/2
	}
	a.pause = min(2*a.pause, planAgain)
	return a.pause
}
