package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"
)

// plainQueue is a queue in SQLite as the small ones are built: one table, one connection of database/sql, one transaction
// for each message sent, taken and removed. It has no trace, no inbox and no idempotency.
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

// openPlainQueue makes a queue. synchronous is FULL or NORMAL.
func openPlainQueue(ctx context.Context, env Env, synchronous string) (*plainQueue, error) {
	address := url.URL{Scheme: "file", OmitHost: true, Path: filepath.Join(env.Dir, "plain.db"), RawQuery: url.Values{
		"_journal_mode": {"WAL"}, "_synchronous": {synchronous}, "_busy_timeout": {"5000"}, "_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite3", address.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, plainSchema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &plainQueue{db}, nil
}

func (q *plainQueue) send(ctx context.Context, recipient string) error {
	return q.inTransaction(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO messages (queue, body) VALUES (?, ?)`, recipient, []byte(letterPayload))
		return err
	})
}

// take claims the oldest message of a queue for a minute, and removes it when it has been worked on: at once.
func (q *plainQueue) take(ctx context.Context, recipient string) error {
	var id string
	var body []byte
	err := q.inTransaction(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `
			UPDATE messages SET timeout = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+60 seconds'), received = received + 1
			WHERE id = (SELECT id FROM messages WHERE queue = ? AND timeout <= strftime('%Y-%m-%dT%H:%M:%fZ') AND received < 3
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

func plainSends(n int, synchronous string) func(context.Context, Env) (Measures, error) {
	return func(ctx context.Context, env Env) (Measures, error) {
		q, err := openPlainQueue(ctx, env, synchronous)
		if err != nil {
			return nil, err
		}
		m, err := measureSends(ctx, env, n, func(int) error { return q.send(ctx, "recipient") })
		return m, errors.Join(err, q.db.Close())
	}
}

// plainDeliver takes messages from a backlog, one after the other, for three seconds.
func plainDeliver(synchronous string) func(context.Context, Env) (Measures, error) {
	return func(ctx context.Context, env Env) (Measures, error) {
		q, err := openPlainQueue(ctx, env, synchronous)
		if err != nil {
			return nil, err
		}
		recipients, backlog := numbered("worker", 10), scaled(env, 100_000, 20_000)
		err = q.inTransaction(ctx, func(tx *sql.Tx) error {
			for i := range backlog {
				if _, err := tx.ExecContext(ctx, `INSERT INTO messages (queue, body) VALUES (?, ?)`, recipients[i%10], []byte(letterPayload)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("filling the queue: %w", err)
		}
		if _, err := q.db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			return nil, err
		}
		window, taken, began := scaledTime(env, 3*time.Second, 300*time.Millisecond), 0, time.Now()
		for ; time.Since(began) < window && taken < backlog; taken++ {
			if err := q.take(ctx, recipients[taken%10]); err != nil {
				return nil, err
			}
		}
		took := time.Since(began)
		return Measures{"rate_per_s": float64(taken) / took.Seconds()}, q.db.Close()
	}
}
