package exports

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing/otlp"
)

// name is the key of the exporter's row in the table exports.
const name = "otlp"

// maxWaiting bounds the unfinished commands for which the exporter waits. A command that was killed never ends. Its
// row is waited for until retention deletes it, or until maxWaiting newer commands wait.
const maxWaiting = 1000

// cursor is the position up to which the traces were sent.
type cursor struct {
	events, spans   int64   // ids up to which everything was sent
	waiting         []int64 // ids up to spans of commands that had not ended
	refused, missed int64
	sentAt          string
}

func (c *cursor) equal(o *cursor) bool {
	return c.events == o.events && c.spans == o.spans && slices.Equal(c.waiting, o.waiting)
}

// lease holds the exporter's row of the table exports.
type lease struct {
	cursor
	owner, token, until string
}

// free reports whether the lease can be taken: it has expired, its process is dead, or its end is so far in the
// future that it must have been written before a clock was set back. The clocks of two hosts may differ by as much as
// a lease is long.
func (r *lease) free(l *ledger.Ledger, now time.Time) bool {
	return r.until <= orchestrator.Stamp(now) || r.until > orchestrator.Stamp(now.Add(2*longestLease)) ||
		l.Store.Gone(r.token)
}

func leaseIn(c *store.Conn) (r lease, found bool, err error) {
	return store.First(c, func(row store.Row) lease {
		r := lease{
			cursor: cursor{events: row.Int(0), spans: row.Int(1), refused: row.Int(3), missed: row.Int(4),
				sentAt: row.Text(5)},
			owner: row.Text(6), token: row.Text(7), until: row.Text(8),
		}
		_ = json.Unmarshal([]byte(row.Text(2)), &r.waiting) // the row may have been changed by hand
		if min(r.events, r.spans) < 0 || max(r.events, r.spans) > store.MaxNumber {
			r.events, r.spans = -1, 0 // out of range: everything is sent again
		}
		return r
	}, `SELECT events, spans, waiting, refused, missed, sent_at, lease_owner, lease_token, lease_until FROM exports
		WHERE name = ?`, name)
}

// take takes the lease if it is free, and reads the cursor. It first looks without the write lock.
func (e *exporter) take(ctx context.Context) (taken bool, err error) {
	e.token = ""
	free, err := ledger.ReadValue(ctx, e.ledger, func(c *store.Conn) (bool, error) {
		r, found, err := leaseIn(c)
		return !found || r.free(e.ledger, e.ledger.Now()), err
	})
	if err != nil || !free {
		return false, err
	}
	var token, database string
	var at cursor
	until := time.Now().Add(e.lease)
	err = e.ledger.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		token = ""
		r, found, err := leaseIn(t.Conn)
		if err != nil || found && !r.free(e.ledger, t.Clock) {
			return err
		}
		id, err := t.NewID("")
		if err != nil {
			return err
		}
		if database, _, err = t.Text(`SELECT value FROM settings WHERE key = '` + store.DatabaseID + `'`); err != nil {
			return err
		}
		at, token = r.cursor, e.ledger.Store.Token(id)
		if !found || at.events < 0 { // nothing was sent yet, so rows deleted before do not count as missed
			if at.events, err = t.Number(`SELECT coalesce(min(id), 1) - 1 FROM message_trace
				WHERE id > 0`); err != nil {
				return err
			}
		}
		return t.Run(`
			INSERT INTO exports (name, lease_owner, lease_token, lease_until, events, spans)
				VALUES (?1, ?2, ?3, ?4, ?5, ?6)
			ON CONFLICT (name) DO UPDATE SET lease_owner = excluded.lease_owner, lease_token = excluded.lease_token,
			    lease_until = excluded.lease_until, events = excluded.events, spans = excluded.spans`,
			name, e.ledger.Instance(), token, orchestrator.Stamp(t.Clock.Add(e.lease)), at.events, at.spans)
	})
	if err != nil || token == "" {
		return false, err
	}
	e.token, e.until, e.database, e.at = token, until, database, at
	e.log.Info("sending traces", "otlp", e.options.Target(), "after_event", at.events, "after_command", at.spans)
	if e.client == nil {
		e.client, err = otlp.NewClient(e.options, otlp.Text("service.name", "mailroom"),
			otlp.Text("service.version", e.version),
			otlp.Text("service.instance.id", otlp.TraceID(database, "database")))
	}
	return err == nil, err
}

// renew extends the lease once half of it has passed.
func (e *exporter) renew(ctx context.Context) error {
	if time.Until(e.until) > e.lease/2 {
		return nil
	}
	return e.store(ctx, e.at)
}

// store stores the cursor and renews the lease. If another process has the lease, or the stored cursor has changed,
// for instance by a restore, store stores nothing and drops the lease.
func (e *exporter) store(ctx context.Context, at cursor) error {
	waiting, err := json.Marshal(append([]int64{}, at.waiting...))
	if err != nil {
		return err
	}
	rows, until := int64(0), time.Now().Add(e.lease)
	err = e.ledger.Write(ctx, store.Shared, func(t *ledger.Tx) (err error) {
		rows, err = t.Exec(`
			UPDATE exports SET events = ?3, spans = ?4, waiting = ?5, refused = ?6, missed = ?7, sent_at = ?8,
				lease_until = ?9
			WHERE name = ?1 AND lease_token = ?2 AND events = ?10 AND spans = ?11`,
			name, e.token, at.events, at.spans, string(waiting), at.refused, at.missed, at.sentAt,
			orchestrator.Stamp(t.Clock.Add(e.lease)),
			e.at.events, e.at.spans)
		return err
	})
	if err != nil {
		return err
	}
	if rows == 0 {
		e.token = ""
		e.log.Warn("this daemon has stopped sending traces: another daemon sends them, or a backup was restored", "otlp",
			e.options.Target())
		return nil
	}
	if n := at.missed - e.at.missed; n > 0 {
		e.log.Warn("part of the trace will not be sent: events were deleted before they were sent, or too many commands had not ended",
			"rows", n, "in_all", at.missed)
	}
	e.at, e.until = at, until
	return nil
}

// release ends the lease, so that another daemon need not wait until it expires.
func (e *exporter) release(ctx context.Context) {
	if e.token == "" {
		return
	}
	ctx, cancel := ledger.Afterwards(ctx, nil, time.Second)
	defer cancel()
	err := e.ledger.Write(ctx, store.Shared, func(t *ledger.Tx) error {
		return t.Run(`UPDATE exports SET lease_token = '', lease_until = '' WHERE name = ? AND lease_token = ?`, name,
			e.token)
	})
	if err != nil {
		e.log.Debug("cannot end the lease for sending traces", "error", err)
	}
	e.token = ""
}
