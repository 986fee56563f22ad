package history

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// witnessOfFile creates triggers that record every change to a message and to an inbox, in the transaction of the
// change. traced is the last row of message_trace at that moment. The engine writes the trace of a change before the
// change itself, so the trace up to that row must contain the change.
const witnessOfFile = `
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
	    INSERT INTO witness (change, message_id, traced, status, retry_count, crashes, next_attempt_at, lease_token,
	    	lease_owner,
	        seq, sender, recipient, priority, reply_to, token)
	    VALUES ('insert', NEW.message_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'message_trace'), 0),
	    	NEW.status,
	        NEW.retry_count, NEW.crashes, NEW.next_attempt_at, NEW.lease_token, NEW.lease_owner,
	        NEW.seq, NEW.sender, NEW.recipient, NEW.priority, NEW.reply_to, json_extract(NEW.payload, '$.token'));
	END;
	CREATE TRIGGER IF NOT EXISTS witness_update AFTER UPDATE ON agent_message
	WHEN NEW.status IS NOT OLD.status OR NEW.retry_count IS NOT OLD.retry_count OR NEW.crashes IS NOT OLD.crashes
	    OR NEW.next_attempt_at IS NOT OLD.next_attempt_at OR NEW.lease_token IS NOT OLD.lease_token BEGIN
	    INSERT INTO witness (change, message_id, traced, status, retry_count, crashes, next_attempt_at, lease_token,
	    	lease_owner)
	    VALUES ('update', NEW.message_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'message_trace'), 0),
	    	NEW.status,
	        NEW.retry_count, NEW.crashes, NEW.next_attempt_at, NEW.lease_token, NEW.lease_owner);
	END;
	CREATE TRIGGER IF NOT EXISTS witness_delete AFTER DELETE ON agent_message BEGIN
	    INSERT INTO witness (change, message_id, traced, status)
	    VALUES ('delete', OLD.message_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'message_trace'), 0),
	    	OLD.status);
	END;
	CREATE TRIGGER IF NOT EXISTS witness_inbox AFTER INSERT ON agent_inbox BEGIN
	    INSERT INTO witness (change, message_id, traced, recipient)
	    VALUES ('inbox', NEW.message_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'message_trace'), 0),
	    	NEW.recipient);
	END;
	CREATE TRIGGER IF NOT EXISTS witness_uninbox AFTER DELETE ON agent_inbox BEGIN
	    INSERT INTO witness (change, message_id, traced, recipient)
	    VALUES ('uninbox', OLD.message_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'message_trace'), 0),
	    	OLD.recipient);
	END`

// witnessOfServer creates the witness in a database on a PostgreSQL server. It also records when a row of the trace
// is deleted or changed, because on a server, gaps in the row numbers are normal.
const witnessOfServer = `
	CREATE TABLE IF NOT EXISTS witness (
	    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	    change          text NOT NULL,      -- insert, update, delete; inbox, uninbox; untrace
	    message_id      text NOT NULL,
	    traced          bigint NOT NULL,
	    status          text,
	    retry_count     bigint,
	    crashes         bigint,
	    next_attempt_at text,
	    lease_token     text,
	    lease_owner     text,
	    seq             bigint,
	    sender          text,
	    recipient       text,
	    priority        bigint,
	    reply_to        text,
	    token           text
	);
	CREATE OR REPLACE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$
	DECLARE
	    last bigint := (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM message_trace_id_seq);
	BEGIN
	    CASE TG_ARGV[0]
	    WHEN 'insert' THEN
	        INSERT INTO witness (change, message_id, traced, status, retry_count, crashes, next_attempt_at, lease_token,
	        	lease_owner,
	            seq, sender, recipient, priority, reply_to, token)
	        VALUES ('insert', NEW.message_id, last, NEW.status, NEW.retry_count, NEW.crashes, NEW.next_attempt_at,
	        	NEW.lease_token, NEW.lease_owner,
	            NEW.seq, NEW.sender, NEW.recipient, NEW.priority, NEW.reply_to, json_extract(NEW.payload, '$.token'));
	    WHEN 'update' THEN
	        INSERT INTO witness (change, message_id, traced, status, retry_count, crashes, next_attempt_at, lease_token,
	        	lease_owner)
	        VALUES ('update', NEW.message_id, last, NEW.status, NEW.retry_count, NEW.crashes, NEW.next_attempt_at,
	        	NEW.lease_token, NEW.lease_owner);
	    WHEN 'delete' THEN
	        INSERT INTO witness (change, message_id, traced, status)
	        	VALUES ('delete', OLD.message_id, last, OLD.status);
	    WHEN 'inbox' THEN
	        INSERT INTO witness (change, message_id, traced, recipient)
	        	VALUES ('inbox', NEW.message_id, last, NEW.recipient);
	    WHEN 'uninbox' THEN
	        INSERT INTO witness (change, message_id, traced, recipient)
	        	VALUES ('uninbox', OLD.message_id, last, OLD.recipient);
	    WHEN 'untrace' THEN
	        INSERT INTO witness (change, message_id, traced) VALUES ('untrace', OLD.message_id, OLD.id);
	    END CASE;
	    RETURN NULL;
	END
	$$;
	CREATE OR REPLACE TRIGGER witness_insert AFTER INSERT ON agent_message FOR EACH ROW EXECUTE FUNCTION witness('insert');
	CREATE OR REPLACE TRIGGER witness_update AFTER UPDATE ON agent_message FOR EACH ROW
	WHEN ((NEW.status, NEW.retry_count, NEW.crashes, NEW.next_attempt_at, NEW.lease_token)
	    IS DISTINCT FROM (OLD.status, OLD.retry_count, OLD.crashes, OLD.next_attempt_at,
	    	OLD.lease_token)) EXECUTE FUNCTION witness('update');
	CREATE OR REPLACE TRIGGER witness_delete AFTER DELETE ON agent_message FOR EACH ROW EXECUTE FUNCTION witness('delete');
	CREATE OR REPLACE TRIGGER witness_inbox AFTER INSERT ON agent_inbox FOR EACH ROW EXECUTE FUNCTION witness('inbox');
	CREATE OR REPLACE TRIGGER witness_uninbox AFTER DELETE ON agent_inbox FOR EACH ROW EXECUTE FUNCTION witness('uninbox');
	CREATE OR REPLACE TRIGGER witness_untrace AFTER UPDATE
		OR DELETE ON message_trace FOR EACH ROW EXECUTE FUNCTION witness('untrace')`

// onServer reports whether a database is on a PostgreSQL server, according to its address.
func onServer(database string) bool { return strings.HasPrefix(database, "postgres://") }

// Witness creates the witness in a database that contains no messages yet.
func Witness(ctx context.Context, database string) error {
	if onServer(database) {
		return execute(ctx, database, witnessOfServer)
	}
	return execute(ctx, database, witnessOfFile)
}

// Dismiss removes the witness's triggers from a file, so that a test can change a database without a record.
func Dismiss(ctx context.Context, path string) error {
	return execute(ctx, path, `
		DROP TRIGGER IF EXISTS witness_insert; DROP TRIGGER IF EXISTS witness_update; DROP TRIGGER IF EXISTS witness_delete;
		DROP TRIGGER IF EXISTS witness_inbox; DROP TRIGGER IF EXISTS witness_uninbox`)
}

// OpenPlain opens a database as another program does, without the engine. It waits for locks up to patience.
// Parameters are $1, $2, ... in order, which both kinds of databases support.
func OpenPlain(database string, patience time.Duration) (*sql.DB, error) {
	driver, address := "sqlite3",
		fmt.Sprintf("file:%s?mode=rw&_sync=FULL&_busy_timeout=%d", database, patience.Milliseconds())
	if onServer(database) {
		u, err := url.Parse(database)
		if err != nil {
			return nil, err
		}
		query := u.Query()
		if past, err := url.Parse(query.Get("direct")); query.Has("direct") && err == nil {
			// a pooler accepts no settings
			schema := query.Get("search_path")
			u, query = past, past.Query()
			query.Set("search_path", schema)
		}
		query.Set("lock_timeout", fmt.Sprint(patience.Milliseconds()))
		query.Set("application_name", "plain")
		u.RawQuery = query.Encode()
		driver, address = "pgx", u.String()
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func execute(ctx context.Context, database, script string) error {
	db, err := OpenPlain(database, 30*time.Second)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, script); err != nil {
		return fmt.Errorf("%s: %w", database, err)
	}
	return nil
}
