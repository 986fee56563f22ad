package orchestrator

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

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
}

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
		if names, err = b.dueRecipients(b.clockText); err != nil {
			return err
		}
	}
	b.names = len(names)
	behind, _ := slices.BinarySearch(names, b.last+"\x00")
	for _, recipient := range slices.Concat(names[behind:], names[:behind]) {
		if b.left <= 0 {
			b.more = true
			return nil
		}
		b.last = recipient
		agent := conf.agents[recipient]
		if agent == nil {
			err = b.failUnknown(recipient)
		} else if set := b.r.setTransport(agent); set != nil {
			err = b.serve(recipient, agent, set)
		} else {
			b.others = append(b.others, recipient)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setTransport returns the agent's transport if that is a table, else nil.
func (r *Router) setTransport(a *Agent) SetTransport {
	scheme, _, _ := strings.Cut(a.Deliver, ":")
	set, _ := r.transports[scheme].(SetTransport)
	return set
}

// serve delivers what is due to one recipient.
func (b *inboxBatch) serve(recipient string, agent *Agent, set SetTransport) error {
	limit := b.left
	n, err := b.selectDue(recipient, limit)
	if err != nil {
		return err
	}
	b.left -= n
	b.more = b.more || b.left <= 0
	if n > 0 {
		var fault error
		fault, err = b.deliverSet(set)
		switch {
		case err != nil:
		case fault != nil:
			err = b.halve(recipient, agent, set)
		default:
			b.delivered[recipient] += n
			b.changed += n
		}
	}
	if err != nil || n == limit {
		return err
	}
	marked, err := b.number(`SELECT EXISTS (SELECT 1 FROM agent_message WHERE `+due+` AND recipient = ?2 AND delivery_marks <> '')`,
		b.clockText, recipient)
	if marked != 0 {
		b.others = append(b.others, recipient)
	}
	return err
}

// selectDue fills the temporary table batch with the rows to deliver, highest priority first, in the order of sending.
func (t *tx) selectDue(recipient string, limit int) (int, error) {
	if err := t.setBatch(); err != nil {
		return 0, err
	}
	n, err := t.Exec(`
		INSERT INTO temp.batch (seq)
		SELECT seq FROM agent_message m
		WHERE `+takeable+`
		ORDER BY priority DESC, seq LIMIT ?3`, t.clockText, recipient, limit)
	return int(n), err
}

// deliverSet delivers the rows of temp.batch and settles them, or does nothing. fault is a failure that lies in the rows.
func (t *tx) deliverSet(set SetTransport) (fault, err error) {
	isFault := false
	failure, err := t.apart(func() error {
		err := set.DeliverSet(func(query string, args ...any) error {
			_, err := t.Exec(query, args...)
			return err
		}, t.now)
		if err == nil {
			_, err = t.changeStatus(inBatch, change{to: Delivered, attempted: true, event: tracing.Delivered})
		}
		isFault = err != nil && t.rowsFault(err)
		return err
	})
	if err == nil && failure != nil && !isFault {
		err = failure
	}
	return failure, err
}

// rowsFault reports whether a set-based delivery failed because of its rows, and not because of the disk or a lock.
func (t *tx) rowsFault(err error) bool {
	if t.raw.AutoCommit() || isBusy(err) {
		return false
	}
	var own *Error
	return !errors.As(databaseError(t.r.path, err), &own)
}

// halve delivers the rows of temp.batch in ever smaller sets, so that a row which breaks its set is found, fails alone,
// and holds back nobody.
func (b *inboxBatch) halve(recipient string, agent *Agent, set SetTransport) error {
	var seqs []int64
	err := b.query(`SELECT seq FROM temp.batch ORDER BY seq`, func(row []driver.Value) error {
		seqs = append(seqs, asInt(row[0]))
		return nil
	})
	if err != nil {
		return err
	}
	return b.deliverParts(recipient, agent, set, seqs)
}

func (b *inboxBatch) deliverParts(recipient string, agent *Agent, set SetTransport, seqs []int64) error {
	if err := b.setBatch(seqs...); err != nil {
		return err
	}
	fault, err := b.deliverSet(set)
	switch {
	case err != nil:
		return err
	case fault == nil:
		b.delivered[recipient] += len(seqs)
		b.changed += len(seqs)
		return nil
	case len(seqs) == 1:
		return b.failAlone(seqs[0], agent, fault)
	}
	half := len(seqs) / 2
	if err := b.deliverParts(recipient, agent, set, seqs[:half]); err != nil {
		return err
	}
	return b.deliverParts(recipient, agent, set, seqs[half:])
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
		return b.addMark(&ms[0], agent.Deliver, reason)
	}
	return b.failOne(&ms[0], DeliveryFailed, reason, false)
}

func (b *inboxBatch) failOne(m *Message, code Code, reason string, permanent bool) error {
	retryAt := ""
	stuck, err := b.alone("failing its attempt", m.ID, func() (err error) {
		retryAt, err = b.attemptFailed(m, reason, permanent)
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
	if n := m.attempt(); n > 1 {
		attempts = fmt.Sprintf("%d attempts", n)
	}
	return FailedAttempt{
		Code: code, Message: "Failed to deliver message after " + attempts + ": " + reason, MessageID: m.ID,
		Recipient: m.Recipient, RetryCount: m.attempt() - 1, RetryAt: retryAt,
	}
}

// failUnknown sends what somebody wrote by hand for a name that nobody has up the ladder, where it fails in the end.
func (b *inboxBatch) failUnknown(recipient string) error {
	ms, err := b.messages(`SELECT `+messageColumns+` FROM agent_message WHERE `+due+` AND recipient = ?2
		ORDER BY priority DESC, seq LIMIT ?3`, b.clockText, recipient, b.left)
	if err != nil {
		return err
	}
	b.left -= len(ms)
	b.more = b.more || b.left <= 0
	for i := range ms {
		if err := b.failOne(&ms[i], DeliveryFailed, fmt.Sprintf("nobody is known as %q", recipient), false); err != nil {
			return err
		}
	}
	return nil
}
