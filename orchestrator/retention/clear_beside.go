package retention

import (
	"context"
	"math"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// closedPosts selects the posts, as m, of threads that were closed before ?1. Without CROSS, SQLite would walk
// through all posts.
const closedPosts = ` FROM threads h CROSS JOIN agent_message m ON m.thread_id = h.thread_id
	WHERE h.closed_at <> '' AND h.closed_at < ?1 AND m.recipient = '` + orchestrator.ThreadPrefix + `' || h.thread_id
	  AND m.status = 'delivered' AND m.ended_at = ''`

// clearPosts archives the posts of threads that were closed before cutoff, because posts have no end time of their
// own. It looks for them without the write lock, and checks with the lock that they are still delivered.
func clearPosts(ctx context.Context, l *ledger.Ledger, cutoff string,
	done func(n int64, removed map[orchestrator.Status]int64)) error {
	var removed map[orchestrator.Status]int64
	return pastStuck(ctx, l, func(limit, skip int64) (n int64, fault, err error) {
		removed = nil
		seqs, err := numbers(ctx, l, `SELECT m.seq`+closedPosts+` LIMIT +?2 OFFSET +?3`, cutoff, limit, skip)
		if err != nil || len(seqs) == 0 {
			return 0, nil, err
		}
		return removeRows(ctx, l, func(t *ledger.Tx) (n int64, err error) {
			if err = t.SetBatch(seqs...); err == nil {
				err = t.Run(`DELETE FROM temp.batch WHERE NOT EXISTS (SELECT 1 FROM agent_message m
					WHERE m.seq = batch.seq AND m.status = 'delivered' AND m.ended_at = '')`)
			}
			if err == nil {
				err = t.Run(`UPDATE agent_message SET ended_at = coalesce(delivered_at, created_at, '')
					WHERE seq IN (SELECT seq FROM temp.batch)`)
			}
			if err == nil {
				removed, err = clearOneBatch(t)
			}
			return int64(len(seqs)), err
		})
	}, func(int64) { done(removed[orchestrator.Delivered], removed) })
}

// numbers runs a query for one column of numbers, without the write lock.
func numbers(ctx context.Context, l *ledger.Ledger, query string, params ...any) ([]int64, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) ([]int64, error) {
		return store.List(c, func(row store.Row) int64 { return row.Int(0) }, query, params...)
	})
}

// clearBeside deletes the rows of other tables that were over before cutoff, and returns their number. For tables
// with Idle rows, idle replaces cutoff.
func clearBeside(ctx context.Context, l *ledger.Ledger, cutoff, idle string) (n int64, err error) {
	for _, p := range l.Parts {
		for _, rows := range p.Over {
			before := cutoff
			if rows.Idle {
				before = idle
			}
			deleted, err := clearRows(ctx, l, rows.Table, rows.Over, before)
			n += deleted
			if err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// clearRows deletes the rows of a table that meet a condition. It looks for them without the write lock, and checks
// the condition again with the lock.
func clearRows(ctx context.Context, l *ledger.Ledger, table, over, cutoff string) (n int64, err error) {
	for last := int64(math.MinInt64); ; orchestrator.Pause(ctx, orchestrator.ClearPause) {
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		rows, err := numbers(ctx, l, `SELECT rowid FROM `+table+` WHERE rowid > ?2 AND `+over+
			` ORDER BY rowid LIMIT +?3`, cutoff, last, clearBatch)
		if err != nil || len(rows) == 0 {
			return n, err
		}
		last = rows[len(rows)-1]
		var deleted int64
		err = l.Write(ctx, store.Alone, func(t *ledger.Tx) (err error) {
			if err := t.SetBatch(rows...); err != nil {
				return err
			}
			t.KeepSpan()
			deleted, err = t.Exec(`DELETE FROM `+table+` WHERE `+over+` AND rowid IN (SELECT seq FROM temp.batch)`,
				cutoff)
			return err
		})
		n += deleted
		if err != nil {
			return n, err
		}
	}
}
