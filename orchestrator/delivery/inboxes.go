package delivery

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/adoption"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// deliverInboxes delivers all due messages to recipients whose transport is a table. For every other recipient with
// due messages, it calls others with the name as soon as it finds one. Rows for unknown recipients fail their attempt
// here. Each transaction continues after the recipient with which the previous one ended, so that a recipient with a
// long backlog does not delay the others. A recipient that another process is serving is skipped and served last.
func deliverInboxes(ctx context.Context, l *ledger.Ledger, o Options, r *run, others func(recipient string)) error {
	passed := map[string]bool{}
	if o.Recipient != "" {
		passed[o.Recipient] = true
	} else if err := deliverTurns(ctx, l, o, store.Shared, r, others, passed); err != nil {
		return err
	}
	for _, recipient := range slices.Sorted(maps.Keys(passed)) {
		o.Recipient = recipient
		if err := deliverTurns(ctx, l, o, store.Of(recipient), r, others, passed); err != nil {
			return err
		}
	}
	return nil
}

// deliverTurns serves the recipients that a scope allows, as described for deliverInboxes. It adds skipped recipients
// to passed.
func deliverTurns(ctx context.Context, l *ledger.Ledger, o Options, scope store.Scope, r *run,
	others func(recipient string), passed map[string]bool) error {
	last, idle := "", 0
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		var batch *InboxBatch
		err := l.Write(ctx, scope, func(t *ledger.Tx) (err error) {
			t.Quiet = true
			batch = &InboxBatch{Tx: t, Delivered: map[string]int{}, Left: o.ClaimSize, last: last}
			return batch.run(o.Recipient)
		})
		if err != nil {
			return err
		}
		for recipient, n := range batch.Delivered {
			r.add(recipient, &settlement{delivered: n})
		}
		for i := range batch.failed {
			r.add(batch.failed[i].Recipient, &settlement{failed: batch.failed[i : i+1]})
		}
		for _, recipient := range batch.others {
			others(recipient)
		}
		for _, recipient := range batch.passed {
			passed[recipient] = true
		}
		if idle++; batch.changed > 0 {
			idle = 0
		}
		last, more = batch.last, batch.More && idle <= batch.names // rows that cannot be changed must not keep it going
	}
	return nil
}

// InboxBatch is the set-based delivery of one transaction.
type InboxBatch struct {
	*ledger.Tx
	Left      int // number of rows that may still be taken
	More      bool
	last      string // recipient that was served last
	names     int    // number of recipients with due messages
	changed   int    // number of rows that are no longer due
	Delivered map[string]int
	failed    []FailedAttempt
	others    []string
	passed    []string // recipients that another process is serving

	set   orchestrator.SetTransport // transport of the rows in temp.batch
	taken map[string]int            // number of these rows by recipient
}

// minShare is the minimum number of rows of one recipient in a transaction while other recipients wait, too. A
// transaction is shared among all recipients because the oldest rows of all of them are adjacent in the table. The
// rows of one of ten recipients are spread over ten times as many pages.
const minShare = 25

// run serves the recipients one after the other until the batch is full.
func (b *InboxBatch) run(only string) error {
	conf := b.Config()
	if b.Left <= 0 {
		b.Left = conf.Settings.ClaimSize
	}
	if b.IsAlone() {
		if err := adoption.All(b.Tx); err != nil {
			return err
		}
	}
	names := []string{only}
	if only == "" {
		names = nil
		err := eachDue(b.Ctx, b.Conn, conf, b.ClockText, func(recipient string) bool {
			names = append(names, recipient)
			return true
		})
		if err != nil {
			return err
		}
	}
	if err := b.Empty(); err != nil {
		return err
	}
	b.names = len(names)
	behind, _ := slices.BinarySearch(names, b.last+"\x00")
	for i, recipient := range slices.Concat(names[behind:], names[:behind]) {
		if b.Left <= 0 {
			b.More = true
			break
		}
		b.last = recipient
		agent := conf.Agents[recipient]
		if agent != nil && b.Ledger.SetTransport(agent) == nil {
			// there may be more of them than the database has room for locks
			b.others = append(b.others, recipient)
			continue
		}
		held, err := b.Hold(recipient)
		if held && !b.IsAlone() { // changes by others since the start must have an earlier time
			b.ReadClock(b.Ledger.Now())
		}
		switch {
		case err != nil:
		case !held:
			b.passed = append(b.passed, recipient)
		case agent == nil:
			err = b.failUnknown(recipient)
		default:
			err = b.TakeShare(recipient, min(b.Left, max(minShare, b.Left/(len(names)-i))),
				b.Ledger.SetTransport(agent))
		}
		if err != nil {
			return err
		}
	}
	if err := adoption.WrittenSince(b.Tx); err != nil {
		return err
	}
	return b.Deliver()
}

// Empty starts a new, empty set.
func (b *InboxBatch) Empty() error {
	b.taken = map[string]int{}
	return b.SetBatch()
}

// TakeShare adds due messages of one recipient to the set: at most limit rows, highest priority first, then oldest.
// If the rows already in the set use another transport, TakeShare delivers them first.
func (b *InboxBatch) TakeShare(recipient string, limit int, set orchestrator.SetTransport) error {
	if b.set != nil && b.set != set {
		if err := b.Deliver(); err != nil {
			return err
		}
	}
	b.set = set
	n, err := b.Exec(`
		INSERT INTO temp.batch (seq)
		SELECT seq FROM agent_message m
		WHERE `+ledger.Takeable+`
		ORDER BY priority DESC, seq LIMIT +?3`, b.ClockText, recipient, limit)
	if err != nil {
		return err
	}
	if n > 0 {
		b.taken[recipient] = int(n)
	}
	b.Left -= int(n)
	if int(n) == limit {
		b.More = true
		return nil
	}
	marked, err := b.Number(`SELECT EXISTS (SELECT 1 FROM agent_message WHERE `+ledger.Due+
		` AND recipient = ?2 AND delivery_marks <> '')`,
		b.ClockText, recipient)
	if marked != 0 {
		b.others = append(b.others, recipient)
	}
	return err
}

// TakeThese sets the set to those of the given rows of one recipient that may still be taken.
func (b *InboxBatch) TakeThese(recipient string, seqs []int64, set orchestrator.SetTransport) error {
	b.set = set
	if err := b.SetBatch(seqs...); err != nil {
		return err
	}
	if _, err := b.Exec(`DELETE FROM temp.batch WHERE NOT EXISTS (SELECT 1 FROM agent_message m WHERE m.seq = batch.seq
		AND `+ledger.Takeable+`)`,
		b.ClockText, recipient); err != nil {
		return err
	}
	n, err := b.Number(`SELECT count(*) FROM temp.batch`)
	if n > 0 {
		b.taken[recipient] = int(n)
	}
	return err
}

// Deliver delivers the set. If delivery fails because of the rows, it delivers smaller and smaller parts, so that a
// faulty row is found, fails alone, and does not delay other rows.
func (b *InboxBatch) Deliver() error {
	if len(b.taken) == 0 {
		return nil
	}
	fault, err := b.deliverSet(b.taken)
	if err != nil {
		return err
	}
	if fault == nil {
		b.count(b.taken)
		return b.Empty()
	}
	rows, err := store.List(b.Conn, func(row store.Row) setRow { return setRow{row.Int(0), row.Text(1)} },
		`SELECT seq, recipient FROM agent_message WHERE seq IN (SELECT seq FROM temp.batch) ORDER BY seq`)
	if err != nil {
		return err
	}
	if err := b.deliverHalves(rows); err != nil {
		return err
	}
	return b.Empty()
}

// count adds the numbers of delivered messages by recipient.
func (b *InboxBatch) count(delivered map[string]int) {
	for recipient, n := range delivered {
		b.Delivered[recipient] += n
		b.changed += n
		agents.WakeStarter(b.Tx, recipient)
	}
}

// setRow is a row of a set that could not be delivered as a whole.
type setRow struct {
	seq       int64
	recipient string
}

// deliverSet delivers the rows of temp.batch and settles them, or changes nothing. recipients holds the number of
// rows per recipient. fault is a failure caused by the rows.
func (b *InboxBatch) deliverSet(recipients map[string]int) (fault, err error) {
	return b.ChangeRows(func() error {
		if err := ledger.DeliverBatch(b.Tx, b.set, recipients); err != nil {
			return err
		}
		_, err := b.ChangeStatus(ledger.InBatch,
			ledger.Change{To: orchestrator.Delivered, Attempted: true, Event: tracing.Delivered})
		return err
	})
}

// deliverHalves delivers rows that failed as a set: each half by itself, and recursively the halves of a half that
// fails.
func (b *InboxBatch) deliverHalves(rows []setRow) error {
	for _, half := range [][]setRow{rows[:len(rows)/2], rows[len(rows)/2:]} {
		if len(half) == 0 {
			continue
		}
		var seqs []int64
		recipients := map[string]int{}
		for _, r := range half {
			seqs = append(seqs, r.seq)
			recipients[r.recipient]++
		}
		if err := b.SetBatch(seqs...); err != nil {
			return err
		}
		fault, err := b.deliverSet(recipients)
		switch {
		case err != nil:
		case fault == nil:
			b.count(recipients)
		case len(half) == 1:
			err = b.failAlone(half[0].seq, b.Config().Agents[half[0].recipient], fault)
		default:
			err = b.deliverHalves(half)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// failAlone records a failed attempt for the row that made its set fail. If the row's agent has a fallback, the row
// gets a mark instead, and a worker tries the fallback.
func (b *InboxBatch) failAlone(seq int64, agent *ledger.Agent, cause error) error {
	ms, err := ledger.Messages(b.Conn, `SELECT `+ledger.MessageColumns+` FROM agent_message WHERE seq = ?`, seq)
	if err != nil || len(ms) == 0 {
		return err
	}
	reason := fmt.Sprintf("the inbox rejected the message: %v", cause)
	if agent.Fallback != "" {
		b.changed++
		b.others = append(b.others, agent.Name)
		return AddMark(b.Tx, &ms[0], agent.Deliver, reason)
	}
	return b.failOne(&ms[0], reason)
}

// failOne records a failed attempt at a message.
func (b *InboxBatch) failOne(m *orchestrator.Message, reason string) error {
	retryAt := ""
	stuck, err := b.RowSavepoint("recording its failed attempt", m.ID, func() (err error) {
		retryAt, err = attemptFailed(b.Tx, m, &outcome{reason: reason})
		return err
	})
	if !stuck {
		b.changed++
	}
	b.failed = append(b.failed, failedAttempt(m, orchestrator.DeliveryFailed, reason, retryAt))
	return err
}

// failedAttempt describes an attempt of m that has just failed. Its text counts attempts, and its RetryCount counts
// retries.
func failedAttempt(m *orchestrator.Message, code orchestrator.Code, reason, retryAt string) FailedAttempt {
	attempts := "1 attempt"
	if n := m.Attempt(); n > 1 {
		attempts = fmt.Sprintf("%d attempts", n)
	}
	return FailedAttempt{
		Code: code, Message: "Failed to deliver message after " + attempts + ": " + reason, MessageID: m.ID,
		Recipient: m.Recipient, RetryCount: m.Attempt() - 1, RetryAt: retryAt,
	}
}

// failUnknown records failed attempts for the due messages to an unknown name, which somebody wrote by hand. They
// become dead letters when their retries are used up.
func (b *InboxBatch) failUnknown(recipient string) error {
	ms, err := ledger.Messages(b.Conn, `SELECT `+ledger.MessageColumns+` FROM agent_message WHERE `+ledger.Due+
		` AND recipient = ?2
		ORDER BY priority DESC, seq LIMIT +?3`, b.ClockText, recipient, b.Left)
	if err != nil {
		return err
	}
	reason, err := agents.Nobody(b.Conn, recipient)
	if err != nil {
		return err
	}
	b.Left -= len(ms)
	b.More = b.More || b.Left <= 0
	for i := range ms {
		if err := b.failOne(&ms[i], reason); err != nil {
			return err
		}
	}
	return nil
}

// HandOne delivers one message through a table, where its row is marked as read, and updates m. read is true if the
// message counts as read; otherwise the caller puts it under a reading lease.
func HandOne(t *ledger.Tx, m *orchestrator.Message, set orchestrator.SetTransport, read bool) error {
	if err := set.DeliverRead(t.InsertLater, m.Seq, t.Now); err != nil {
		return err
	}
	if _, err := t.ChangeStatus(ledger.BySeq(m.Seq),
		ledger.Change{To: orchestrator.Delivered, Attempted: true, Read: read, Event: tracing.Delivered}); err != nil {
		return err
	}
	if m.Status == orchestrator.Retry {
		m.RetryCount++
	}
	m.Status, m.NextAttemptAt, m.Error = orchestrator.Delivered, "", ""
	m.DeliveredAt, m.EndedAt = t.Now, t.Now
	if !read {
		return nil
	}
	m.ReadAt = t.Now
	return t.NoteOf(m, tracing.Read, "")
}
