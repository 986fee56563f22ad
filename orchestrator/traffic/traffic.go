// Package traffic counts the events of messages: how many were sent, delivered, read and given up in each minute and
// hour, and how long that took. It counts from message_trace, some time after the events, so that no send waits for
// it. A report also counts the events that are not counted yet. So the counts are exact for everything in the trace
// at that time, and they survive whatever the trace survives.
package traffic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

const (
	minute = "minute"
	hour   = "hour"

	// KeepMinutes is how long the counts by the minute are kept. Source: door.md, "stats".
	KeepMinutes = 48 * time.Hour

	// KeepHours is how long the counts by the hour are kept.
	KeepHours = 90 * orchestrator.Day
)

// The following keys of the table settings record the progress of the counting. countedKey holds the id of the last
// counted row of message_trace. sinceKey holds the time since which no counted row was deleted from message_trace.
const (
	countedKey = "traffic.counted"
	sinceKey   = "traffic.since"
)

// batch bounds the rows of message_trace that are counted at once. often is the number of uncounted events at which a
// delivery run counts. Fewer events are left to the next report, which counts them in some 10 ms.
const (
	batch = 5000
	often = 1000
)

// Part returns the part of the ledger that package traffic adds: a delivery run counts once a minute, or after so
// many events.
func Part() *ledger.Part {
	return &ledger.Part{Name: "traffic", Errand: &ledger.Errand{Due: due, Do: countDue}}
}

// countDue counts if counting is due.
func countDue(ctx context.Context, l *ledger.Ledger) {
	is, err := ledger.ReadValue(ctx, l, func(c *store.Conn) (bool, error) { return due(c, l.Now()) })
	if err == nil && is {
		_, err = countBatches(ctx, l, 4) // a delivery run must not wait for a year's trace
	}
	if err != nil && ctx.Err() == nil {
		l.Log.Warn("cannot count traffic", "error", err)
	}
}

// due reports whether many events have not been counted, or one that is older than a minute.
func due(c *store.Conn, now time.Time) (bool, error) {
	counted, err := countedOf(c)
	if orchestrator.CodeOf(err) == orchestrator.Conflict {
		return false, nil // stats returns the error; deliveries continue
	}
	if err != nil {
		return false, err
	}
	var is bool
	err = c.Query(`SELECT (SELECT max(id) FROM message_trace),
		coalesce((SELECT at FROM message_trace WHERE id > ?1 ORDER BY id LIMIT 1), '')`,
		func(row store.Row) error {
			at := row.Text(1)
			is = row.Int(0)-counted >= often || at != "" && at < orchestrator.Stamp(now.Add(-time.Minute))
			return nil
		}, counted)
	return is, err
}

// countedOf returns the id of the last counted row of message_trace. Error: conflict if the setting holds anything
// else.
func countedOf(c *store.Conn) (int64, error) {
	text, there, err := c.Text(`SELECT value FROM settings WHERE key = '` + countedKey + `'`)
	if err != nil || !there {
		return 0, err
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 0 || id > store.MaxNumber {
		return 0, orchestrator.Errorf(orchestrator.Conflict,
			"the row %s of settings must contain the number of a row of message_trace, but contains %q", countedKey, text).
			WithHint("To count again, run `mailroom recount`")
	}
	return id, nil
}

// errMoved means that another process has counted in the meantime.
var errMoved = errors.New("counted meanwhile")

// Count counts all events that are not counted yet, one batch per transaction, and deletes counts that are too old.
// Several processes may call it at the same time.
func Count(ctx context.Context, l *ledger.Ledger) error {
	for more := true; more; {
		var err error
		if more, err = countBatches(ctx, l, 100); err != nil {
			return err
		}
	}
	return nil
}

// countBatches counts up to the given number of batches. more reports whether there may be others.
func countBatches(ctx context.Context, l *ledger.Ledger, batches int) (more bool, err error) {
	for range batches {
		var from, to int64
		var f fold
		settled, err := store.SettledIn(ctx, l.Store)
		if err != nil {
			return false, err
		}
		err = l.Read(ctx, func(c *store.Conn) (err error) {
			if from, err = countedOf(c); err == nil {
				f, to, err = foldAfter(c, from, settled.Events, batch)
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
			return countedTo(t, to)
		})
		if err != nil && !errors.Is(err, errMoved) {
			return false, err
		}
	}
	return true, nil
}

// countedTo records that the trace is counted up to row last, and deletes counts that are too old.
func countedTo(t *ledger.Tx, last int64) error {
	for span, keep := range map[string]time.Duration{minute: KeepMinutes, hour: KeepHours} {
		if err := t.Run(`DELETE FROM traffic WHERE span = ?1 AND at < ?2`, span,
			orchestrator.Stamp(t.Clock.Add(-keep))); err != nil {
			return err
		}
	}
	return t.Run(store.StoreSetting, countedKey, fmt.Sprint(last), t.Now)
}

// clearedBefore returns the time before which traces were deleted, or "" if none were.
func clearedBefore(c *store.Conn) (string, error) {
	before, _, err := c.Text(`SELECT value FROM settings WHERE key = '` + sinceKey + `'`)
	return before, err
}

// Cleared records that traces which ended before that time are about to be deleted. Recount does not change the
// counts of that time.
func Cleared(t *ledger.Tx, before string) error {
	since, err := clearedBefore(t.Conn)
	if err != nil || since >= before {
		return err
	}
	return t.Run(store.StoreSetting, sinceKey, before, t.Now)
}

// Recount counts again what happened since the last time for which traces were deleted. Older counts stay as they
// are. It reads the trace without the write lock, except for the rows written in the meantime.
func Recount(ctx context.Context, l *ledger.Ledger) error {
	all, last, minutes := fold{}, int64(0), orchestrator.Stamp(l.Now().Add(-KeepMinutes))
	settled, err := store.SettledIn(ctx, l.Store)
	if err != nil {
		return err
	}
	more := func(c *store.Conn) (bool, error) {
		f, to, err := foldAfter(c, last, settled.Events, batch)
		if err != nil || to == last {
			return false, err
		}
		maps.DeleteFunc(f, func(k key, _ *row) bool { return k.span == minute && k.at < minutes })
		all.addAll(f)
		last = to
		return true, nil
	}
	for {
		if is, err := ledger.ReadValue(ctx, l, more); err != nil {
			return err
		} else if !is {
			break
		}
	}
	return l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		settled.Events = math.MaxInt64 // no other request writes
		for is := true; is; {
			var err error
			if is, err = more(t.Conn); err != nil {
				return err
			}
		}
		text, err := clearedBefore(t.Conn)
		if err != nil {
			return err
		}
		since := "" // beginning of the first whole hour
		if at := orchestrator.ParseStamp(text); !at.IsZero() {
			since = orchestrator.Stamp(at.Add(time.Hour - 1).Truncate(time.Hour))
		}
		if err := t.Run(`DELETE FROM traffic WHERE at >= ?1`, since); err != nil {
			return err
		}
		maps.DeleteFunc(all, func(k key, _ *row) bool { return k.at < since })
		if err := all.save(t); err != nil {
			return err
		}
		return countedTo(t, last)
	})
}
