package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/adoption"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Untidy looks whether Tidy has anything to do. Most of the time it has not, and this is a twentieth of its work.
// Whatever has a time of its own is looked for when that has come, and when it lies further ahead than any can, for
// clampTimes.
func Untidy(l *ledger.Ledger, c *store.Conn, conf *ledger.Config, clock time.Time) (bool, error) {
	text := `
		SELECT EXISTS (SELECT 1 FROM agent_message WHERE ` + ledger.Foreign + `)
		    OR EXISTS (SELECT 1 FROM agent_message WHERE review_at <> '' AND review_at <= ?1)
		    OR EXISTS (SELECT 1 FROM agent_message WHERE ` + ledger.Leased +
		` AND (lease_until <= ?1 OR lease_until > ?2 OR lease_until > ?3 AND ` + ledger.Unowned + `))
		    OR EXISTS (SELECT 1 FROM agent_message WHERE ` + ledger.Later + ` AND next_attempt_at > ?4)
		    OR EXISTS (SELECT 1 FROM agent_message WHERE ` + ledger.WantedLater + ` AND next_attempt_at > ?5)
		    OR EXISTS (SELECT 1 FROM reading_lease WHERE until <= ?1)
		    OR EXISTS (SELECT 1 FROM reading_lease WHERE until > ?6)
		    OR EXISTS (SELECT 1 FROM acknowledgement_due WHERE due_at <= ?1 OR due_at > ?7)
		    OR EXISTS (SELECT 1 FROM heartbeats WHERE silent_at <> '' AND (silent_at <= ?1 OR silent_at > ?8))`
	ahead := func(longest time.Duration) string { return orchestrator.Stamp(clock.Add(longest)) }
	args := []any{
		orchestrator.Stamp(clock),                              // ?1
		ahead(ledger.MaxLease),                                 // ?2 leases on deliveries
		ahead(conf.ShortestLease),                              // ?3 those that no process holds
		ahead(HighestRung(&conf.Settings)),                     // ?4 rungs of the ladder
		ahead(orchestrator.MaxNotBefore),                       // ?5 what senders want later
		ahead(messages.MaxReadingLease),                        // ?6 leases of readers
		ahead(orchestrator.MaxNotBefore + orchestrator.MaxTTL), // ?7 acknowledgements
		ahead(conf.LongestSilence),                             // ?8 silences
	}
	for _, d := range l.Chores() {
		args = append(args, ahead(d.Longest))
		text += fmt.Sprintf(` OR EXISTS (SELECT 1 FROM %s WHERE %s AND (%[3]s <= ?1 OR %[3]s > ?%d))`, d.Table, d.Where,
			d.At, len(args))
	}
	uncounted, more := ledger.Uncounted(l, len(args)+1)
	n, err := c.Number(text+` OR `+uncounted, append(args, more...)...)
	return n != 0, err
}

// Tidy brings rows up to date before anything is delivered, deleted or read: it adopts what others wrote, ends the
// leases of dead processes and of readers that did not acknowledge in time, repairs times after a clock was set back,
// expires messages, and tells senders and the manager what they are to be told. more is true when there is more to do,
// for the next transaction.
func Tidy(t *ledger.Tx) (more bool, err error) {
	conf := t.Config()
	if untidy, err := Untidy(t.Ledger, t.Conn, conf, t.Clock); err != nil || !untidy {
		return false, err
	}
	if err := t.MustBeAlone(); err != nil {
		return false, err
	}
	adopting, err := adoption.Some(t)
	if err != nil {
		return false, err
	}
	if err := clampTimes(t); err != nil {
		return false, err
	}
	ending, err := endLeases(t)
	if err != nil {
		return false, err
	}
	returning, err := messages.EndReadingLeases(t)
	if err != nil {
		return false, err
	}
	working, err := doChores(t)
	if err != nil {
		return false, err
	}
	reviewing, err := review(t) // pushes of questions that have expired are taken back by now
	if err != nil {
		return false, err
	}
	telling, err := messages.ReportUnacknowledged(t)
	if err != nil {
		return false, err
	}
	if err := ledger.CountNew(t); err != nil {
		return false, err
	}
	missing, err := agents.ReportSilent(t)
	return adopting || ending || returning || reviewing || telling || working || missing, err
}

// clampTimes takes times that lie further ahead than any can back to the furthest: of rungs, leases of both kinds,
// acknowledgements, questions and silences. A clock that was set forward and back leaves such, and so does a hand.
func clampTimes(t *ledger.Tx) error {
	type clamp struct {
		longest time.Duration
		update  string
	}
	clamps := []clamp{
		{HighestRung(&t.Config().Settings), `UPDATE agent_message SET next_attempt_at = ?1 WHERE ` + ledger.Later +
			` AND next_attempt_at > ?1`},
		{orchestrator.MaxNotBefore, `UPDATE agent_message SET next_attempt_at = ?1, not_before = ?1 WHERE ` +
			ledger.WantedLater + ` AND next_attempt_at > ?1`},
		{ledger.MaxLease, `UPDATE agent_message SET lease_until = ?1 WHERE ` + ledger.Leased + ` AND lease_until > ?1`},
		{messages.MaxReadingLease, `UPDATE reading_lease SET until = ?1 WHERE until > ?1`},
	}
	for _, d := range t.Ledger.Chores() {
		clamps = append(clamps,
			clamp{d.Longest, `UPDATE ` + d.Table + ` SET ` + d.At + ` = ?1 WHERE ` + d.Where + ` AND ` + d.At +
				` > ?1`})
	}
	for _, c := range clamps {
		if err := t.Run(c.update, orchestrator.Stamp(t.Clock.Add(c.longest))); err != nil {
			return err
		}
	}
	if err := clampUnownedLeases(t); err != nil {
		return err
	}
	if err := messages.ClampAcknowledgements(t); err != nil {
		return err
	}
	return agents.ClampSilences(t)
}

// doChores does what is due of the chores of all parts.
func doChores(t *ledger.Tx) (more bool, err error) {
	for _, d := range t.Ledger.Chores() {
		again, err := d.Do(t)
		if err != nil {
			return false, err
		}
		more = more || again
	}
	return more, nil
}

// clampUnownedLeases takes leases that no process holds back to what an attempt for their recipient usually has.
func clampUnownedLeases(t *ledger.Tx) error {
	conf := t.Config()
	const beyond = ` WHERE ` + ledger.Leased + ` AND ` + ledger.Unowned + ` AND lease_until > ?1`
	recipients, err := t.Texts(`SELECT DISTINCT recipient FROM agent_message`+beyond,
		orchestrator.Stamp(t.Clock.Add(conf.ShortestLease)))
	if err != nil {
		return err
	}
	for _, recipient := range recipients {
		until := orchestrator.Stamp(t.Clock.Add(conf.UsualLease(conf.Agents[recipient])))
		if err := t.Run(`UPDATE agent_message SET lease_until = ?1`+beyond+` AND recipient = ?2`, until,
			recipient); err != nil {
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
	WHERE ` + ledger.Leased + ` AND lease_until <= ? ORDER BY recipient, sender, seq LIMIT +? OFFSET +?`

// endLeases takes back the rows of leases that ran out: their process died. That costs no rung, but is counted; each
// time the count reaches the setting delivery.crashes_per_rung, it is a failed attempt, so that a message which kills
// the process that delivers it comes to an end.
func endLeases(t *ledger.Tx) (more bool, err error) {
	return pastStuck(t, "ending its lease", func(skip int) ([]orchestrator.Message, error) {
		return ledger.Messages(t.Conn, `SELECT `+ledger.MessageColumns+endedLeases, t.ClockText, ledger.ReviewBatch,
			skip)
	}, func(m *orchestrator.Message) error { return endLease(t, m) })
}

func endLease(t *ledger.Tx, m *orchestrator.Message) error {
	settings := &t.Config().Settings
	reason := fmt.Sprintf("the lease of %s expired: its process died or stopped responding", m.LeaseOwner)
	if ledger.IsUnowned(m) {
		reason = "a lease without an owner expired"
	}
	if err := t.Note(ledger.BySeq(m.Seq), tracing.Released, reason); err != nil {
		return err
	}
	if err := t.Run(`
		UPDATE agent_message SET `+ledger.NoLease+`, crashes = crashes + 1
		WHERE seq = ?`, m.Seq); err != nil {
		return err
	}
	t.WakeAll()
	m.Crashes++
	if _, more := nextRung(settings, m); !more && m.Marks != "" && m.Crashes < unaskedCrashes*settings.CrashesPerRung {
		return nil // its transport may have it already, and is asked before it is given up
	}
	if m.Crashes%settings.CrashesPerRung != 0 {
		return nil
	}
	_, err := attemptFailed(t, m,
		&outcome{reason: fmt.Sprintf("the delivering process died %d times while it delivered this message", m.Crashes)})
	return err
}

// pastStuck does something to each row of a batch of at most ReviewBatch, which page reads. Rows that cannot be changed
// stay in front of the others, and are skipped. more says that there are others, of which some can be changed.
func pastStuck(t *ledger.Tx, what string, page func(skip int) ([]orchestrator.Message, error),
	one func(*orchestrator.Message) error) (more bool, err error) {
	for stuck := 0; ; {
		ms, err := page(stuck)
		if err != nil {
			return false, err
		}
		before := stuck
		for i := range ms {
			failed, err := t.RowSavepoint(what, ms[i].ID, func() error { return one(&ms[i]) })
			if err != nil {
				return false, err
			}
			if failed {
				stuck++
			}
		}
		if more = len(ms) == ledger.ReviewBatch; !more || stuck-before < len(ms) {
			return more, nil
		}
		if err := t.Ended(); err != nil {
			return false, err
		}
	}
}

// review looks at rows whose review is due: it expires those whose time is over and reports those that wait for too
// long, once.
func review(t *ledger.Tx) (more bool, err error) {
	return pastStuck(t, "reviewing it", func(skip int) ([]orchestrator.Message, error) {
		return ledger.Messages(t.Conn, `SELECT `+ledger.MessageColumns+` FROM agent_message
			WHERE review_at <> '' AND review_at <= ? ORDER BY review_at LIMIT +? OFFSET +?`, t.ClockText,
			ledger.ReviewBatch, skip)
	}, func(m *orchestrator.Message) error { return reviewRow(t, m) })
}

func reviewRow(t *ledger.Tx, m *orchestrator.Message) error {
	conf := t.Config()
	next := ""
	isLive := m.Status == orchestrator.Pending || m.Status == orchestrator.Retry
	lease, err := messages.LeaseOf(t.Conn, m)
	if err != nil {
		return err
	}
	over := m.ExpiresAt != "" && m.ExpiresAt <= t.ClockText
	switch {
	case isLive && m.LeaseToken != "":
		next = m.LeaseUntil // it is being delivered now; look again when that must have ended
	case isLive && over && m.Marks != "":
		// Its transport may have it already: a worker asks first. It must not wait for its rung.
		next = orchestrator.Stamp(t.Clock.Add(time.Minute))
		if err := t.Run(`UPDATE agent_message SET next_attempt_at = '' WHERE seq = ?`, m.Seq); err != nil {
			return err
		}
	case isLive && over:
		return Lapse(t, m, "not delivered before it expired at "+m.ExpiresAt)
	case lease != nil && m.TTL != nil && over:
		next = lease.Until // its reader has it, and may acknowledge it still
	case m.Status == orchestrator.Delivered && m.TTL != nil && m.ReadAt == "" && over:
		return Lapse(t, m, "not read before it expired at "+m.ExpiresAt)
	case isLive:
		next = m.ExpiresAt
		overdueAt := orchestrator.ParseStamp(ledger.DueSince(m)).Add(conf.Settings.OverdueAfter)
		if overdueAt.After(t.Clock) {
			next = min(next, orchestrator.Stamp(overdueAt))
		} else if err := reportOverdue(t, m); err != nil {
			return err
		}
	case m.Status == orchestrator.Delivered && m.TTL != nil && m.ReadAt == "":
		next = m.ExpiresAt
	}
	return t.Run(`UPDATE agent_message SET review_at = ? WHERE seq = ?`, next, m.Seq)
}

// reportOverdue notes that a message waits for longer than it should. It spends no rung and is noted once.
func reportOverdue(t *ledger.Tx, m *orchestrator.Message) error {
	why := "undelivered since " + ledger.DueSince(m) // an acknowledgement can be overdue, too
	noted, err := t.Number(`SELECT count(*) FROM message_trace WHERE message_id = ? AND event = 'overdue'
		AND error = ?`, m.ID, why)
	if err != nil || noted > 0 {
		return err
	}
	return t.Note(ledger.BySeq(m.Seq), tracing.Overdue, why)
}

// Lapse expires a message, takes it out of the inbox it was in, and informs its sender.
func Lapse(t *ledger.Tx, m *orchestrator.Message, reason string) error {
	if isTest(m) {
		return testFailed(t, m, reason)
	}
	if m.Status == orchestrator.Delivered {
		if err := t.Run(`DELETE FROM agent_inbox WHERE message_id = ? AND recipient = ?`, m.ID,
			m.Recipient); err != nil {
			return err
		}
	}
	if _, err := t.ChangeStatus(ledger.BySeq(m.Seq),
		ledger.Change{To: orchestrator.Expired, Event: tracing.Expired, Failure: reason}); err != nil {
		return err
	}
	say(t, slog.LevelInfo, "a message expired and became a dead letter", m, "reason", reason)
	return Bounce(t, m, orchestrator.MessageExpired, reason, m.RetryCount)
}

// deadEvery is how often an engine looks for leases whose holder is dead.
const deadEvery = time.Second

// deadDue reports whether it is time to look again, and notes that somebody does.
func (e *Engine) deadDue() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	if since := now.Sub(e.lookedForDead); since >= 0 && since < deadEvery {
		return false
	}
	e.lookedForDead = now
	return true
}

// endDeadLeases lets the leases run out whose holders are known to be dead, so that Tidy takes their rows back, and
// ends those of readers whose process has ended.
func (e *Engine) endDeadLeases(ctx context.Context) error {
	if !e.deadDue() {
		return nil
	}
	if _, err := messages.EndDeadReaders(ctx, e.Ledger, ""); err != nil {
		return err
	}
	tokens, err := ledger.ReadValue(ctx, e.Ledger, func(c *store.Conn) ([]string, error) {
		return c.Texts(`SELECT DISTINCT lease_token FROM agent_message WHERE ` + ledger.Leased)
	})
	dead := slices.DeleteFunc(tokens, func(token string) bool { return !e.Store.Gone(token) })
	if err != nil || len(dead) == 0 {
		return err
	}
	return e.Write(ctx, store.Shared, func(t *ledger.Tx) error {
		for _, token := range dead {
			if err := t.Run(`UPDATE agent_message SET lease_until = ?1 WHERE `+ledger.Leased+` AND lease_token = ?2`,
				t.ClockText, token); err != nil {
				return err
			}
		}
		return nil
	})
}
