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
const planAgain = time.Second

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
	return (!a.next.IsZero() && !a.next.After(a.r.Now())) || time.Since(a.rang) >= slowPoll
}

// wait looks at the plan, and returns how long to sleep.
func (a *alarm) wait(ctx context.Context) time.Duration {
	next, err := a.r.nextDue(ctx, "")
	if a.next = next; err != nil || next.IsZero() {
		return planAgain
	}
	if left := next.Sub(a.r.Now()); left > 0 {
		return min(planAgain, left)
	}
	if !next.Equal(a.overdue) {
		a.overdue, a.pause = next, firstPause/2
	}
	a.pause = min(2*a.pause, planAgain)
	return a.pause
}

// choreTimes adds the first times of the chores of all parts to those that a statement selects.
func (r *Router) choreTimes() (query string) {
	for _, d := range r.chores() {
		query += ` UNION ALL SELECT min(` + d.At + `) FROM ` + d.Table + ` WHERE ` + d.Where
	}
	return query
}

// nextDue returns when the next retry of a recipient ("" is everybody) is due, or the next review or lease, whichever
// comes first, or when to look again whether the process of another reader runs; the zero time when nothing is planned.
func (r *Router) nextDue(ctx context.Context, recipient string) (at time.Time, err error) {
	err = r.read(ctx, func(c *Conn) error {
		var next string
		if recipient == "" {
			conf, failure := r.config.load(c)
			if failure != nil {
				return failure
			}
			going := goesSomewhere
			if conf.untrusted != "" {
				going = staysInside
			}
			next, _, err = c.text(`
				SELECT min(at) FROM (
				    SELECT min(next_attempt_at) AS at FROM agent_message WHERE ` + later + ` AND ` + going + `
				    UNION ALL SELECT min(next_attempt_at) FROM agent_message WHERE ` + wantedLater + ` AND held = 0 AND lease_token = '' AND ` + going + `
				    UNION ALL SELECT min(review_at) FROM agent_message WHERE review_at <> ''
				    UNION ALL SELECT min(lease_until) FROM agent_message WHERE ` + leased + `
				    UNION ALL SELECT min(until) FROM reading_lease WHERE until > ''
				    UNION ALL SELECT min(due_at) FROM acknowledgement_due
				    UNION ALL SELECT min(silent_at) FROM heartbeats WHERE silent_at <> ''` + r.choreTimes() + `) AS due`)
		} else {
			next, _, err = c.text(`
				SELECT min(at) FROM (
				    SELECT min(next_attempt_at) AS at FROM agent_message
				    WHERE `+live+` AND recipient = ?1 AND next_attempt_at > ?2 AND lease_token = '' AND held = 0 AND delivery_marks = ''
				    UNION ALL SELECT min(until) FROM reading_lease WHERE recipient = ?1 AND until > ''
				    UNION ALL SELECT ?3 WHERE EXISTS (SELECT 1 FROM reading_lease WHERE recipient = ?1 AND pid > 0)) AS due`,
				recipient, stamp(r.Now()), stamp(r.Now().Add(deadReaderPoll)))
		}
		if at = parseStamp(next); at.IsZero() && next != "" && next <= stamp(r.Now()) {
			at = time.Unix(0, 0) // written by hand: it hides the others, so that something may be due
		}
		return err
	})
	return at, err
}
