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

// beside are the rows beside the messages that mean nothing any more; ?1 is the cutoff.
var beside = []struct {
	table, over string
	idle        bool // its cutoff is never later than the setting retention.ended: it is about what is going on
}{
	{table: "threads", over: `closed_at <> '' AND closed_at < ?1
		AND NOT EXISTS (SELECT 1 FROM agent_message m WHERE m.thread_id = threads.thread_id)
		AND NOT EXISTS (SELECT 1 FROM agent_message_archive a WHERE a.thread_id = threads.thread_id)`},
	{table: "thread_participants", over: `joined_at < ?1
		AND NOT EXISTS (SELECT 1 FROM threads h WHERE h.thread_id = thread_participants.thread_id)`},
	{table: "team_requests", over: `created_at < ?1 AND (answered_at <> '' AND answered_at < ?1
		OR NOT EXISTS (SELECT 1 FROM agent_message m WHERE m.message_id = team_requests.message_id)
		AND NOT EXISTS (SELECT 1 FROM agent_message_archive a WHERE a.message_id = team_requests.message_id))`},
	{table: "presence", idle: true, over: `seen_at < ?1
		AND NOT EXISTS (SELECT 1 FROM presence o WHERE o.session_id = presence.session_id AND o.seen_at >= ?1)
		AND NOT EXISTS (SELECT 1 FROM threads h WHERE h.session_id = presence.session_id AND (h.status = 'open' OR h.closed_at >= ?1))`},
	{table: "signal_questions", over: `ended_at <> '' AND ended_at < ?1`},
	{table: "signal_alerts", over: `created_at < ?1`},
	{table: "signal_pairings", over: `expires_at < ?1`},
	{table: "tokens", over: `(revoked_at <> '' AND revoked_at < ?1 OR expires_at <> '' AND expires_at < ?1)`},
}

// clearBeside deletes what is beside the messages and was over before cutoff, and returns how many rows that was.
func (r *Router) clearBeside(ctx context.Context, cutoff, idle string) (n int64, err error) {
	for _, b := range beside {
		before := cutoff
		if b.idle {
			before = idle
		}
		deleted, err := r.clearRows(ctx, b.table, b.over, before)
		n += deleted
		if err != nil {
			return n, err
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
