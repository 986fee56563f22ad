package reading

import (
	"cmp"
	"context"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/adoption"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// readUnread returns unread messages of an inbox. Unless Options.Peek is set, it marks each message as read or as
// shown under a lease.
func readUnread(t *ledger.Tx, o *Options) (ms []orchestrator.Message, more bool, err error) {
	ms, more, err = takeUnread(t, o)
	if err != nil || o.Peek {
		return ms, more, err
	}
	n, err := o.fitting(t, ms)
	if err != nil {
		return nil, false, err
	}
	if n < len(ms) {
		ms, more = ms[:n], true
	}
	for i := range ms {
		m := &ms[i]
		lease := o.Lease
		if m.Seq == 0 {
			lease.For = 0 // a row that another program wrote into the inbox cannot be acknowledged
		}
		if lease.For > 0 || lease.Writer.PID > 0 {
			err = messages.Show(t, m, &lease)
		} else {
			m.ReadAt = t.Now
			err = messages.MarkRead(t, m, t.Now, tracing.Read, "")
		}
		if err != nil {
			return nil, false, err
		}
	}
	return ms, more, nil
}

// fitting returns how many of the messages the reader takes. Fits and Affords get the messages as they will be handed
// out.
func (o *Options) fitting(t *ledger.Tx, ms []orchestrator.Message) (n int, err error) {
	if n = len(ms); n == 0 || o.Fits == nil && o.Affords == nil {
		return n, nil
	}
	handed := slices.Clone(ms)
	for i := range handed {
		m := &handed[i]
		if m.Status != orchestrator.Delivered {
			m.Status, m.DeliveredAt, m.EndedAt = orchestrator.Delivered, t.Now, t.Now
		}
		if o.Lease.For > 0 {
			m.ShownUntil = t.Now
		}
	}
	if o.Fits != nil {
		n = o.Fits(handed)
	}
	if o.Affords != nil {
		n, err = o.Affords(t, handed[:n])
	}
	return n, err
}

// takeUnread lists the unread messages of an inbox. A row that another program inserted into the inbox without a
// message counts as a message with nothing but a payload.
func takeUnread(t *ledger.Tx, o *Options) (ms []orchestrator.Message, more bool, err error) {
	if ms, more, err = unreadMessages(t, o); err != nil || more || o.Filter != (Filter{}) {
		return ms, more, err
	}
	size := 0
	for i := range ms {
		size += len(ms[i].Payload)
	}
	err = t.Query(`
		SELECT i.message_id, i.payload, i.delivered_at FROM agent_inbox i
		WHERE i.recipient = ? AND i.read_at = ''
		  AND NOT EXISTS (SELECT 1 FROM agent_message m WHERE m.message_id = i.message_id AND m.recipient = i.recipient)
		  AND NOT EXISTS (SELECT 1 FROM agent_message_archive a WHERE a.message_id = i.message_id
		  	AND +a.recipient = i.recipient)
		ORDER BY i.rowid LIMIT +?`, func(row store.Row) error {
		payload := []byte(adoption.Payload(row[1]))
		size += len(payload)
		if more = more || len(ms) == o.Limit || len(ms) > 0 && size > ledger.MaxRead; more {
			return nil
		}
		ms = append(ms, orchestrator.Message{
			ID: row.Text(0), Recipient: o.Recipient, Payload: payload, Status: orchestrator.Delivered,
			DeliveredAt: row.Text(2),
		})
		return nil
	}, o.Recipient, o.Limit-len(ms)+1)
	return ms, more, err
}

// unreadMessages selects the messages to be read first by the few columns that decide the order, and only then
// fetches them, so that a large inbox is not sorted with its payloads. The query starts from the ids in the inbox,
// and not from all messages that the recipient ever got. more reports whether others are left.
func unreadMessages(t *ledger.Tx, o *Options) (ms []orchestrator.Message, more bool, err error) {
	args := []any{o.Recipient, o.Limit + 1, o.Filter.Type, o.Filter.Target, o.Filter.MinPriority, o.Filter.MaxPriority,
		o.Filter.Sender, o.Filter.Answers}
	untold := ""
	if o.Untold != "" {
		untold = ` AND ` + ledger.Untold(`?9`)
		args = append(args, o.Untold)
	}
	unread := `WHERE message_id IN (SELECT message_id FROM agent_inbox i WHERE recipient = ?1 AND read_at = ''` + untold + `)
		AND +recipient = ?1 AND status = 'delivered'` + selected
	return ledger.Fetch(t.Conn, `
		SELECT archived, seq FROM (
		    SELECT 0 AS archived, seq, priority, action FROM agent_message `+unread+`
		    UNION ALL
		    SELECT 1, seq, priority, action FROM agent_message_archive `+unread+`) AS m`+ledger.ReadingOrder+
		` LIMIT +?2`, o.Limit, ledger.MaxRead,
		args...)
}

// withUnreadPosts adds unread posts to ms, within the limits of the wait, and records that they were read.
func withUnreadPosts(t *ledger.Tx, o *Options, ms []orchestrator.Message, more bool) ([]orchestrator.Message, bool,
	error) {
	room := ledger.MaxRead
	for i := range ms {
		room -= len(ms[i].Payload)
	}
	if len(ms) >= o.Limit || room <= 0 {
		there, err := messages.HasUnreadPosts(t.Conn, o.Recipient)
		return ms, more || there, err
	}
	posts, others, err := ledger.Fetch(t.Conn, `SELECT 0, m.seq`+messages.UnreadPosts+` ORDER BY m.seq LIMIT +?2`,
		o.Limit-len(ms), room, o.Recipient, o.Limit-len(ms)+1)
	if err != nil || len(posts) == 0 {
		return ms, more, err
	}
	n, err := o.fitting(t, slices.Concat(ms, posts))
	if err != nil {
		return ms, more, err
	}
	if n = max(0, n-len(ms)); n < len(posts) {
		posts, others = posts[:n], true
	}
	if len(posts) == 0 {
		return ms, true, nil
	}
	if !o.Peek {
		if err := messages.MarkPostsRead(t, o.Recipient, posts, &o.Lease); err != nil {
			return nil, false, err
		}
	}
	ms = append(ms, posts...)
	slices.SortStableFunc(ms, func(a, b orchestrator.Message) int {
		return cmp.Or(interruptsFirst(&a)-interruptsFirst(&b), b.Priority-a.Priority, cmp.Compare(a.Seq, b.Seq))
	})
	return ms, more || others, nil
}

// notWritten is the reason in the trace for a message that became unread again because its answer was not written.
const notWritten = "the answer could not be written; unread again"

// notMarked is the reason in the trace for a message that became unread again although its answer was written.
const notMarked = "a trigger prevents marking the message as read; unread again"

// Written records that the answer with the messages of a Wait was written. It is for messages under a lease with a
// Writer. Each message is then read, or the rest of its lease begins. A message that was given back, acknowledged or
// deleted in the meantime is left alone. A power cut may undo the record, and then the messages become unread again.
// If there is anything to record, Written calls each function of also in the same transaction.
func Written(ctx context.Context, l *ledger.Ledger, ms []orchestrator.Message, lease messages.ReadingLease,
	also ...func(t *ledger.Tx) error) error {
	var readers []string
	for i := range ms {
		if ms[i].ShownAt != "" { // a post without its own lease follows the first post of its thread, which has one
			readers = append(readers, cmp.Or(ms[i].Reader, ms[i].Recipient))
		}
	}
	if len(readers) == 0 {
		return nil
	}
	return l.WriteLazily(ctx, store.Of(readers...), func(t *ledger.Tx) error {
		err := WrittenIn(t, ms, lease)
		for i := 0; err == nil && i < len(also); i++ {
			err = also[i](t)
		}
		return err
	})
}

// WrittenIn does the work of Written within the transaction t. The scope of t must include the readers of the
// messages.
func WrittenIn(t *ledger.Tx, ms []orchestrator.Message, lease messages.ReadingLease) error {
	for i := range ms {
		if ms[i].ShownAt == "" {
			continue
		}
		refused, err := t.RowSavepoint("noting that its answer was written", ms[i].ID,
			func() error { return messages.Written(t, &ms[i], &lease) })
		if refused {
			err = messages.Unshow(t, &ms[i], notMarked)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Unread makes messages unread again that Wait or letters.Wait has returned and that the caller cannot use, for
// instance because the caller's own reader is gone. The next reader gets them. A message that was acknowledged or
// read again in the meantime has reached a reader and stays read.
func Unread(ctx context.Context, l *ledger.Ledger, ms []orchestrator.Message) error {
	if len(ms) == 0 {
		return nil
	}
	readers := make([]string, len(ms))
	for i := range ms {
		readers[i] = cmp.Or(ms[i].Reader, ms[i].Recipient)
	}
	return l.Write(ctx, store.Of(readers...), func(t *ledger.Tx) error {
		for i := range ms {
			m := &ms[i]
			if m.IsPost() {
				if err := messages.UnreadPost(t, m); err != nil {
					return err
				}
			}
			if m.ShownAt != "" {
				if err := messages.Unshow(t, m, notWritten); err != nil {
					return err
				}
			}
			if m.IsPost() || m.ShownAt != "" {
				continue
			}
			settled, err := t.Number(`SELECT count(*) FROM `+ledger.Table(m)+
				` WHERE message_id = ? AND +recipient = ? AND (acknowledged_at <> '' OR read_at <> ?)`,
				m.ID, m.Recipient, m.ReadAt)
			if err != nil {
				return err
			}
			if settled > 0 {
				continue
			}
			if err := messages.MarkRead(t, m, "", tracing.Released, notWritten); err != nil {
				return err
			}
		}
		t.WakeAll()
		return nil
	})
}

// maxHandOver bounds the number of messages that handOver takes.
const maxHandOver = 8

// handOver delivers the due messages of a recipient and hands them out, one by one. For a few messages it runs half
// as many statements as deliverForReading and readUnread, and the result is the same rows. This matters because a
// waiter that was just rung for one message runs all its statements cold.
//
// handOver does nothing unless these messages are all that there is to read: the inbox has nothing unread, and all
// due messages are within the limits of count and size and fit. It also leaves rows that cannot be delivered to
// deliverForReading.
func handOver(t *ledger.Tx, o *Options) ([]orchestrator.Message, error) {
	inbox, recipient := t.Ledger.Inbox(), o.Recipient
	if inbox == nil || t.Config().Agents[recipient] == nil {
		return nil, nil
	}
	limit, lends := min(o.Limit, maxHandOver), o.Lease.Writer.PID > 0
	ms, err := ledger.Messages(t.Conn, `
		SELECT `+ledger.MessageColumns+` FROM agent_message m
		WHERE `+ledger.Takeable+`
		  AND NOT EXISTS (SELECT 1 FROM agent_inbox WHERE recipient = ?2 AND read_at = '')
		ORDER BY priority DESC, seq LIMIT +?3`, t.ClockText, recipient, limit+1)
	if err != nil || len(ms) == 0 || len(ms) > limit {
		return nil, err
	}
	size := 0
	for i := range ms {
		size += len(ms[i].Payload)
	}
	if n, err := o.fitting(t, ms); err != nil || n < len(ms) || len(ms) > 1 && size > ledger.MaxRead {
		return nil, err
	}
	fault, err := t.ChangeRows(func() error {
		for i := range ms {
			if err := delivery.HandOne(t, &ms[i], inbox, !lends); err != nil {
				return err
			}
			if lends {
				if err := messages.Lend(t, &ms[i], &o.Lease); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil || fault != nil {
		return nil, err
	}
	slices.SortStableFunc(ms, func(a, b orchestrator.Message) int { return interruptsFirst(&a) - interruptsFirst(&b) })
	return ms, nil
}

// interruptsFirst is a sort key that puts messages with the action interrupt first, in the order of ReadingOrder.
func interruptsFirst(m *orchestrator.Message) int {
	if m.Action == "interrupt" {
		return 0
	}
	return 1
}
