package delivery

import (
	"context"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// Wakeups returns a channel that gets a value whenever there may be something to deliver: somebody has sent, or a
// retry, a review or the end of a lease is due. One value may stand for several. Call stop to end it.
func Wakeups(ctx context.Context, l *ledger.Ledger) (wakes <-chan struct{}, stop func(), err error) {
	return Listen(ctx, l, "",
		func(ctx context.Context, rings <-chan bool, out chan struct{}) { wakeups(ctx, l, rings, out) })
}

// Listen runs a function in the background that hears the bell ring for an agent, or for everybody if the name is "",
// and may put a value into the channel that Listen returns. Its context ends when stop is called, which waits for it to
// return.
func Listen(ctx context.Context, l *ledger.Ledger, agent string,
	run func(ctx context.Context, rings <-chan bool, out chan struct{})) (<-chan struct{}, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	rings, stopRings, err := l.Store.Bell().Listen(ctx, agent)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	out, done := make(chan struct{}, 1), make(chan struct{})
	orchestrator.GoSafe("bell", l.Log, func() {
		defer close(done)
		run(ctx, rings, out)
	})
	return out, func() {
		cancel()
		<-done
		stopRings()
	}, nil
}

// A rung or a lease that is set rings no bell, so the plan is looked at every planAgain, on the second; that costs some
// ten microseconds, and less if nobody has committed.
const planAgain = time.Second

// FirstPause is slept before the next wake-up when what is due stays due: a retry whose attempt is under way, or one
// that waits behind such an attempt. It doubles up to planAgain.
const FirstPause = 10 * time.Millisecond

func wakeups(ctx context.Context, l *ledger.Ledger, rings <-chan bool, out chan struct{}) {
	a := alarm{ledger: l, rang: time.Now()}
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
	ledger  *ledger.Ledger
	rang    time.Time     // the last wake-up, by the system's clock
	next    time.Time     // what is due next, or is due
	overdue time.Time     // what was due already when the plan was last looked at
	pause   time.Duration // slept for it last
	looked  ledger.AfterCommits
}

// rings reports whether the sleep ended because something is due, and not to look at the plan again.
func (a *alarm) rings() bool {
	return (!a.next.IsZero() && !a.next.After(a.ledger.Now())) || time.Since(a.rang) >= orchestrator.SlowPoll
}

// wait looks at the plan, and returns how long to sleep.
func (a *alarm) wait(ctx context.Context) time.Duration {
	err := a.looked.Do(a.ledger, func() (err error) {
		a.next, err = NextDue(ctx, a.ledger)
		return err
	})
	if err != nil || a.next.IsZero() {
		return orchestrator.Until(planAgain)
	}
	next := a.next
	if left := next.Sub(a.ledger.Now()); left > 0 {
		return min(orchestrator.Until(planAgain), left)
	}
	if !next.Equal(a.overdue) {
		a.overdue, a.pause = next, FirstPause/2
	}
	a.pause = min(2*a.pause, planAgain)
	return a.pause
}

// choreTimes adds the first times of the chores of all parts to those that a statement selects.
func choreTimes(l *ledger.Ledger) (query string) {
	for _, d := range l.Chores() {
		query += ` UNION ALL SELECT min(` + d.At + `) FROM ` + d.Table + ` WHERE ` + d.Where
	}
	return query
}

// NextDue returns when something is due next: a retry, a review, the end of a lease, or a chore. The zero time means that
// nothing is planned.
func NextDue(ctx context.Context, l *ledger.Ledger) (at time.Time, err error) {
	return nextDue(ctx, l, func(c *store.Conn, conf *ledger.Config) (next string, err error) {
		going, args := goesSomewhere, []any(nil)
		if conf.Untrusted != "" {
			going = staysInside
		} else if conf.Elsewhere {
			going, args = goesHere, []any{l.Host(), conf.Settings.SignalHost}
		}
		next, _, err = c.Text(`
				SELECT min(at) FROM (
				    SELECT min(next_attempt_at) AS at FROM agent_message WHERE `+ledger.Later+` AND `+going+`
				    UNION ALL SELECT min(next_attempt_at) FROM agent_message
				    	WHERE `+ledger.WantedLater+` AND held = 0 AND lease_token = '' AND `+going+`
				    UNION ALL SELECT min(review_at) FROM agent_message WHERE review_at <> ''
				    UNION ALL SELECT min(lease_until) FROM agent_message WHERE `+ledger.Leased+`
				    UNION ALL SELECT min(until) FROM reading_lease WHERE until > ''
				    UNION ALL SELECT min(due_at) FROM acknowledgement_due
				    UNION ALL SELECT min(silent_at) FROM heartbeats WHERE silent_at <> ''`+choreTimes(l)+`) AS due`,
			args...)
		return next, err
	})
}

// NextDueOf returns when something of a recipient is due next: a retry, the end of a lease, or another look whether a
// reader's process still runs. since is when the caller last looked for what is due: it may have become so by now. The
// zero time means that nothing is planned.
func NextDueOf(ctx context.Context, l *ledger.Ledger, recipient string, since time.Time) (at time.Time, err error) {
	return nextDue(ctx, l, func(c *store.Conn, _ *ledger.Config) (next string, err error) {
		next, _, err = c.Text(`
				SELECT min(at) FROM (
				    SELECT min(next_attempt_at) AS at FROM agent_message
				    WHERE `+ledger.Live+` AND recipient = ?1 AND next_attempt_at > ?2 AND lease_token = '' AND held = 0
					AND delivery_marks = ''
				    UNION ALL SELECT min(lease_until) FROM agent_message WHERE `+ledger.Leased+` AND recipient = ?1
					AND lease_until > ?2
				    UNION ALL SELECT min(until) FROM reading_lease WHERE recipient = ?1 AND until > ''
				    UNION ALL SELECT ?3
				    	WHERE EXISTS (SELECT 1 FROM reading_lease WHERE recipient = ?1 AND pid > 0)) AS due`,
			recipient, orchestrator.Stamp(since), orchestrator.Stamp(l.Now().Add(messages.DeadReaderPoll)))
		return next, err
	})
}

func nextDue(ctx context.Context, l *ledger.Ledger, find func(c *store.Conn, conf *ledger.Config) (string, error)) (at time.Time,
	err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		next, err := find(c, conf)
		if at = orchestrator.ParseStamp(next); at.IsZero() && next != "" && next <= orchestrator.Stamp(l.Now()) {
			at = time.Unix(0, 0) // written by hand: it hides the others, so that something may be due
		}
		return err
	})
	return at, err
}
