// Package retention archives and deletes messages and traces that ended long enough ago.
package retention

import (
	"cmp"
	"context"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/traffic"
	"mailroom/tracing"
)

// clearBatch bounds the rows that one transaction of retention changes, so that senders never wait long and the WAL
// stays small. Source: engine.md, "Growth".
const clearBatch = 500

// ClearOptions configures ClearOld.
type ClearOptions struct {
	OlderThan time.Duration // minimum age of ended messages; 0: the setting retention.ended
	Progress  func(done, total int64)
}

// Cleared counts what ClearOld removed.
type Cleared struct {
	Deleted        int64                         // rows that left agent_message, archived ones included
	Statuses       map[orchestrator.Status]int64 // the same by status
	ArchiveDeleted int64                         // rows that left the archive
	// FreedBytes is the space given back to the file system, measured after a checkpoint; never negative.
	FreedBytes int64
}

// ClearOld moves delivered messages that are old enough to the archive, deletes failed, expired and cancelled ones
// with a note of each in the trace, and deletes what has been in the archive for long enough. It also deletes
// threads, requests, presences and tokens that are over, and the files that attempts have left behind. Then it gives
// free space back to the file system. ClearOld works in small transactions, so that senders need not wait for it. It
// can be interrupted and run again.
func ClearOld(ctx context.Context, l *ledger.Ledger, o ClearOptions) (Cleared, error) {
	cleared := Cleared{Statuses: map[orchestrator.Status]int64{orchestrator.Delivered: 0, orchestrator.Failed: 0,
		orchestrator.Expired: 0, orchestrator.Cancelled: 0}}
	conf, err := l.Configuration(ctx)
	if err != nil {
		return cleared, err
	}
	age := cmp.Or(o.OlderThan, conf.Settings.KeepEnded)
	before, _ := l.Size()
	if err := delivery.TidyAll(ctx, l); err != nil {
		return cleared, err
	}
	cutoff := orchestrator.Stamp(l.Now().Add(-age))
	total, err := countEnded(ctx, l, cutoff)
	if err != nil {
		return cleared, err
	}
	done := func(n int64, removed map[orchestrator.Status]int64) {
		cleared.Deleted += n
		for status, n := range removed {
			cleared.Statuses[status] += n
		}
		if o.Progress != nil {
			o.Progress(cleared.Deleted, total)
		}
	}
	targets, err := delivery.TargetsOfEnded(ctx, l, cutoff)
	if err != nil {
		return cleared, err
	}
	if err := clearMessages(ctx, l, cutoff, done); err != nil {
		return cleared, err
	}
	archived := orchestrator.Stamp(l.Now().Add(-conf.Settings.KeepArchived))
	err = pastStuck(ctx, l, func(limit, skip int64) (n int64, fault, err error) {
		return removeRows(ctx, l, func(t *ledger.Tx) (int64, error) { return clearArchive(t, archived, limit, skip) })
	}, func(n int64) { cleared.ArchiveDeleted += n })
	if err != nil {
		return cleared, err
	}
	// Presence is recorded to the day.
	idle := orchestrator.Stamp(l.Now().Add(-max(age, conf.Settings.KeepEnded) - orchestrator.Day))
	beside, err := clearBeside(ctx, l, cutoff, idle)
	if err != nil {
		return cleared, err
	}
	delivery.ClearStaged(ctx, l, targets...)
	if cleared.Deleted+cleared.ArchiveDeleted+beside > 0 {
		if err := l.Shrink(ctx); err != nil {
			return cleared, err
		}
	}
	after, _ := l.Size()
	cleared.FreedBytes = max(0, before-after)
	return cleared, nil
}

// countEnded returns how many rows clearMessages will remove.
func countEnded(ctx context.Context, l *ledger.Ledger, cutoff string) (int64, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (int64, error) {
		return c.Number(`SELECT (SELECT count(*) FROM agent_message WHERE ended_at <> '' AND ended_at < ?1)
			+ (SELECT count(*)`+closedPosts+`)`, cutoff)
	})
}

// inBatches runs step in one transaction after another, with a pause between them, until a transaction touches fewer
// rows than a batch.
func inBatches(ctx context.Context, l *ledger.Ledger, step func(t *ledger.Tx) (int64, error),
	done func(n int64)) error {
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		var n int64
		err := l.Write(ctx, store.Alone, func(t *ledger.Tx) (err error) {
			n, err = step(t)
			return err
		})
		if err != nil {
			return err
		}
		done(n)
		if n < clearBatch {
			return nil
		}
		orchestrator.Pause(ctx, orchestrator.ClearPause)
	}
}

// maxStuck is the number of rows that cannot be removed after which pastStuck gives up.
const maxStuck = 2 * clearBatch

// pastStuck calls clear until no rows are left, with a pause between the calls. clear skips the first rows, removes a
// batch of at most limit rows, and returns the size of the batch. If the database rejects the removal of a row, for
// example because of a foreign key, fault is the reason. pastStuck then halves the batch until it has found the row,
// which stays and is skipped.
func pastStuck(ctx context.Context, l *ledger.Ledger, clear func(limit, skip int64) (n int64, fault, err error),
	done func(n int64)) error {
	limit, stuck := int64(clearBatch), int64(0)
	for ; ; orchestrator.Pause(ctx, orchestrator.ClearPause) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, fault, err := clear(limit, stuck)
		switch {
		case err != nil:
			return err
		case fault == nil:
			if done(n); n < limit {
				return nil
			}
			limit = min(2*limit, clearBatch)
		case n > 1:
			limit = n / 2
		case n == 0 || stuck == maxStuck:
			return l.Store.Explain(fault)
		default:
			stuck++
			l.Log.Error("cannot remove an old row; it stays unchanged", "error", fault)
		}
	}
}

// removeRows runs fn, which removes n rows, in a transaction. If fn fails because of these rows, fault is the failure.
func removeRows(ctx context.Context, l *ledger.Ledger, fn func(*ledger.Tx) (int64, error)) (n int64, fault, err error) {
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) (err error) {
		fault, err = t.ChangeRows(func() (err error) {
			n, err = fn(t)
			return err
		})
		return err
	})
	return n, fault, err
}

// clearMessages removes the messages that ended before cutoff, and the posts of threads that were closed by then.
func clearMessages(ctx context.Context, l *ledger.Ledger, cutoff string,
	done func(n int64, removed map[orchestrator.Status]int64)) error {
	var removed map[orchestrator.Status]int64
	err := pastStuck(ctx, l, func(limit, skip int64) (n int64, fault, err error) {
		return removeRows(ctx, l, func(t *ledger.Tx) (n int64, err error) {
			n, removed, err = clearEnded(t, cutoff, limit, skip)
			return n, err
		})
	}, func(n int64) { done(n, removed) })
	if err != nil {
		return err
	}
	return clearPosts(ctx, l, cutoff, done)
}

// clearEnded removes one batch of rows that ended before cutoff, and counts them by status. It leaves out rows whose
// status another program has changed since.
func clearEnded(t *ledger.Tx, cutoff string, limit, skip int64) (n int64, removed map[orchestrator.Status]int64,
	err error) {
	if err := t.SetBatch(); err != nil {
		return 0, nil, err
	}
	n, err = t.Exec(`
		INSERT INTO temp.batch (seq) SELECT seq FROM agent_message
		WHERE ended_at <> '' AND ended_at < ? AND `+ledger.Past+` AND traced_status = status
		ORDER BY ended_at, seq LIMIT +? OFFSET +?`, cutoff, limit, skip)
	if err != nil || n == 0 {
		return n, nil, err
	}
	removed, err = clearOneBatch(t)
	return n, removed, err
}

// clearOneBatch removes the rows of temp.batch: it archives the delivered ones and deletes the rest. removed counts
// the rows by status.
func clearOneBatch(t *ledger.Tx) (removed map[orchestrator.Status]int64, err error) {
	if d, ok := t.Driver.(interface{ RenumberArchived() error }); ok { // other programs may have used their seqs
		if err := d.RenumberArchived(); err != nil {
			return nil, err
		}
	}
	removed = map[orchestrator.Status]int64{}
	// SQLite compares a bare parameter with the condition of an index on one status, and prepares the statement again
	// for each value. +? prevents that.
	for _, status := range []orchestrator.Status{orchestrator.Delivered, orchestrator.Failed, orchestrator.Expired,
		orchestrator.Cancelled} {
		count, err := t.Number(`SELECT count(*) FROM agent_message WHERE seq IN (SELECT seq FROM temp.batch)
			AND status = +?`, status)
		if err != nil {
			return nil, err
		}
		removed[status] = count
	}
	keys, err := t.KeysIn("agent_message")
	if err != nil {
		return nil, err
	}
	const delivered = "seq IN (SELECT seq FROM temp.batch) AND status = 'delivered'"
	const others = "seq IN (SELECT seq FROM temp.batch) AND status <> 'delivered'"
	if err := t.Note(ledger.Selection{Where: delivered}, tracing.Archived, ""); err != nil {
		return nil, err
	}
	if err := messages.NoteDeleted(t, "agent_message WHERE "+others); err != nil {
		return nil, err
	}
	// On a server, another program can set a row to pending at any time before it is deleted.
	for _, statement := range []string{
		`INSERT INTO agent_message_archive (` + archiveColumns + `, archived_at)
		 SELECT ` + archiveColumns + `, ?1 FROM agent_message WHERE ` + delivered,
		`DELETE FROM agent_inbox WHERE ?1 <> '' AND read_at <> '' AND (message_id, recipient) IN
		     (SELECT message_id, recipient FROM agent_message WHERE ` + delivered + `)
		   AND NOT EXISTS (SELECT 1 FROM reading_lease l WHERE l.message_id = agent_inbox.message_id AND l.recipient = agent_inbox.recipient)`,
		`DELETE FROM agent_message WHERE ?1 <> '' AND seq IN (SELECT seq FROM temp.batch) AND ` + ledger.Past,
	} {
		if err := t.Run(statement, t.Now); err != nil {
			return nil, err
		}
	}
	if err := ledger.CountArchived(t, removed[orchestrator.Delivered]); err != nil {
		return nil, err
	}
	return removed, t.DropKeys(keys)
}

// archiveColumns lists the columns that agent_message and its archive share.
const archiveColumns = `message_id, sender, recipient, message_type, payload, status, created_at, delivered_at,
	retry_count, max_retries, error_message, seq, traced_status, next_attempt_at, review_at, expires_at, ended_at,
	ttl_seconds, priority, held, summary, context, action, thread_id, session_id, reply_to, hops, multicast_id,
	multicast_target, idempotency_key, read_at, acknowledged_at, lease_token, lease_until, lease_owner, crashes,
	delivery_marks, trace_id, span_id, origin, not_before, wake`

// clearArchive removes one batch of rows that were archived before cutoff, and their inbox rows.
func clearArchive(t *ledger.Tx, cutoff string, limit, skip int64) (int64, error) {
	if err := t.SetBatch(); err != nil {
		return 0, err
	}
	n, err := t.Exec(`
		INSERT INTO temp.batch (seq) SELECT seq FROM agent_message_archive
		WHERE archived_at < ? ORDER BY archived_at, seq LIMIT +? OFFSET +?`, cutoff, limit, skip)
	if err != nil || n == 0 {
		return n, err
	}
	const batch = "seq IN (SELECT seq FROM temp.batch)"
	if err := messages.NoteDeleted(t, "agent_message_archive WHERE "+batch); err != nil {
		return n, err
	}
	keys, err := t.KeysIn("agent_message_archive")
	if err != nil {
		return n, err
	}
	for _, statement := range []string{
		`DELETE FROM agent_inbox WHERE (message_id, recipient) IN
		     (SELECT message_id, recipient FROM agent_message_archive WHERE ` + batch + `)
		   AND NOT EXISTS (SELECT 1 FROM agent_message m
		                   WHERE m.message_id = agent_inbox.message_id AND m.recipient = agent_inbox.recipient)`,
		`DELETE FROM agent_message_archive WHERE ` + batch,
	} {
		if err := t.Run(statement); err != nil {
			return n, err
		}
	}
	return n, t.DropKeys(keys)
}

// ClearTraces deletes the traces of messages that have been gone for at least olderThan, from the archive too. It
// also deletes the spans of commands, and the counts of package cost, that are as old. An olderThan of 0 means the
// setting retention.trace. The trace of a message is deleted as a whole. ClearTraces returns how many rows of
// message_trace and of command_trace it deleted.
func ClearTraces(ctx context.Context, l *ledger.Ledger, olderThan time.Duration) (messages, commands int64, err error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return 0, 0, err
	}
	cutoff := orchestrator.Stamp(l.Now().Add(-cmp.Or(olderThan, conf.Settings.KeepTraces)))
	if err := traffic.Count(ctx, l); err != nil && orchestrator.CodeOf(err) != orchestrator.Conflict {
		// A conflict means that the setting traffic.counted is damaged. The traces are deleted all the same.
		return 0, 0, err
	}
	var rows int64
	err = inBatches(ctx, l, func(t *ledger.Tx) (n int64, err error) {
		n, rows, err = clearMessageTraces(t, cutoff)
		return n, err
	}, func(int64) { messages += rows })
	if err != nil {
		return messages, 0, err
	}
	err = inBatches(ctx, l, func(t *ledger.Tx) (int64, error) {
		return t.Exec(`DELETE FROM command_trace WHERE id IN
			(SELECT id FROM command_trace WHERE started_at < ? ORDER BY started_at LIMIT +?)`, cutoff, clearBatch)
	}, func(n int64) { commands += n })
	if err == nil {
		err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error { return cost.Clear(t, cutoff) })
	}
	if err == nil && messages+commands > 0 {
		err = l.Shrink(ctx)
	}
	return messages, commands, err
}

// tracesPerBatch is how many messages' traces one transaction deletes; a message has about ten rows.
const tracesPerBatch = clearBatch / 10

// clearMessageTraces deletes the traces of one batch of messages that are gone. If another program has used an id
// again, the message with that id exists, and its trace is kept.
func clearMessageTraces(t *ledger.Tx, cutoff string) (ids, rows int64, err error) {
	gone, err := t.Texts(`
		SELECT message_id FROM message_trace g WHERE event = 'deleted' AND at < ?1
		  AND NOT EXISTS (SELECT 1 FROM agent_message m WHERE m.message_id = g.message_id)
		  AND NOT EXISTS (SELECT 1 FROM agent_message_archive a WHERE a.message_id = g.message_id)
		ORDER BY at LIMIT +?2`, cutoff, tracesPerBatch)
	if err == nil && len(gone) > 0 {
		err = traffic.Cleared(t, cutoff)
	}
	if err != nil {
		return 0, 0, err
	}
	for _, id := range gone {
		n, err := t.Exec(`DELETE FROM message_trace WHERE message_id = ?`, id)
		if err != nil {
			return 0, 0, err
		}
		rows += n
	}
	if len(gone) == tracesPerBatch {
		ids = clearBatch // there are more
	}
	return ids, rows, err
}
