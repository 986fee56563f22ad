// Package traffic counts what happens to messages: how many were sent, delivered, read and given up in each minute and hour, and
// how long that took. It counts from message_trace, some time after the fact, so that no send waits for it; what it has not
// counted yet it counts when it is asked. So the counts are exact, and survive whatever the trace survives.
package traffic

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

const (
	minute = "minute"
	hour   = "hour"

	// KeepMinutes is how long the counts of a minute are kept. Source: door.md, "stats".
	KeepMinutes = 48 * time.Hour

	// KeepHours is how long the counts of an hour are kept.
	KeepHours = 90 * orchestrator.Day
)

// countedKey is the row of settings that has the id of the last row of message_trace that is counted.
const countedKey = "traffic.counted"

// batch bounds the rows of message_trace that are counted at once.
const batch = 5000

// Part returns what traffic adds: whoever delivers counts, once a minute or after so many events.
func Part() *ledger.Part {
	return &ledger.Part{Name: "traffic", Errand: &ledger.Errand{Due: due, Do: countDue}}
}

// countDue counts if it is time.
func countDue(ctx context.Context, l *ledger.Ledger) {
	is, err := ledger.Ask(ctx, l, func(c *store.Conn) (bool, error) { return due(c, l.Now()) })
	if err == nil && is {
		_, err = countBatches(ctx, l, 4) // a delivery run must not wait for a year's trace
	}
	if err != nil && ctx.Err() == nil {
		l.Log.Warn("traffic could not be counted", "error", err)
	}
}

// due reports whether a batch of events has not been counted, or one that is older than a minute.
func due(c *store.Conn, now time.Time) (bool, error) {
	counted, err := countedOf(c)
	if err != nil {
		return false, err
	}
	var is bool
	err = c.Query(`SELECT (SELECT max(id) FROM message_trace), coalesce((SELECT at FROM message_trace WHERE id > ?1 ORDER BY id LIMIT 1), '')`,
		func(row store.Row) error {
			at := row.Text(1)
			is = row.Int(0) >= counted+batch || at != "" && at < orchestrator.Stamp(now.Add(-time.Minute))
			return nil
		}, counted)
	return is, err
}

// countedOf returns the id of the last row of message_trace that is counted.
func countedOf(c *store.Conn) (int64, error) {
	text, _, err := c.Text(`SELECT value FROM settings WHERE key = '` + countedKey + `'`)
	if err != nil {
		return 0, err
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, nil // nothing is, or somebody has written something else there
	}
	return id, nil
}

// errMoved says that another process has counted meanwhile.
var errMoved = errors.New("counted meanwhile")

// Count counts all events that are not counted yet, a batch in a transaction, and deletes the counts that are too old. Several
// processes may call it at once.
func Count(ctx context.Context, l *ledger.Ledger) error {
	for more := true; more; {
		var err error
		if more, err = countBatches(ctx, l, 100); err != nil {
			return err
		}
	}
	return nil
}

// countBatches counts so many batches. more says that there may be others.
func countBatches(ctx context.Context, l *ledger.Ledger, batches int) (more bool, err error) {
	for range batches {
		var from, to int64
		var f fold
		err := l.Read(ctx, func(c *store.Conn) (err error) {
			if from, err = countedOf(c); err == nil {
				f, to, err = foldAfter(c, from, batch)
			}
			return err
		})
		if err != nil || to == from {
			return false, err
		}
		err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
			t.Quiet = true
			if now, err := countedOf(t.Conn); err != nil || now != from {
				return errors.Join(errMoved, err)
			}
			if err := f.save(t); err != nil {
				return err
			}
			for span, keep := range map[string]time.Duration{minute: KeepMinutes, hour: KeepHours} {
				if err := t.Run(`DELETE FROM traffic WHERE span = ?1 AND at < ?2`, span, orchestrator.Stamp(t.Clock.Add(-keep))); err != nil {
					return err
				}
			}
			return t.Run(store.StoreSetting, countedKey, fmt.Sprint(to), t.Now)
		})
		if err != nil && !errors.Is(err, errMoved) {
			return false, err
		}
	}
	return true, nil
}

// Recount counts anew what is as recent as the traces that are kept. What is older stays as it is.
func Recount(ctx context.Context, l *ledger.Ledger) error {
	if err := Count(ctx, l); err != nil {
		return err
	}
	conf, err := l.Configuration(ctx)
	if err != nil {
		return err
	}
	// The trace of a message is deleted as a whole, once the message has been gone for long enough.
	since := l.Now().Add(-min(conf.Settings.KeepTraces, KeepHours)).Truncate(time.Hour).Add(time.Hour)
	return l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		counted, err := countedOf(t.Conn)
		if err != nil {
			return err
		}
		all := fold{}
		for from := int64(0); from < counted; {
			f, to, err := foldAfter(t.Conn, from, min(batch, counted-from))
			if err != nil {
				return err
			}
			if to == from {
				break
			}
			all.addAll(f)
			from = to
		}
		if err := t.Run(`DELETE FROM traffic WHERE at >= ?1`, orchestrator.Stamp(since)); err != nil {
			return err
		}
		for key := range all {
			if key.at < orchestrator.Stamp(since) || key.span == minute && key.at < orchestrator.Stamp(t.Clock.Add(-KeepMinutes)) {
				delete(all, key)
			}
		}
		return all.save(t)
	})
}
