package orchestrator

import (
	"context"
	"math"

	"mailroom/orchestrator/store"
)

// closedPosts are the posts, as m, of threads that were closed before ?1. CROSS, since SQLite would walk all posts there are.
const closedPosts = ` FROM threads h CROSS JOIN agent_message m ON m.thread_id = h.thread_id
	WHERE h.closed_at <> '' AND h.closed_at < ?1 AND m.recipient = '` + ThreadPrefix + `' || h.thread_id
	  AND m.status = 'delivered' AND m.ended_at = ''`

// clearPosts archives the posts of threads that were closed before cutoff. They are looked for without the write lock.
func (r *Router) clearPosts(ctx context.Context, cutoff string, done func(n int64, removed map[Status]int64)) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		seqs, err := r.numbers(ctx, `SELECT m.seq`+closedPosts+` LIMIT +?2`, cutoff, clearBatch)
		if err != nil || len(seqs) == 0 {
			return err
		}
		var removed map[Status]int64
		err = r.write(ctx, func(t *tx) error {
			t.removed = map[Status]int64{}
			removed = t.removed
			if err := t.setBatch(seqs...); err != nil {
				return err
			}
			if _, err := t.Exec(`UPDATE agent_message SET ended_at = coalesce(delivered_at, created_at, '') WHERE seq IN (SELECT seq FROM temp.batch)`); err != nil {
				return err
			}
			return t.clearBatch()
		})
		if err != nil {
			return err
		}
		done(removed[Delivered], removed)
		pause(ctx, clearPause)
	}
}

// clearBeside deletes what is beside the messages and was over before cutoff, and returns how many rows that was.
func (r *Router) clearBeside(ctx context.Context, cutoff, idle string) (n int64, err error) {
	for _, p := range r.parts {
		for _, rows := range p.Over {
			before := cutoff
			if rows.Idle {
				before = idle
			}
			deleted, err := r.clearRows(ctx, rows.Table, rows.Over, before)
			n += deleted
			if err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// clearRows deletes the rows of a table that fulfil a condition. They are looked for without the write lock, and asked
// again with it.
func (r *Router) clearRows(ctx context.Context, table, over, cutoff string) (n int64, err error) {
	for last := int64(math.MinInt64); ; pause(ctx, clearPause) {
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		rows, err := r.numbers(ctx, `SELECT rowid FROM `+table+` WHERE rowid > ?2 AND `+over+` ORDER BY rowid LIMIT +?3`, cutoff, last, clearBatch)
		if err != nil || len(rows) == 0 {
			return n, err
		}
		last = rows[len(rows)-1]
		var deleted int64
		err = r.write(ctx, func(t *tx) error {
			deleted = 0
			for _, row := range rows {
				gone, err := t.Exec(`DELETE FROM `+table+` WHERE `+over+` AND rowid = ?2`, cutoff, row)
				if err != nil {
					return err
				}
				deleted += gone
			}
			t.traced = true
			return nil
		})
		n += deleted
		if err != nil {
			return n, err
		}
	}
}

// numbers runs a query of one column of numbers.
func (r *Router) numbers(ctx context.Context, query string, args ...any) (list []int64, err error) {
	err = r.read(ctx, func(c *Conn) error {
		return c.query(query, func(row store.Row) error {
			list = append(list, row.Int(0))
			return nil
		}, args...)
	})
	return list, err
}
