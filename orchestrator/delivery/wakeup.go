package delivery

import (
	"context"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// Wakeups returns a channel that receives a value whenever there may be something to deliver: a message was sent, or
// a retry, a review or the end of a lease is due. One value may cover several events. Call stop to end the wake-ups.
func Wakeups(ctx context.Context, l *ledger.Ledger) (wakes <-chan struct{}, stop func(), err error) {
	return Listen(ctx, l, "",
		func(ctx context.Context, rings <-chan bool, out chan struct{}) { wakeups(ctx, l, rings, out) })
}

// Listen runs a function in the background that receives the rings of the bell for an agent, or for all if the name
// is "". The function may put values into the channel that Listen returns. Its context ends when stop is called; stop
// waits for the function to return.
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

// planAgain is the interval at which the plan is read again, on the second, because setting a retry time or a lease
// rings no bell. Reading the plan takes some ten microseconds, and less if nobody has committed.
const planAgain = time.Second

// FirstPause is the pause before the next wake-up if due work remains due: a retry whose attempt is in progress, or a
// message that waits behind such an attempt. The pause doubles up to planAgain.
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
		default: // a value is waiting already
		}
		a.rang = time.Now()
		timer.Reset(a.wait(ctx))
	}
}

// alarm determines how long to sleep until something is due. The zero time in its fields means never.
type alarm struct {
	ledger  *ledger.Ledger
	rang    time.Time     // last wake-up, by the system's clock
	next    time.Time     // next due time, which may have passed
	overdue time.Time     // value of next that had passed when the plan was last read
	pause   time.Duration // last pause for overdue
	looked  ledger.AfterCommits
}

// rings reports whether the sleep ended because something is due, and not merely to read the plan again.
func (a *alarm) rings() bool {
	return (!a.next.IsZero() && !a.next.After(a.ledger.Now())) || time.Since(a.rang) >= orchestrator.SlowPoll
}

// wait reads the plan and returns how long to sleep.
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

// choreTimes returns SQL that adds the first due times of the chores of all parts to a SELECT of times.
func choreTimes(l *ledger.Ledger) (query string) {
	for _, d := range l.Chores() {
		query += ` UNION ALL SELECT min(` + d.At + `) FROM ` + d.Table + ` WHERE ` + d.Where
	}
	return query
}

// NextDue returns the time at which something is next due: a retry, a review, the end of a lease, or a chore. The
// zero time means that nothing is planned.
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

// NextDueOf returns the time at which something is next due for a recipient: a retry, the end of a lease, or another
// check whether a reader's process still runs. since is the time of the caller's last check; something may have
// become due after it. The zero time means that nothing is planned.
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
			at = time.Unix(0, 0) // written by hand: it hides the other times, so something may be due
		}
		return err
	})
	return at, err
}
