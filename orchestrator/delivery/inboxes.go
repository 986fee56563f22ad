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

// deliverInboxes delivers everything due to recipients whose transport is a table, and calls others with the names of
// the other recipients that have something due, as soon as it meets them. Rows of recipients that nobody knows fail
// their attempt here. Each transaction goes on behind the recipient that the one before ended with, so that one with a
// long backlog holds back nobody. A recipient to whom somebody else delivers at that moment is passed over, and comes
// last.
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

// deliverTurns is deliverInboxes for the recipients that a scope allows. Those that are passed over are added to
// passed.
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

// InboxBatch is one transaction's worth of set-based delivery.
type InboxBatch struct {
	*ledger.Tx
	Left      int // rows that may still be taken
	More      bool
	last      string // recipient that was served last
	names     int    // recipients that have something due
	changed   int    // rows that are not due any more
	Delivered map[string]int
	failed    []FailedAttempt
	others    []string
	passed    []string // those to whom somebody else delivers

	set   orchestrator.SetTransport // of the rows in temp.batch
	taken map[string]int            // these by recipient
}

// minShare is how many rows of one recipient are taken at least while others wait too. A transaction is shared out
// among all of them: the oldest rows of all stand side by side in the table, those of one are spread over ten times the
// pages if there are ten.
const minShare = 25

// run serves one recipient after the other until the batch is full.
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
			// of whom there may be more than the database has room for locks
			b.others = append(b.others, recipient)
			continue
		}
		held, err := b.Hold(recipient)
		if held && !b.IsAlone() { // what others did to its messages since this began is to have an earlier time
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

// Empty begins a new set.
func (b *InboxBatch) Empty() error {
	b.taken = map[string]int{}
	return b.SetBatch()
}

// TakeShare puts what is due to one recipient into the set, at most limit rows: the highest priority first, then the
// oldest. If what is in the set goes through another transport, it is delivered before.
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

// TakeThese puts those of some rows of one recipient into the set that may still be taken.
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

// Deliver delivers the set. If that fails because of its rows, it delivers ever smaller parts of it, so that a row
// which breaks its part is found, fails alone, and holds back nobody.
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

// count notes that so many messages were delivered to each recipient.
func (b *InboxBatch) count(delivered map[string]int) {
	for recipient, n := range delivered {
		b.Delivered[recipient] += n
		b.changed += n
		agents.WakeStarter(b.Tx, recipient)
	}
}

// setRow is a row of a set which could not be delivered as a whole.
type setRow struct {
	seq       int64
	recipient string
}

// deliverSet delivers the rows of temp.batch, so many to each recipient, and settles them, or does nothing. fault is a
// failure that lies in the rows.
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

// deliverHalves delivers rows that failed as a set: each half by itself, and the halves of one that fails again.
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

// failAlone sends the row that broke its set up the ladder. If its agent has a fallback, the row gets a mark instead,
// and a worker tries that.
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

// failOne ends an attempt at a message that failed.
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

// failedAttempt describes an attempt of m that has just failed. The text counts attempts, retry_count the retries made.
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

// failUnknown sends what somebody wrote by hand for a name that nobody has up the ladder, where it fails in the end.
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

// HandOne delivers one message through a table, where its place looks read, and brings m up to date. read says that it
// is read indeed; otherwise the caller lends it to a reader.
func HandOne(t *ledger.Tx, m *orchestrator.Message, set orchestrator.SetTransport, read bool) error {
	if err := set.DeliverRead(t.Run, m.Seq, t.Now); err != nil {
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
