package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// finished are messages that have come to their end, as the product leaves them: the row, the inbox and the trace.
type finished struct {
	Rows    int
	Status  string        // delivered (and read), or expired
	Ended   time.Duration // how long ago the last of them ended
	Senders int           // sender1 to senderN
}

// fill writes finished messages straight into a database that nobody else has open. A database that it
// did not finish must be thrown away. The database must never have held a message.
func (f finished) fill(ctx context.Context, path string) error {
	c, err := (&sqlite3.SQLiteDriver{}).Open("file:" + path + "?_mutex=no")
	if err != nil {
		return err
	}
	conn := c.(*sqlite3.SQLiteConn)
	err = f.fillWith(ctx, conn)
	if err := errors.Join(err, conn.Close()); err != nil {
		return err
	}
	return flush(path) // or the kernel would do so during what is measured
}

// flush waits until the disk has a file. The process must not have it open as a database.
func flush(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

func (f finished) fillWith(ctx context.Context, conn *sqlite3.SQLiteConn) error {
	if _, err := conn.Exec("PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF; PRAGMA cache_size=-400000", nil); err != nil {
		return err
	}
	const step = 100_000
	for from := 1; from <= f.Rows; from += step {
		if err := f.fillPart(ctx, conn, from, min(from+step-1, f.Rows)); err != nil {
			_, rollback := conn.Exec("ROLLBACK", nil)
			return errors.Join(fmt.Errorf("filling in rows from %d: %w", from, err), rollback)
		}
	}
	if _, err := conn.Exec(`INSERT INTO message_count (recipient, state, n)
		SELECT '', 'counted', max(seq) FROM agent_message
		UNION ALL SELECT recipient, traced_status, count(*) FROM agent_message GROUP BY recipient, traced_status`, nil); err != nil {
		return err
	}
	_, err := conn.Exec("PRAGMA journal_mode=WAL", nil)
	return err
}

// fillPart writes the messages from a number to another in one transaction. They ended one after the other, 50 ms apart.
func (f finished) fillPart(ctx context.Context, conn *sqlite3.SQLiteConn, from, to int) error {
	last := time.Now().Add(-f.Ended)
	began := last.Add(-time.Duration(f.Rows) * 50 * time.Millisecond)
	if _, err := conn.Exec("BEGIN IMMEDIATE", nil); err != nil {
		return err
	}
	statements := []string{`
		INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, created_at, delivered_at,
		    traced_status, expires_at, ended_at, read_at, error_message)
		WITH RECURSIVE n (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2),
		     a (i, ended_at) AS (SELECT i, strftime('%Y-%m-%dT%H:%M:%fZ', ?3 + i * 0.05, 'unixepoch') FROM n)
		SELECT printf('msg-00%024d', i), 'sender' || (i % ` + fmt.Sprint(f.Senders) + ` + 1), 'worker' || (i % 10 + 1),
		    'task_assignment', ?4, ?5, ended_at, CASE ?5 WHEN 'delivered' THEN ended_at END,
		    ?5, ended_at, ended_at, CASE ?5 WHEN 'delivered' THEN ended_at ELSE '' END, CASE ?5 WHEN 'delivered' THEN NULL ELSE 'its time passed' END
		FROM a`}
	const these = ` FROM agent_message m WHERE seq BETWEEN ?1 AND ?2`
	if f.Status == "delivered" {
		statements = append(statements,
			`INSERT INTO agent_inbox (recipient, message_id, payload, delivered_at, read_at)
			 SELECT recipient, message_id, payload, delivered_at, read_at`+these,
			`INSERT INTO message_trace (message_id, at, event, old_status, new_status, attempt, actor)
			 SELECT message_id, created_at, 'created', NULL, 'pending', 0, 'host-1'`+these,
			`INSERT INTO message_trace (message_id, at, event, old_status, new_status, attempt, actor)
			 SELECT message_id, ended_at, 'delivered', 'pending', 'delivered', 1, 'host-2'`+these,
			`INSERT INTO message_trace (message_id, at, event, old_status, new_status, attempt, actor)
			 SELECT message_id, read_at, 'read', 'delivered', 'delivered', 0, 'host-3'`+these)
	} else {
		statements = append(statements,
			`INSERT INTO message_trace (message_id, at, event, old_status, new_status, attempt, actor)
			 SELECT message_id, created_at, 'created', NULL, 'pending', 0, 'host-1'`+these,
			`INSERT INTO message_trace (message_id, at, event, old_status, new_status, attempt, actor)
			 SELECT message_id, ended_at, 'expired', 'pending', 'expired', 0, 'host-2'`+these)
	}
	values := []driver.NamedValue{
		{Ordinal: 1, Value: int64(from)}, {Ordinal: 2, Value: int64(to)}, {Ordinal: 3, Value: float64(began.UnixMilli()) / 1000},
		{Ordinal: 4, Value: letterPayload}, {Ordinal: 5, Value: f.Status},
	}
	for _, text := range statements {
		if _, err := conn.ExecContext(ctx, text, values); err != nil {
			return err
		}
	}
	_, err := conn.Exec("COMMIT", nil)
	return err
}
