package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"
)

// plainQueue is a small queue in SQLite as commonly built: one table, one connection of database/sql, and one
// transaction for each message sent, taken and removed. It has no trace, no inbox and no idempotency.
type plainQueue struct{ db *sql.DB }

const plainSchema = `
CREATE TABLE messages (
    id       TEXT PRIMARY KEY DEFAULT ('m_' || lower(hex(randomblob(16)))),
    created  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ')),
    queue    TEXT NOT NULL,
    body     BLOB NOT NULL,
    timeout  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ')),
    received INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX messages_queue ON messages (queue, created);`

// openPlainQueue creates a queue. synchronous is FULL or NORMAL.
func (r *Run) openPlainQueue(synchronous string) *plainQueue {
	address := url.URL{Scheme: "file", OmitHost: true, Path: filepath.Join(r.Dir, "plain.db"), RawQuery: url.Values{
		"_journal_mode": {"WAL"}, "_synchronous": {synchronous}, "_busy_timeout": {"5000"}, "_txlock": {"immediate"},
	}.Encode()}
	db := must(sql.Open("sqlite3", address.String()))
	r.after(db.Close)
	db.SetMaxOpenConns(1)
	must(db.ExecContext(r.ctx, plainSchema))
	return &plainQueue{db}
}

// send adds n messages to the queues of these recipients in turn.
func (q *plainQueue) send(ctx context.Context, n int, recipients ...string) error {
	return q.inTransaction(ctx, func(tx *sql.Tx) error {
		for i := range n {
			to := recipients[i%len(recipients)]
			_, err := tx.ExecContext(ctx, `INSERT INTO messages (queue, body) VALUES (?, ?)`, to, []byte(letterPayload))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// take claims the oldest message of a queue for a minute, and then removes the message at once.
func (q *plainQueue) take(ctx context.Context, recipient string) error {
	var id string
	var body []byte
	err := q.inTransaction(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `
			UPDATE messages SET timeout = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+60 seconds'), received = received + 1
			WHERE id = (SELECT id FROM messages WHERE queue = ? AND timeout <= strftime('%Y-%m-%dT%H:%M:%fZ')
				AND received < 3
			            ORDER BY created LIMIT 1)
			RETURNING id, body`, recipient).Scan(&id, &body)
	})
	if err != nil {
		return err
	}
	return q.inTransaction(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM messages WHERE id = ?`, id)
		return err
	})
}

func (q *plainQueue) inTransaction(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func plainSends(n int, synchronous string) func(*Run) Measures {
	return func(r *Run) Measures {
		q := r.openPlainQueue(synchronous)
		return r.measureSends(n, func(int) error { return q.send(r.ctx, 1, "recipient") })
	}
}

// plainDelivers measures taking messages from a backlog, one after another, for three seconds.
func plainDelivers(synchronous string) func(*Run) Measures {
	return func(r *Run) Measures {
		q, recipients, backlog := r.openPlainQueue(synchronous), numbered("worker", 10), r.scaled(100_000, 20_000)
		check(q.send(r.ctx, backlog, recipients...))
		must(q.db.ExecContext(r.ctx, "PRAGMA wal_checkpoint(TRUNCATE)"))
		window, began := r.scaledTime(3*time.Second, 300*time.Millisecond), time.Now()
		return r.rate(func() (taken int) {
			for ; time.Since(began) < window && taken < backlog; taken++ {
				check(q.take(r.ctx, recipients[taken%10]))
			}
			return taken
		})
	}
}
