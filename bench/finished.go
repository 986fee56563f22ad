package main

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// kept returns a database with the given number of rows. In the first round, kept calls make to create the database,
// and keeps it beside the folder of the run. Later rounds use that database.
func (r *Run) kept(name string, rows int, make func(rows int) (path string)) (path string) {
	folder := filepath.Join(filepath.Dir(r.Dir), fmt.Sprintf("%s-%d", name, rows))
	path = filepath.Join(folder, "mailroom.db")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	made := make(rows)
	check(os.MkdirAll(folder, 0o700))
	check(os.Rename(made, path))
	return path
}

// openRaw opens a database with the driver alone.
func openRaw(path, options string) *sqlite3.SQLiteConn {
	return must((&sqlite3.SQLiteDriver{}).Open("file:" + path + "?" + options)).(*sqlite3.SQLiteConn)
}

// finished describes messages that have ended, with the rows that the product leaves: message, inbox and trace.
type finished struct {
	Rows    int
	Status  string        // delivered (and read), or expired
	Ended   time.Duration // the time since the last message ended
	Senders int           // the number of senders, named sender1 to senderN
}

// fill writes finished messages directly into a database. No other process may have the database open, and the
// database must never have contained a message. If fill fails, the database is unusable.
func (f finished) fill(path string) {
	conn := openRaw(path, "_mutex=no")
	check(errors.Join(attempt(func() { f.fillWith(conn) }), conn.Close()))
	// Without this sync, the kernel would write the file during the measurement.
	file := must(os.OpenFile(path, os.O_RDWR, 0))
	check(errors.Join(file.Sync(), file.Close()))
}

func (f finished) fillWith(conn *sqlite3.SQLiteConn) {
	must(conn.Exec("PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF; PRAGMA cache_size=-400000", nil))
	const step = 100_000
	for from := 1; from <= f.Rows; from += step {
		f.fillPart(conn, from, min(from+step-1, f.Rows))
	}
	must(conn.Exec(`INSERT INTO message_count (recipient, state, n)
		SELECT '', 'counted', max(seq) FROM agent_message
		UNION ALL SELECT recipient, traced_status, count(*) FROM agent_message GROUP BY recipient, traced_status`, nil))
	must(conn.Exec("PRAGMA journal_mode=WAL", nil))
}

// fillPart writes the messages with the numbers from to to in one transaction. The messages ended one after another,
// 50 ms apart.
func (f finished) fillPart(conn *sqlite3.SQLiteConn, from, to int) {
	began := time.Now().Add(-f.Ended - time.Duration(f.Rows)*50*time.Millisecond)
	must(conn.Exec("BEGIN IMMEDIATE", nil))
	statements := []string{`
		INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, created_at,
			delivered_at,
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
	values := []driver.Value{int64(from), int64(to), float64(began.UnixMilli()) / 1000, letterPayload, f.Status}
	for _, text := range statements {
		must(conn.Exec(text, values))
	}
	must(conn.Exec("COMMIT", nil))
}
