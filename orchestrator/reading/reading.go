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

// readUnread returns unread messages of an inbox. It marks them as read, or as shown under a lease, unless Peek is
// set.
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
			lease.For = 0 // a message written into the inbox by hand could never be acknowledged
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

// fitting returns how many of the messages the reader takes, judged by their state when they are handed out.
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

// takeUnread lists the unread messages of an inbox. A row that somebody wrote into the inbox by hand, without a
// message, counts as a message of which only the payload is known.
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

// unreadMessages selects the messages to read first by a few columns and only then fetches them, so that a large
// inbox is not sorted with its payloads. It finds them by the ids in the inbox, not among all messages that the
// recipient has ever received. more reports whether there are others.
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

// withUnreadPosts adds unread posts to the messages of a wait, within its limits, and records that they were read.
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

// notWritten is the reason for making a message unread again that was handed out and not given back by its reader.
const notWritten = "the answer could not be written; unread again"

// notMarked is the reason for making a message unread again although its answer was written.
const notMarked = "a trigger prevents marking the message as read; unread again"

// Written records that the answer was written with messages that Wait returned under a lease with a Writer. The
// messages are then read, or stay under the rest of their lease. Messages that have been given back, acknowledged or
// cleared away meanwhile do not change. A power cut may undo the record; the messages are then unread again. The
// functions also run in the same transaction, if anything is recorded.
func Written(ctx context.Context, l *ledger.Ledger, ms []orchestrator.Message, lease messages.ReadingLease,
	also ...func(t *ledger.Tx) error) error {
	var readers []string
	for i := range ms {
		if ms[i].ShownAt != "" { // others are posts after the first of their thread, which has the lease
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

// WrittenIn does the work of Written within a transaction whose scope includes the messages' readers.
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

// Unread makes messages unread again that Wait, or the Wait of package letters, has returned and the caller cannot
// use, for instance because its own reader is gone. The next reader gets them. A message that was acknowledged
// meanwhile, or read again, has reached a reader and stays read.
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

// maxHandOver is the maximum number of messages that handOver takes.
const maxHandOver = 8

// handOver delivers due messages to a recipient and hands them out one by one. For a few messages it needs half the
// statements of deliverForReading and readUnread, which matters to a waiter that was just rung for one message and
// runs all of them cold. The resulting rows are the same. It does nothing unless it would handle all messages to
// read: the inbox has no unread messages, and no more messages are due than may be read at once, by count and by
// size, and than fit. It also leaves a row that cannot be delivered to deliverForReading.
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

// interruptsFirst returns a sort key that puts messages with the action interrupt first, as ReadingOrder does.
func interruptsFirst(m *orchestrator.Message) int {
	if m.Action == "interrupt" {
		return 0
	}
	return 1
}
