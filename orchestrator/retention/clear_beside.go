package retention

import (
	"context"
	"math"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// clearBeside deletes what is beside the messages and was over before cutoff, and returns how many rows that was.
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

// clearRows deletes the rows of a table that fulfil a condition. They are looked for without the write lock, and asked
// again with it.
func clearRows(ctx context.Context, l *ledger.Ledger, table, over, cutoff string) (n int64, err error) {
	for last := int64(math.MinInt64); ; orchestrator.Pause(ctx, orchestrator.ClearPause) {
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		rows, err := ledger.Ask(ctx, l, func(c *store.Conn) ([]int64, error) {
			return store.List(c, func(row store.Row) int64 { return row.Int(0) },
				`SELECT rowid FROM `+table+` WHERE rowid > ?2 AND `+over+` ORDER BY rowid LIMIT +?3`, cutoff, last, clearBatch)
		})
		if err != nil || len(rows) == 0 {
			return n, err
		}
		last = rows[len(rows)-1]
		var deleted int64
		err = l.Write(ctx, store.Shared.In(store.Clearing), func(t *ledger.Tx) (err error) {
			if err := t.SetBatch(rows...); err != nil {
				return err
			}
			t.KeepSpan()
			deleted, err = t.Exec(`DELETE FROM `+table+` WHERE `+over+` AND rowid IN (SELECT seq FROM temp.batch)`, cutoff)
			return err
		})
		n += deleted
		if err != nil {
			return n, err
		}
	}
}
