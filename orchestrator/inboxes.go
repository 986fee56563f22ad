package orchestrator

import (
	"context"
	"fmt"
	"slices"

	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// deliverInboxes delivers everything due to recipients whose transport is a table, and calls others with the names of the
// other recipients that have something due, as soon as it meets them. Rows of recipients that nobody knows fail their
// attempt here. Each transaction goes on behind the recipient that the one before ended with, so that one with a long
// backlog holds back nobody.
func (r *Router) deliverInboxes(ctx context.Context, o DeliverOptions, y *tally, others func(recipient string)) error {
	last, idle := "", 0
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		var batch *inboxBatch
		err := r.write(ctx, func(t *tx) (err error) {
			t.quiet = true
			batch = &inboxBatch{tx: t, delivered: map[string]int{}, left: o.ClaimSize, last: last}
			return batch.run(o.Recipient)
		})
		if err != nil {
			return err
		}
		for recipient, n := range batch.delivered {
			y.deliver(recipient, n)
		}
		y.fail(batch.failed...)
		for _, recipient := range batch.others {
			others(recipient)
		}
		if idle++; batch.changed > 0 {
			idle = 0
		}
		last, more = batch.last, batch.more && idle <= batch.names // rows that cannot be changed must not keep it going
	}
	return nil
}

// inboxBatch is one transaction's worth of set-based delivery.
type inboxBatch struct {
	*tx
	left      int // rows that may still be taken
	more      bool
	last      string // recipient that was served last
	names     int    // recipients that have something due
	changed   int    // rows that are not due any more
	delivered map[string]int
	failed    []FailedAttempt
	others    []string

	set   SetTransport   // of the rows in temp.batch
	taken map[string]int // rows in temp.batch by recipient
}

// minShare is how many rows of one recipient are taken at least while others wait too. A transaction is shared out among
// all of them: the oldest rows of all stand side by side in the table, those of one are spread over ten times the pages
// if there are ten.
const minShare = 25

// run serves one recipient after the other until the batch is full.
func (b *inboxBatch) run(only string) error {
	conf, err := b.config()
	if err != nil {
		return err
	}
	if b.left <= 0 {
		b.left = conf.settings.ClaimSize
	}
	if err := b.adoptAll(); err != nil {
		return err
	}
	names := []string{only}
	if only == "" {
		if names, err = b.dueRecipients(b.ctx, conf, b.clockText); err != nil {
			return err
		}
	}
	if err := b.empty(); err != nil {
		return err
	}
	b.names = len(names)
	behind, _ := slices.BinarySearch(names, b.last+"\x00")
	for i, recipient := range slices.Concat(names[behind:], names[:behind]) {
		if b.left <= 0 {
			b.more = true
			break
		}
		b.last = recipient
		agent := conf.agents[recipient]
		if agent == nil {
			err = b.failUnknown(recipient)
		} else if set := b.r.setTransport(agent); set != nil {
			err = b.takeShare(recipient, min(b.left, max(minShare, b.left/(len(names)-i))), set)
		} else {
			b.others = append(b.others, recipient)
		}
		if err != nil {
			return err
		}
	}
	return b.deliver(conf)
}

// empty begins a new set.
func (b *inboxBatch) empty() error {
	b.taken = map[string]int{}
	return b.setBatch()
}

// takeShare puts what is due to one recipient into the set, at most limit rows.
func (b *inboxBatch) takeShare(recipient string, limit int, set SetTransport) error {
	if b.set != nil && b.set != set {
		conf, err := b.config()
		if err != nil {
			return err
		}
		if err := b.deliver(conf); err != nil {
			return err
		}
	}
	b.set = set
	n, err := b.selectDue(recipient, limit)
	if err != nil {
		return err
	}
	if n > 0 {
		b.taken[recipient] = n
	}
	b.left -= n
	if n == limit {
		b.more = true
		return nil
	}
	marked, err := b.number(`SELECT EXISTS (SELECT 1 FROM agent_message WHERE `+due+` AND recipient = ?2 AND delivery_marks <> '')`,
		b.clockText, recipient)
	if marked != 0 {
		b.others = append(b.others, recipient)
	}
	return err
}

// takeThese puts those of some rows of one recipient into the set that may still be taken.
func (b *inboxBatch) takeThese(recipient string, seqs []int64, set SetTransport) error {
	b.set = set
	if err := b.setBatch(seqs...); err != nil {
		return err
	}
	if _, err := b.Exec(`DELETE FROM temp.batch WHERE NOT EXISTS (SELECT 1 FROM agent_message m WHERE m.seq = batch.seq AND `+takeable+`)`,
		b.clockText, recipient); err != nil {
		return err
	}
	n, err := b.number(`SELECT count(*) FROM temp.batch`)
	if n > 0 {
		b.taken[recipient] = int(n)
	}
	return err
}

// deliver delivers the set. If that fails because of its rows, it delivers ever smaller parts of it, so that a row which
// breaks its part is found, fails alone, and holds back nobody.
func (b *inboxBatch) deliver(conf *config) error {
	if len(b.taken) == 0 {
		return nil
	}
	fault, err := b.deliverSet(b.set)
	if err != nil {
		return err
	}
	if fault == nil {
		for recipient, n := range b.taken {
			b.delivered[recipient] += n
			b.changed += n
			b.wakeStarter(conf, recipient)
		}
		return b.empty()
	}
	var rows []setRow
	err = b.query(`SELECT seq, recipient FROM agent_message WHERE seq IN (SELECT seq FROM temp.batch) ORDER BY seq`,
		func(row store.Row) error {
			rows = append(rows, setRow{row.Int(0), row.Text(1)})
			return nil
		})
	if err == nil {
		err = b.deliverParts(conf, rows)
	}
	if err != nil {
		return err
	}
	return b.empty()
}

// setRow is a row of a set that is delivered in parts.
type setRow struct {
	seq       int64
	recipient string
}

// selectDue adds the rows to deliver to the temporary table batch, highest priority first, in the order of sending.
func (t *tx) selectDue(recipient string, limit int) (int, error) {
	n, err := t.Exec(`
		INSERT INTO temp.batch (seq)
		SELECT seq FROM agent_message m
		WHERE `+takeable+`
		ORDER BY priority DESC, seq LIMIT +?3`, t.clockText, recipient, limit)
	return int(n), err
}

// deliverSet delivers the rows of temp.batch and settles them, or does nothing. fault is a failure that lies in the rows.
func (t *tx) deliverSet(set SetTransport) (fault, err error) {
	return t.changeRows(func() error {
		if err := set.DeliverSet(t.run, t.now); err != nil {
			return err
		}
		_, err := t.changeStatus(inBatch, change{to: Delivered, attempted: true, event: tracing.Delivered})
		return err
	})
}

func (b *inboxBatch) deliverParts(conf *config, rows []setRow) error {
	seqs := make([]int64, len(rows))
	for i := range rows {
		seqs[i] = rows[i].seq
	}
	if err := b.setBatch(seqs...); err != nil {
		return err
	}
	fault, err := b.deliverSet(b.set)
	switch {
	case err != nil:
		return err
	case fault == nil:
		for i := range rows {
			b.delivered[rows[i].recipient]++
			b.wakeStarter(conf, rows[i].recipient)
		}
		b.changed += len(rows)
		return nil
	case len(rows) == 1:
		return b.failAlone(rows[0].seq, conf.agents[rows[0].recipient], fault)
	}
	half := len(rows) / 2
	if err := b.deliverParts(conf, rows[:half]); err != nil {
		return err
	}
	return b.deliverParts(conf, rows[half:])
}

// failAlone sends the row that broke its set up the ladder. If its agent has a fallback, the row gets a mark instead,
// and a worker tries that.
func (b *inboxBatch) failAlone(seq int64, agent *Agent, cause error) error {
	ms, err := b.messages(`SELECT `+messageColumns+` FROM agent_message WHERE seq = ?`, seq)
	if err != nil || len(ms) == 0 {
		return err
	}
	reason := fmt.Sprintf("the inbox refused it: %v", cause)
	if agent.Fallback != "" {
		b.changed++
		b.others = append(b.others, agent.Name)
		return b.addMark(&ms[0], agent.Deliver, reason)
	}
	return b.failOne(&ms[0], DeliveryFailed, reason, false)
}

func (b *inboxBatch) failOne(m *Message, code Code, reason string, permanent bool) error {
	retryAt := ""
	stuck, err := b.alone("failing its attempt", m.ID, func() (err error) {
		retryAt, err = b.attemptFailed(m, &outcome{reason: reason, permanent: permanent})
		return err
	})
	if !stuck {
		b.changed++
	}
	b.failed = append(b.failed, failedAttempt(m, code, reason, retryAt))
	return err
}

// failedAttempt describes an attempt of m that has just failed. The text counts attempts, retry_count the retries made.
func failedAttempt(m *Message, code Code, reason, retryAt string) FailedAttempt {
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
func (b *inboxBatch) failUnknown(recipient string) error {
	ms, err := b.messages(`SELECT `+messageColumns+` FROM agent_message WHERE `+due+` AND recipient = ?2
		ORDER BY priority DESC, seq LIMIT +?3`, b.clockText, recipient, b.left)
	if err != nil {
		return err
	}
	reason, err := b.nobody(recipient)
	if err != nil {
		return err
	}
	b.left -= len(ms)
	b.more = b.more || b.left <= 0
	for i := range ms {
		if err := b.failOne(&ms[i], DeliveryFailed, reason, false); err != nil {
			return err
		}
	}
	return nil
}

// handOne delivers one message, marks it as read, and brings m up to date.
func (t *tx) handOne(m *Message, inbox SetTransport) error {
	if err := inbox.DeliverRead(t.run, m.seq, t.now); err != nil {
		return err
	}
	if _, err := t.changeStatus(bySeq(m.seq), change{to: Delivered, attempted: true, read: true, event: tracing.Delivered}); err != nil {
		return err
	}
	if m.Status == Retry {
		m.RetryCount++
	}
	m.Status, m.NextAttemptAt, m.Error = Delivered, "", ""
	m.DeliveredAt, m.EndedAt, m.ReadAt = t.now, t.now, t.now
	e := t.event(tracing.Read, "")
	e.MessageID, e.OldStatus, e.NewStatus = m.ID, string(m.Status), string(m.Status)
	return tracing.Record(t, e)
}
