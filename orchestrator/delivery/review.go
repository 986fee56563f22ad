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

// Untidy reports whether Tidy has anything to do. Usually it has not, and Untidy takes a twentieth of the time of
// Tidy. Entries with a time of their own are looked for when that time has come, and when it lies further ahead than
// possible, for clampTimes.
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
		ahead(ledger.MaxLease),                                 // ?2 delivery leases
		ahead(conf.ShortestLease),                              // ?3 delivery leases that no process holds
		ahead(HighestRung(&conf.Settings)),                     // ?4 waits of the retry schedule
		ahead(orchestrator.MaxNotBefore),                       // ?5 times requested by senders
		ahead(messages.MaxReadingLease),                        // ?6 reading leases
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

// Tidy brings rows up to date before messages are delivered, deleted or read. It adopts rows that others wrote, ends
// the leases of dead processes and of readers that did not acknowledge in time, corrects times after a clock was set
// back, expires messages, and sends pending notifications to senders and the manager. more reports whether more is
// left for the next transaction.
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
	reviewing, err := review(t) // by now, pushes of expired questions have been withdrawn
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

// clampTimes moves times that lie further ahead than possible back to the latest possible time: times of retries,
// leases of both kinds, acknowledgements, questions and silences. Such times result from a clock that was set forward
// and back, or from a change by hand.
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

// doChores does the due work of the chores of all parts.
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

// clampUnownedLeases shortens leases that no process holds to the usual lease of an attempt for their recipient.
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

// unaskedCrashes times the setting delivery.crashes_per_rung is the number of crashed deliveries of a message after
// which it is given up although its transport could not be asked whether the message arrived.
const unaskedCrashes = 5

// endedLeases selects the rows of expired leases, in the order of their index: ordered by seq alone, SQLite would
// walk the whole table. The rows of one sender and recipient come in the order of sending.
const endedLeases = ` FROM agent_message
	WHERE ` + ledger.Leased + ` AND lease_until <= ? ORDER BY recipient, sender, seq LIMIT +? OFFSET +?`

// endLeases releases the rows of expired leases, whose processes died. A crash is counted but is not a failed
// attempt. Whenever the count reaches a multiple of the setting delivery.crashes_per_rung, it counts as one failed
// attempt, so that a message that kills the processes delivering it is eventually given up.
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
		return nil // the transport may have the message already, and is asked before the message is given up
	}
	if m.Crashes%settings.CrashesPerRung != 0 {
		return nil
	}
	_, err := attemptFailed(t, m,
		&outcome{reason: fmt.Sprintf("the delivering process died %d times while it delivered this message", m.Crashes)})
	return err
}

// pastStuck calls one for each row of a batch of at most ReviewBatch rows, which page reads. Rows that cannot be
// changed remain at the front and are skipped. more reports whether there are further rows, some of which can be
// changed.
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

// review handles rows whose review is due. It expires rows whose time is over, and reports once those that have
// waited too long.
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
		next = m.LeaseUntil // it is being delivered now; check again when the delivery must have ended
	case isLive && over && m.Marks != "":
		// Its transport may have the message already, and a worker asks first. The row must not wait for its retry
		// time.
		next = orchestrator.Stamp(t.Clock.Add(time.Minute))
		if err := t.Run(`UPDATE agent_message SET next_attempt_at = '' WHERE seq = ?`, m.Seq); err != nil {
			return err
		}
	case isLive && over:
		return Lapse(t, m, "not delivered before it expired at "+m.ExpiresAt)
	case lease != nil && m.TTL != nil && over:
		next = lease.Until // its reader has the message and may still acknowledge it
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

// reportOverdue records that a message has waited too long. It is recorded once and does not use up a retry.
func reportOverdue(t *ledger.Tx, m *orchestrator.Message) error {
	why := "undelivered since " + ledger.DueSince(m) // an acknowledgement can be overdue, too
	noted, err := t.Number(`SELECT count(*) FROM message_trace WHERE message_id = ? AND event = 'overdue'
		AND error = ?`, m.ID, why)
	if err != nil || noted > 0 {
		return err
	}
	return t.Note(ledger.BySeq(m.Seq), tracing.Overdue, why)
}

// Lapse expires a message, removes it from its inbox, and notifies its sender.
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

// deadEvery is the interval at which an engine looks for leases whose holder is dead.
const deadEvery = time.Second

// deadDue reports whether deadEvery has passed since the last check. If so, it records the present check.
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

// endDeadLeases makes the leases of dead holders expire, so that Tidy releases their rows. It also ends the reading
// leases of processes that have ended.
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
