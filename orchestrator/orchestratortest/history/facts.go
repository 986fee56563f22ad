package history

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // opens the database as another program does
	_ "github.com/mattn/go-sqlite3"    // the same for a file
)

// Evidence is the data that remains when a run has come to rest.
type Evidence struct {
	Database string   // contains the witness; no process has it open
	Files    []string // written by jsonl transports
	Folders  []Folder // written by dir transports
	Diaries  []Diary  // of the commands and servers that exec and webhook transports called
	Events   []Event  // the history
}

// message holds all facts about one message.
type message struct {
	id, sender, recipient, replyTo, token string
	priority                              int
	seq                                   int64
	known                                 bool // the witness recorded its insertion
	rows                                  []*row
	trace                                 []*traced
	changes                               []*change
	lines                                 []arrival // in files, and as files
	runs                                  []*run    // in the order in which they began
	final                                 state     // according to the end of the trace
	failedFirst                           int64     // trace row of the first failed attempt; 0 if there is none
	delivered                             []*traced
	send                                  *send // the send that created it; nil for the engine's own messages
}

// row is a message in a table.
type row struct {
	table                                             string
	status, createdAt, deliveredAt, endedAt           string
	readAt, acknowledgedAt, leaseToken, leaseOwner    string
	sender, recipient, token, nextAttemptAt, errorMsg string
	retries, crashes, priority                        int
	seq                                               int64
}

// traced is a row of message_trace.
type traced struct {
	id                                             int64
	message, at, event, from, to, actor, err, span string
	attempt                                        int
}

// change is a row of the witness.
type change struct {
	id, traced                                             int64
	change, message, status, next, token, owner, recipient string
	retries, crashes                                       int
}

// arrival is a line in a file, a row in an inbox, a file in a folder, or the first run for a message.
type arrival struct {
	where     string
	kind      string // of the transport
	place     int64  // line, row of the witness, or position
	id        string
	recipient string
	token     string
}

// facts is the evidence, prepared for comparison.
type facts struct {
	Evidence
	messages map[string]*message
	ids      []string // in the order of their first appearance
	trace    []*traced
	changes  []*change
	arrivals map[string][]arrival // by place, in order
	diaries  map[string]*diary    // by recipient
	torn     int
	rungs    []time.Duration
	retries  int // setting retry.max_retries
	sound    []string
}

func (f *facts) message(id string) *message {
	m := f.messages[id]
	if m == nil {
		m = &message{id: id}
		f.messages[id] = m
		f.ids = append(f.ids, id)
	}
	return m
}

// load reads all of the evidence.
func load(ctx context.Context, e Evidence) (*facts, error) {
	f := &facts{Evidence: e, messages: map[string]*message{}, arrivals: map[string][]arrival{},
		diaries: map[string]*diary{}}
	db, err := OpenPlain(e.Database, 30*time.Second)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	for _, read := range []func(context.Context, *sql.DB) error{f.readSettings, f.readSound, f.readWitness, f.readTrace,
		f.readRows} {
		if err := read(ctx, db); err != nil {
			return nil, err
		}
	}
	for _, file := range e.Files {
		if err := f.readLines(file); err != nil {
			return nil, err
		}
	}
	for _, folder := range e.Folders {
		if err := f.readFolder(folder); err != nil {
			return nil, err
		}
	}
	for _, d := range e.Diaries {
		if err := f.readDiary(d); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// each runs a query and calls scan for every row.
func each(ctx context.Context, db *sql.DB, query string, scan func(rows *sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("%w in %s", err, query)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return fmt.Errorf("%w in %s", err, query)
		}
	}
	return rows.Err()
}

func (f *facts) readSettings(ctx context.Context, db *sql.DB) error {
	f.rungs, f.retries = []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute}, 3
	return each(ctx, db, `SELECT key, value FROM settings WHERE key IN ('retry.ladder', 'retry.max_retries')`,
		func(rows *sql.Rows) error {
			var key, value string
			if err := rows.Scan(&key, &value); err != nil {
				return err
			}
			if key == "retry.max_retries" {
				_, err := fmt.Sscan(value, &f.retries)
				return err
			}
			f.rungs = nil
			for part := range strings.SplitSeq(value, ",") {
				rung, err := time.ParseDuration(strings.TrimSpace(part))
				if err != nil {
					return err
				}
				f.rungs = append(f.rungs, rung)
			}
			return nil
		})
}

// checkServer compares each index with its table.
const checkServer = `
	SELECT CASE count(public.bt_index_check(i.indexrelid, true)) WHEN 0 THEN 'there is no index' ELSE 'ok' END
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
	WHERE a.amname = 'btree' AND c.relnamespace = current_schema()::regnamespace`

func (f *facts) readSound(ctx context.Context, db *sql.DB) error {
	check := `PRAGMA integrity_check(20)`
	if onServer(f.Database) {
		check = checkServer
		if _, err := db.ExecContext(ctx, `CREATE EXTENSION IF NOT EXISTS amcheck SCHEMA public`); err != nil {
			return err
		}
	}
	return each(ctx, db, check, func(rows *sql.Rows) error {
		var line string
		err := rows.Scan(&line)
		f.sound = append(f.sound, line)
		return err
	})
}

func (f *facts) readWitness(ctx context.Context, db *sql.DB) error {
	return each(ctx, db, `
		SELECT id, change, message_id, traced, coalesce(status,''), coalesce(retry_count,0), coalesce(crashes,0),
		       coalesce(next_attempt_at,''), coalesce(lease_token,''), coalesce(lease_owner,''), coalesce(seq,0),
		       coalesce(sender,''), coalesce(recipient,''), coalesce(priority,0), coalesce(reply_to,''),
		       	coalesce(token,'')
		FROM witness ORDER BY id`, func(rows *sql.Rows) error {
		var c change
		var made message
		err := rows.Scan(&c.id, &c.change, &c.message, &c.traced, &c.status, &c.retries, &c.crashes, &c.next, &c.token,
			&c.owner,
			&made.seq, &made.sender, &made.recipient, &made.priority, &made.replyTo, &made.token)
		if err != nil {
			return err
		}
		m := f.message(c.message)
		c.recipient = made.recipient
		switch c.change {
		case "insert":
			m.sender, m.recipient, m.replyTo, m.token = made.sender, made.recipient, made.replyTo, made.token
			m.priority, m.seq, m.known = made.priority, made.seq, true
		case "inbox":
			where := "inbox of " + made.recipient
			f.arrivals[where] = append(f.arrivals[where], arrival{where, "inbox", c.id, c.message, made.recipient, ""})
		}
		m.changes = append(m.changes, &c)
		f.changes = append(f.changes, &c)
		return nil
	})
}

func (f *facts) readTrace(ctx context.Context, db *sql.DB) error {
	return each(ctx, db, `
		SELECT id, message_id, at, event, coalesce(old_status,''), coalesce(new_status,''), attempt, actor, error,
			span_id
		FROM message_trace ORDER BY id`, func(rows *sql.Rows) error {
		var t traced
		if err := rows.Scan(&t.id, &t.message, &t.at, &t.event, &t.from, &t.to, &t.attempt, &t.actor, &t.err,
			&t.span); err != nil {
			return err
		}
		m := f.message(t.message)
		m.trace = append(m.trace, &t)
		f.trace = append(f.trace, &t)
		return nil
	})
}

func (f *facts) readRows(ctx context.Context, db *sql.DB) error {
	for _, table := range []string{"agent_message", "agent_message_archive"} {
		err := each(ctx, db, `
			SELECT message_id, coalesce(status,''), coalesce(created_at,''), coalesce(delivered_at,''), ended_at,
				read_at,
			       acknowledged_at, lease_token, lease_owner, sender, recipient,
			       	coalesce(json_extract(payload,'$.token'),''),
			       next_attempt_at, coalesce(error_message,''), coalesce(retry_count,0), crashes, priority, seq
			FROM `+table+` ORDER BY seq`, func(rows *sql.Rows) error {
			r := row{table: table}
			var id string
			err := rows.Scan(&id, &r.status, &r.createdAt, &r.deliveredAt, &r.endedAt, &r.readAt, &r.acknowledgedAt,
				&r.leaseToken,
				&r.leaseOwner, &r.sender, &r.recipient, &r.token, &r.nextAttemptAt, &r.errorMsg, &r.retries, &r.crashes,
				&r.priority, &r.seq)
			if err != nil {
				return err
			}
			m := f.message(id)
			m.rows = append(m.rows, &r)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readLines reads a file of lines. It ignores incomplete lines.
func (f *facts) readLines(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		return err
	}
	number := int64(0)
	for line := range bytes.Lines(content) {
		number++
		var l struct {
			MessageID string `json:"message_id"`
			Recipient string `json:"recipient"`
			Payload   struct {
				Token string `json:"token"`
			} `json:"payload"`
		}
		if !bytes.HasSuffix(line, []byte("\n")) || json.Unmarshal(line, &l) != nil || l.MessageID == "" {
			f.torn++
			continue
		}
		a := arrival{path, "jsonl", number, l.MessageID, l.Recipient, l.Payload.Token}
		f.arrivals[path] = append(f.arrivals[path], a)
		m := f.message(l.MessageID)
		m.lines = append(m.lines, a)
	}
	return nil
}
