package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/history"
	"mailroom/orchestrator/orchestratortest/torture"
)

// scene is a copy of the files of a run, in which a test plants a bug.
type scene struct {
	t      *testing.T
	folder string
	events []history.Event
}

// plantable repeats runs until one leaves files in which every bug can be planted.
func plantable(t *testing.T) string {
	t.Helper()
	for length := 4 * time.Second; ; length *= 2 {
		seed := rand.Uint64()
		report, folder := tortured(t, torture.Config{Seed: seed, For: length})
		if report.Failed() {
			t.Fatalf("seed %d, in %s: %v", seed, folder, report.Problems())
		}
		s := copied(t, folder)
		if s.number(`SELECT min((SELECT count(*) FROM message_trace WHERE event = 'deleted'),
			(SELECT count(*) FROM message_trace WHERE event = 'read'),
			(SELECT count(*) FROM message_trace WHERE event = 'failed' AND attempt = 4
				AND error NOT LIKE '%cannot tell%'), (SELECT count(*) FROM agent_inbox),
			(SELECT count(*) FROM message_trace WHERE event = 'released' AND error LIKE 'the lease of %'),
				(SELECT count(*) FROM agent_message))`) > 0 &&
			s.handed() != nil && s.hasRuns() {
			return folder
		}
		t.Logf("a run of %v has too little in it: %d messages deleted, %d read, %d failed, %d in inboxes, %d leases released, %d messages; a handed-over batch %t, runs %t", length,
			s.number(`SELECT count(*) FROM message_trace WHERE event = 'deleted'`),
			s.number(`SELECT count(*) FROM message_trace WHERE event = 'read'`),
			s.number(`SELECT count(*) FROM message_trace WHERE event = 'failed' AND attempt = 4
				AND error NOT LIKE '%cannot tell%'`),
			s.number(`SELECT count(*) FROM agent_inbox`),
			s.number(`SELECT count(*) FROM message_trace WHERE event = 'released' AND error LIKE 'the lease of %'`),
			s.number(`SELECT count(*) FROM agent_message`), s.handed() != nil, s.hasRuns())
		os.RemoveAll(folder)
	}
}

func copied(t *testing.T, folder string) *scene {
	t.Helper()
	s := &scene{t: t, folder: t.TempDir()}
	if err := os.CopyFS(s.folder, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	// The checker takes the modification times as the order in which the files of a folder arrived.
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.Chtimes(filepath.Join(s.folder, strings.TrimPrefix(path, folder)), time.Time{}, info.ModTime())
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.events, err = torture.History(s.folder); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *scene) open() *sql.DB {
	s.t.Helper()
	db, err := history.OpenPlain(filepath.Join(s.folder, "mailroom.db"), time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	return db
}

func (s *scene) sql(statement string, args ...any) {
	s.t.Helper()
	db := s.open()
	defer db.Close()
	if _, err := db.Exec(statement, args...); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

// dismiss removes the witness from the database.
func (s *scene) dismiss() {
	s.t.Helper()
	if err := history.Dismiss(s.t.Context(), filepath.Join(s.folder, "mailroom.db")); err != nil {
		s.t.Fatal(err)
	}
}

// victim returns the middle one of the IDs that a query selects.
func (s *scene) victim(query string) (id string) {
	s.t.Helper()
	db := s.open()
	defer db.Close()
	err := db.QueryRow(`WITH list(id) AS (` + query +
		`) SELECT id FROM list LIMIT 1 OFFSET (SELECT count(*) / 2 FROM list)`).Scan(&id)
	if err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	return id
}

// acknowledged returns the IDs of the acknowledged sends as an SQL list. Others may be unacknowledged because their
// sender was killed.
func (s *scene) acknowledged() string {
	var ids []string
	for _, e := range s.events {
		if e.Kind == history.Acknowledged {
			ids = append(ids, "'"+e.MessageID+"'")
		}
	}
	return strings.Join(ids, ", ")
}

func (s *scene) victims(query string) []string { return strings.Fields(s.victim(query)) }

func (s *scene) number(query string, args ...any) (n int) {
	s.t.Helper()
	db := s.open()
	defer db.Close()
	if err := db.QueryRow(query, args...).Scan(&n); err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// unwrite deletes one row of the trace in such a way that no gap shows, as if the row had never been written.
func (s *scene) unwrite(event, like string) string {
	s.t.Helper()
	where := fmt.Sprintf(`event = '%s' AND ('%s' = '' OR error LIKE '%s')`, event, like, like)
	if event == "attempt_failed" {
		where += " AND new_status = 'retry' AND old_status = 'pending'"
	}
	id := s.victim(`SELECT message_id FROM message_trace WHERE ` + where)
	row := s.number(`SELECT max(id) FROM message_trace WHERE `+where+` AND message_id = ?`, id)
	s.sql(`DELETE FROM message_trace WHERE id = ?`, row)
	s.sql(`UPDATE message_trace SET id = -id WHERE id > ?`, row)
	s.sql(`UPDATE message_trace SET id = -id - 1 WHERE id < 0`)
	s.sql(`UPDATE witness SET traced = traced - 1 WHERE traced >= ?`, row)
	return id
}

// batch returns two messages of the same sender and recipient that were claimed together once, and never again, in
// the order of the witness.
func (s *scene) batch() []string {
	s.t.Helper()
	return s.victims(`SELECT a.message_id || ' ' || b.message_id FROM witness a
		JOIN witness b ON b.lease_token = a.lease_token AND b.id = a.id + 1
		JOIN witness c ON c.change = 'insert' AND c.message_id = a.message_id JOIN witness d ON d.change = 'insert'
			AND d.message_id = b.message_id
		WHERE a.lease_token <> '' AND a.change = 'update' AND b.change = 'update' AND c.sender = d.sender
			AND c.recipient = d.recipient
		  AND 2 = (SELECT count(*) FROM message_trace t WHERE t.event = 'claimed'
		  	AND t.message_id IN (a.message_id, b.message_id))`)
}

// tracedBatch returns two messages of the same sender and recipient that were claimed together once, and never again,
// in the order of the trace, which may differ from that of the witness.
func (s *scene) tracedBatch() []string {
	s.t.Helper()
	return s.victims(`SELECT a.message_id || ' ' || b.message_id
		FROM message_trace a JOIN message_trace b ON b.id = a.id + 1 AND b.event = 'claimed' AND b.actor = a.actor
			AND b.at = a.at
		JOIN witness c ON c.change = 'insert' AND c.message_id = a.message_id JOIN witness d ON d.change = 'insert'
			AND d.message_id = b.message_id
		WHERE a.event = 'claimed' AND c.sender = d.sender AND c.recipient = d.recipient
		  AND 2 = (SELECT count(*) FROM message_trace t WHERE t.event = 'claimed'
		  	AND t.message_id IN (a.message_id, b.message_id))`)
}

// climbed reports whether one of two messages ever failed an attempt, lost its lease or was replayed.
func (s *scene) climbed(a, b string) bool {
	return s.number(`SELECT count(*) FROM message_trace WHERE event IN ('attempt_failed','released','replayed')
		AND message_id IN (?, ?)`, a, b) > 0
}

// handed returns an event that handed out messages, or nil if there is none. Its process was not killed, because a
// killed one may have marked messages that nobody saw, and its first message was handed out only once.
func (s *scene) handed() *history.Event {
	s.t.Helper()
	killed, times := map[string]bool{}, map[string]int{}
	for _, e := range s.events {
		killed[e.Process] = killed[e.Process] || e.Kind == history.Killed
		for _, id := range e.IDs {
			times[id]++
		}
	}
	for _, e := range s.events {
		if e.Kind == history.Handed && !killed[e.Process] && times[e.IDs[0]] == 1 && !s.climbed(e.IDs[0], e.IDs[0]) {
			return &e
		}
	}
	return nil
}

// unread makes the first message of a handed-out batch unread again, as if its reader had ended before its answer was
// known to be written, and returns the event of the batch.
func (s *scene) unread() *history.Event {
	s.t.Helper()
	e := s.handed()
	ended := s.event(e.Process, history.Ended)
	s.sql(`UPDATE message_trace SET event = 'released',
		error = 'wait (process ' || ? || ') ended before its answer was written; unread again'
		WHERE event = 'read' AND message_id = ?`, ended.PID, e.IDs[0])
	return e
}

// neverRead returns the violation of a message that unread made unread again.
func (s *scene) neverRead(e *history.Event) string {
	return e.IDs[0] + " was handed to " + e.Process + " and never marked as read"
}

// event returns the event of a kind of a process.
func (s *scene) event(process string, kind history.Kind) *history.Event {
	s.t.Helper()
	for i := range s.events {
		if s.events[i].Process == process && s.events[i].Kind == kind {
			return &s.events[i]
		}
	}
	s.t.Fatalf("%s has no event %s", process, kind)
	return nil
}

// began returns when the process of an event began.
func (s *scene) began(e *history.Event) int64 { return s.event(e.Process, history.Started).At }

// failAt adds a failure of the server at a time, which is over a millisecond later.
func (s *scene) failAt(at int64) {
	s.events = append(s.events, history.Event{At: at, Kind: history.Failing, Process: "planted.1"},
		history.Event{At: at + int64(time.Millisecond), Kind: history.Repaired, Process: "planted.1"})
}

func (s *scene) file() string { return filepath.Join(s.folder, "solid", "filed.jsonl") }

func (s *scene) lines() (lines [][]byte) {
	s.t.Helper()
	content, err := os.ReadFile(s.file())
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		if json.Valid(line) {
			lines = append(lines, line)
		}
	}
	if len(lines) < 3 {
		s.t.Fatalf("%d lines in %s", len(lines), s.file())
	}
	return lines
}

func (s *scene) setLines(lines [][]byte) {
	s.t.Helper()
	if err := os.WriteFile(s.file(), bytes.Join(lines, nil), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// sentLine holds the fields of a line of a JSONL file that the tests use.
type sentLine struct {
	MessageID string `json:"message_id"`
	Sender    string `json:"sender"`
	Priority  int    `json:"priority"`
	Retries   int    `json:"retry_count"`
}

func parse(t *testing.T, line []byte) (l sentLine) {
	t.Helper()
	if err := json.Unmarshal(line, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

func idOf(t *testing.T, line []byte) string { return parse(t, line).MessageID }
