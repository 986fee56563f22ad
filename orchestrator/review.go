package orchestrator

import (
	"fmt"
	"time"

	"mailroom/tracing"
)

// untidyQuery is the statement of untidy. It is made once: it is asked often, and long.
func (r *Router) untidyQuery() string {
	r.untidyOnce.Do(func() {
		r.untidyText = `
		SELECT EXISTS (SELECT 1 FROM agent_message WHERE ` + foreign + `)
		    OR EXISTS (SELECT 1 FROM agent_message WHERE review_at <> '' AND review_at <= ?1)
		    OR EXISTS (SELECT 1 FROM agent_message WHERE ` + leased + ` AND (lease_until <= ?1 OR lease_until > ?2 OR lease_until > ?3 AND ` + unowned + `))
		    OR EXISTS (SELECT 1 FROM agent_message WHERE ` + later + ` AND next_attempt_at > ?4)
		    OR EXISTS (SELECT 1 FROM agent_message WHERE ` + wantedLater + ` AND next_attempt_at > ?5)
		    OR EXISTS (SELECT 1 FROM reading_lease WHERE until <= ?1)
		    OR EXISTS (SELECT 1 FROM reading_lease WHERE until > ?6)
		    OR EXISTS (SELECT 1 FROM acknowledgement_due WHERE due_at <= ?1 OR due_at > ?7)
		    OR EXISTS (SELECT 1 FROM heartbeats WHERE silent_at <> '' AND (silent_at <= ?1 OR silent_at > ?8))`
		for i, d := range r.chores() {
			r.untidyText += fmt.Sprintf(` OR EXISTS (SELECT 1 FROM %s WHERE %s AND (%[3]s <= ?1 OR %[3]s > ?%d))`, d.Table, d.Where, d.At, 9+i)
		}
	})
	return r.untidyText
}

// untidy looks whether tidy has anything to do. Most of the time it has not, and this is a twentieth of its work. Whatever has a
// time of its own is looked for when that has come, and when it lies further ahead than any can, for clampTimes.
func (r *Router) untidy(c *Conn, conf *config, clock time.Time) (bool, error) {
	ahead := func(longest time.Duration) string { return stamp(clock.Add(longest)) }
	args := []any{
		stamp(clock),                       // ?1
		ahead(maxLease),                    // ?2 leases on deliveries
		ahead(conf.shortestLease),          // ?3 those that no process holds
		ahead(conf.settings.highestRung()), // ?4 rungs of the ladder
		ahead(MaxNotBefore),                // ?5 what senders want later
		ahead(MaxReadingLease),             // ?6 leases of readers
		ahead(MaxNotBefore + MaxTTL),       // ?7 acknowledgements
		ahead(conf.longestSilence),         // ?8 silences
	}
	for _, d := range r.chores() {
		args = append(args, ahead(d.Longest)) // ?9 and up
	}
	n, err := c.number(r.untidyQuery(), args...)
	return n != 0, err
}

// tidy does what must be done before anything is claimed, cleared or read: it adopts what others wrote, takes back leases whose
// process died, gives back what readers have not acknowledged in time, undoes what a clock set forward and back has done, expires
// what is overdue, tells senders what nobody has acknowledged, and the manager which agents are silent. more is true when a
// further transaction is needed.
func (t *tx) tidy() (more bool, err error) {
	conf, err := t.config()
	if err != nil {
		return false, err
	}
	if untidy, err := t.r.untidy(t.Conn, conf, t.clock); err != nil || !untidy {
		return false, err
	}
	adopting, err := t.adopt()
	if err != nil {
		return false, err
	}
	if err := t.clampTimes(); err != nil {
		return false, err
	}
	ending, err := t.endLeases()
	if err != nil {
		return false, err
	}
	returning, err := t.endReadingLeases()
	if err != nil {
		return false, err
	}
	working, err := t.doChores()
	if err != nil {
		return false, err
	}
	reviewing, err := t.review() // pushes of questions that have expired are taken back by now
	if err != nil {
		return false, err
	}
	telling, err := t.reportUnacknowledged()
	if err != nil {
		return false, err
	}
	missing, err := t.reportSilent()
	return adopting || ending || returning || reviewing || telling || working || missing, err
}

// clampTimes takes times that lie further ahead than any can back to the furthest: of rungs, leases of both kinds,
// acknowledgements, questions and silences. A clock that was set forward and back leaves such, and so does a hand.
func (t *tx) clampTimes() error {
	conf, err := t.config()
	if err != nil {
		return err
	}
	rung := stamp(t.clock.Add(conf.settings.highestRung()))
	if _, err := t.Exec(`UPDATE agent_message SET next_attempt_at = ?1 WHERE `+later+` AND next_attempt_at > ?1`, rung); err != nil {
		return err
	}
	wanted := stamp(t.clock.Add(MaxNotBefore))
	if _, err := t.Exec(`UPDATE agent_message SET next_attempt_at = ?1, not_before = ?1 WHERE `+wantedLater+` AND next_attempt_at > ?1`, wanted); err != nil {
		return err
	}
	if err := t.clampLeases(conf); err != nil {
		return err
	}
	if _, err := t.Exec(`UPDATE reading_lease SET until = ?1 WHERE until > ?1`, stamp(t.clock.Add(MaxReadingLease))); err != nil {
		return err
	}
	if _, err = t.Exec(`
		UPDATE acknowledgement_due SET due_at = coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', ?1, '+' || within_seconds || ' seconds'), ?1)
		WHERE due_at > ?2`, t.clockText, stamp(t.clock.Add(MaxNotBefore+MaxTTL))); err != nil {
		return err
	}
	for _, d := range t.r.chores() {
		if _, err := t.Exec(`UPDATE `+d.Table+` SET `+d.At+` = ?1 WHERE `+d.Where+` AND `+d.At+` > ?1`, stamp(t.clock.Add(d.Longest))); err != nil {
			return err
		}
	}
	return t.clampSilences()
}

// doChores does what is due of the chores of all parts.
func (t *tx) doChores() (more bool, err error) {
	for _, d := range t.r.chores() {
		again, err := d.Do(t)
		if err != nil {
			return false, err
		}
		more = more || again
	}
	return more, nil
}

// clampLeases takes leases back to the longest that there could be: a run may say how long its attempts may take, so that is
// an hour and more for one that the engine wrote; for one that no process holds, it is what the recipient's attempts usually
// have.
func (t *tx) clampLeases(conf *config) error {
	longest := stamp(t.clock.Add(maxLease))
	if _, err := t.Exec(`UPDATE agent_message SET lease_until = ?1 WHERE `+leased+` AND lease_until > ?1`, longest); err != nil {
		return err
	}
	const beyond = ` WHERE ` + leased + ` AND ` + unowned + ` AND lease_until > ?1`
	recipients, err := t.texts(`SELECT DISTINCT recipient FROM agent_message`+beyond, stamp(t.clock.Add(conf.shortestLease)))
	if err != nil {
		return err
	}
	for _, recipient := range recipients {
		until := stamp(t.clock.Add(conf.usualLease(conf.agents[recipient])))
		if _, err := t.Exec(`UPDATE agent_message SET lease_until = ?1`+beyond+` AND recipient = ?2`, until, recipient); err != nil {
			return err
		}
	}
	return nil
}

// unaskedCrashes times the setting delivery.crashes_per_rung is how many deliveries of a message may die before it is
// given up although its transport could not be asked whether it has it.
const unaskedCrashes = 5

// endedLeases selects the rows of leases that ran out, in the order of their index: by seq alone SQLite would walk the
// whole table. The rows of one sender and recipient come in the order of sending.
const endedLeases = ` FROM agent_message
	WHERE ` + leased + ` AND lease_until <= ? ORDER BY recipient, sender, seq LIMIT +? OFFSET +?`

// endLeases takes back the rows of leases that ran out: their process died. That costs no rung, but is counted; each
// time the count reaches the setting delivery.crashes_per_rung, it is a failed attempt, so that a message which kills
// the process that delivers it comes to an end.
func (t *tx) endLeases() (more bool, err error) {
	return t.pastStuck("ending its lease", func(skip int) ([]Message, error) {
		return t.messages(`SELECT `+messageColumns+endedLeases, t.clockText, reviewBatch, skip)
	}, t.endLease)
}

func (t *tx) endLease(m *Message) error {
	conf, err := t.config()
	if err != nil {
		return err
	}
	reason := fmt.Sprintf("the lease of %s ran out: its process died or stalled", m.LeaseOwner)
	if m.isUnowned() {
		reason = "a lease without an owner ran out"
	}
	if err := t.note(bySeq(m.seq), tracing.Released, reason); err != nil {
		return err
	}
	if _, err := t.Exec(`
		UPDATE agent_message SET `+noLease+`, crashes = crashes + 1
		WHERE seq = ?`, m.seq); err != nil {
		return err
	}
	t.ring.all = true
	m.Crashes++
	if _, more := conf.settings.nextRung(m); !more && m.marks != "" && m.Crashes < unaskedCrashes*conf.settings.CrashesPerRung {
		return nil // its transport may have it already, and is asked before it is given up
	}
	if m.Crashes%conf.settings.CrashesPerRung == 0 {
		reason := fmt.Sprintf("the delivering process died %d times during this message", m.Crashes)
		_, err = t.attemptFailed(m, &outcome{reason: reason})
	}
	return err
}

// pastStuck does something to each row of a batch of at most reviewBatch, which page reads. Rows that cannot be changed stay
// in front of the others, and are skipped. more says that there are others, of which some can be changed.
func (t *tx) pastStuck(what string, page func(skip int) ([]Message, error), one func(*Message) error) (more bool, err error) {
	for stuck := 0; ; {
		ms, err := page(stuck)
		if err != nil {
			return false, err
		}
		before := stuck
		for i := range ms {
			failed, err := t.alone(what, ms[i].ID, func() error { return one(&ms[i]) })
			if err != nil {
				return false, err
			}
			if failed {
				stuck++
			}
		}
		if more = len(ms) == reviewBatch; !more || stuck-before < len(ms) {
			return more, nil
		}
		if err := t.ended(); err != nil {
			return false, err
		}
	}
}

// review looks at rows whose review is due: it expires those whose time is over and reports those that wait for too
// long, once.
func (t *tx) review() (more bool, err error) {
	return t.pastStuck("reviewing it", func(skip int) ([]Message, error) {
		return t.messages(`SELECT `+messageColumns+` FROM agent_message
			WHERE review_at <> '' AND review_at <= ? ORDER BY review_at LIMIT +? OFFSET +?`, t.clockText, reviewBatch, skip)
	}, t.reviewRow)
}

func (t *tx) reviewRow(m *Message) error {
	conf, err := t.config()
	if err != nil {
		return err
	}
	next := ""
	isLive := m.Status == Pending || m.Status == Retry
	lease, err := t.leaseOf(m)
	if err != nil {
		return err
	}
	over := m.ExpiresAt != "" && m.ExpiresAt <= t.clockText
	switch {
	case isLive && m.leaseToken != "":
		next = m.LeaseUntil // it is being delivered now; look again when that must have ended
	case isLive && over && m.marks != "":
		// Its transport may have it already: a worker asks first. It must not wait for its rung.
		next = stamp(t.clock.Add(time.Minute))
		if _, err := t.Exec(`UPDATE agent_message SET next_attempt_at = '' WHERE seq = ?`, m.seq); err != nil {
			return err
		}
	case isLive && over:
		return t.lapse(m, "not delivered before it expired at "+m.ExpiresAt)
	case lease != nil && m.ttl != nil && over:
		next = lease.until // its reader has it, and may acknowledge it still
	case m.Status == Delivered && m.ttl != nil && m.ReadAt == "" && over:
		return t.lapse(m, "not read before it expired at "+m.ExpiresAt)
	case isLive:
		next = m.ExpiresAt
		overdueAt := parseStamp(m.dueSince()).Add(conf.settings.OverdueAfter)
		if overdueAt.After(t.clock) {
			next = min(next, stamp(overdueAt))
		} else if err := t.reportOverdue(m); err != nil {
			return err
		}
	case m.Status == Delivered && m.ttl != nil && m.ReadAt == "":
		next = m.ExpiresAt
	}
	_, err = t.Exec(`UPDATE agent_message SET review_at = ? WHERE seq = ?`, next, m.seq)
	return err
}

// reportOverdue notes that a message waits for longer than it should. It spends no rung and is noted once.
func (t *tx) reportOverdue(m *Message) error {
	why := "undelivered since " + m.dueSince() // an acknowledgement can be overdue, too
	noted, err := t.number(`SELECT count(*) FROM message_trace WHERE message_id = ? AND event = 'overdue' AND error = ?`, m.ID, why)
	if err != nil || noted > 0 {
		return err
	}
	return t.note(bySeq(m.seq), tracing.Overdue, why)
}

// lapse expires a message, takes it out of the inbox it was in, and tells its sender.
func (t *tx) lapse(m *Message, reason string) error {
	if m.isTest() {
		return t.testFailed(m, reason)
	}
	if m.Status == Delivered {
		if _, err := t.Exec(`DELETE FROM agent_inbox WHERE message_id = ? AND recipient = ?`, m.ID, m.Recipient); err != nil {
			return err
		}
	}
	if _, err := t.changeStatus(bySeq(m.seq), change{to: Lapsed, event: tracing.Expired, failure: reason}); err != nil {
		return err
	}
	return t.bounce(m, Expired, reason, m.RetryCount)
}
