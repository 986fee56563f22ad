package history

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// witness keeps a record of its own of every change to a message and to an inbox, within the transaction that makes it.
// traced is the last row of message_trace at that moment: the engine writes the trace of a change before the change
// itself, so that the trace up to there must tell of it.
const witness = `
	CREATE TABLE IF NOT EXISTS witness (
	    id              INTEGER PRIMARY KEY AUTOINCREMENT,
	    change          TEXT NOT NULL,      -- insert, update, delete; inbox, uninbox
	    message_id      TEXT NOT NULL,
	    traced          INTEGER NOT NULL,
	    status          TEXT,
	    retry_count     INTEGER,
	    crashes         INTEGER,
	    next_attempt_at TEXT,
	    lease_token     TEXT,
	    lease_owner     TEXT,
	    seq             INTEGER,            -- from here on of an insert only
	    sender          TEXT,
	    recipient       TEXT,               -- of an inbox row too
	    priority        INTEGER,
	    reply_to        TEXT,
	    token           TEXT
	);
	CREATE TRIGGER IF NOT EXISTS witness_insert AFTER INSERT ON agent_message BEGIN
	    INSERT INTO witness (change, message_id, traced, status, retry_count, crashes, next_attempt_at, lease_token, lease_owner,
	        seq, sender, recipient, priority, reply_to, token)
	    VALUES ('insert', NEW.message_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'message_trace'), 0), NEW.status,
	        NEW.retry_count, NEW.crashes, NEW.next_attempt_at, NEW.lease_token, NEW.lease_owner,
	        NEW.seq, NEW.sender, NEW.recipient, NEW.priority, NEW.reply_to, json_extract(NEW.payload, '$.token'));
	END;
	CREATE TRIGGER IF NOT EXISTS witness_update AFTER UPDATE ON agent_message
	WHEN NEW.status IS NOT OLD.status OR NEW.retry_count IS NOT OLD.retry_count OR NEW.crashes IS NOT OLD.crashes
	    OR NEW.next_attempt_at IS NOT OLD.next_attempt_at OR NEW.lease_token IS NOT OLD.lease_token BEGIN
	    INSERT INTO witness (change, message_id, traced, status, retry_count, crashes, next_attempt_at, lease_token, lease_owner)
	    VALUES ('update', NEW.message_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'message_trace'), 0), NEW.status,
	        NEW.retry_count, NEW.crashes, NEW.next_attempt_at, NEW.lease_token, NEW.lease_owner);
	END;
	CREATE TRIGGER IF NOT EXISTS witness_delete AFTER DELETE ON agent_message BEGIN
	    INSERT INTO witness (change, message_id, traced, status)
	    VALUES ('delete', OLD.message_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'message_trace'), 0), OLD.status);
	END;
	CREATE TRIGGER IF NOT EXISTS witness_inbox AFTER INSERT ON agent_inbox BEGIN
	    INSERT INTO witness (change, message_id, traced, recipient)
	    VALUES ('inbox', NEW.message_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'message_trace'), 0), NEW.recipient);
	END;
	CREATE TRIGGER IF NOT EXISTS witness_uninbox AFTER DELETE ON agent_inbox BEGIN
	    INSERT INTO witness (change, message_id, traced, recipient)
	    VALUES ('uninbox', OLD.message_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'message_trace'), 0), OLD.recipient);
	END`

// Witness sets the witness up in a database that holds no messages yet.
func Witness(ctx context.Context, path string) error {
	return execute(ctx, path, witness)
}

// Dismiss removes the witness's triggers, so that a test can change a database behind its back.
func Dismiss(ctx context.Context, path string) error {
	return execute(ctx, path, `
		DROP TRIGGER IF EXISTS witness_insert; DROP TRIGGER IF EXISTS witness_update; DROP TRIGGER IF EXISTS witness_delete;
		DROP TRIGGER IF EXISTS witness_inbox; DROP TRIGGER IF EXISTS witness_uninbox`)
}

// OpenPlain opens a database the way another program does: it knows nothing of the engine. It waits for locks for as
// long as patience.
func OpenPlain(path string, patience time.Duration) (*sql.DB, error) {
	db, err := sql.Open("sqlite3", fmt.Sprintf("file:%s?mode=rw&_sync=FULL&_busy_timeout=%d", path, patience.Milliseconds()))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func execute(ctx context.Context, path, script string) error {
	db, err := OpenPlain(path, 30*time.Second)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, script); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
