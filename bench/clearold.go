package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator/retention"
)

var clearOld = Case{
	Name:  "clear-old",
	Title: "clear_old of 1,000,000 rows while 4 senders send",
	About: "A database holds 1,000,000 messages that expired more than a week ago. Four processes send, each with 2 ms between two sends, " +
		"while a fifth clears: mailroom's clear_old, or one DELETE of the same rows on a raw connection. mailroom-delivered clears " +
		"as many delivered and read messages, which it moves to the archive. worst_ms is the longest that any sender waited, wal_mib the largest size of " +
		"the WAL, file_ratio the size of the database afterwards divided by the size before.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: func(ctx context.Context, env Env) (Measures, error) { return runClear(ctx, env, "mailroom", "expired") }},
		{Name: "one-delete", Run: func(ctx context.Context, env Env) (Measures, error) { return runClear(ctx, env, "delete", "expired") }},
		{Name: "mailroom-delivered", Run: func(ctx context.Context, env Env) (Measures, error) {
			return runClear(ctx, env, "mailroom", "delivered")
		}},
	},
	Targets: []Target{
		{Measure: "worst_ms", Against: "one-delete", Want: 1.0 / 40, AtMost: true},
		{Measure: "wal_mib", Want: 16, AtMost: true},
		{Measure: "file_ratio", Want: 0.999, AtMost: true},
	},
}

// clearerParams say what to clear, and how.
type clearerParams struct {
	Design string // mailroom or delete
	Path   string
}

// clearerRole clears once, when it hears a line, and says how many rows are gone.
func clearerRole(ctx context.Context, up *wire, raw json.RawMessage) error {
	var p clearerParams
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	var line string
	if err := up.hear(&line); err != nil {
		return err
	}
	var rows int64
	var err error
	if p.Design == "delete" {
		rows, err = deleteOld(p.Path)
	} else {
		rows, err = clearWithMailroom(ctx, p.Path)
	}
	if err != nil {
		return err
	}
	return up.say(rows)
}

func clearWithMailroom(ctx context.Context, path string) (int64, error) {
	r, err := openMailroom(ctx, path)
	if err != nil {
		return 0, err
	}
	cleared, err := retention.ClearOld(ctx, r.Ledger, retention.ClearOptions{})
	return cleared.Deleted, errors.Join(err, r.Close())
}

// deleteOld is what a program without batches does.
func deleteOld(path string) (int64, error) {
	c, err := (&sqlite3.SQLiteDriver{}).Open("file:" + path + "?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=60000")
	if err != nil {
		return 0, err
	}
	conn := c.(*sqlite3.SQLiteConn)
	defer conn.Close()
	done, err := conn.Exec(`DELETE FROM agent_message WHERE ended_at <> '' AND ended_at < strftime('%Y-%m-%dT%H:%M:%fZ','now','-7 days')`, nil)
	if err != nil {
		return 0, err
	}
	rows, err := done.RowsAffected()
	return rows, err
}

func runClear(ctx context.Context, env Env, design, status string) (Measures, error) {
	rows := scaled(env, 1_000_000, 2000)
	path, err := newMailroom(ctx, env, append(append(numbered("sender", 4), numbered("worker", 10)...), "recipient")...)
	if err != nil {
		return nil, err
	}
	if err := (finished{Rows: rows, Status: status, Ended: 8 * 24 * time.Hour, Senders: 4}).fill(ctx, path); err != nil {
		return nil, err
	}
	before, err := fileSize(path)
	if err != nil {
		return nil, err
	}
	clearer, err := startChild(ctx, "clearer", clearerParams{Design: design, Path: path})
	if err != nil {
		return nil, err
	}
	senders, err := startSenders(ctx, 4, senderParams{Design: "mailroom", Path: path, Pause: 2 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	if err := tell(senders, sendUntil{Begin: uptime()}); err != nil {
		return nil, err
	}
	if err := rest(ctx, 200*time.Millisecond); err != nil {
		return nil, err
	}
	largest := watchSize(path + "-wal")
	began := uptime()
	var cleared int
	if err := errors.Join(clearer.say("clear"), clearer.hear(&cleared)); err != nil {
		return nil, err
	}
	took := uptime() - began
	err = errors.Join(clearer.end(), expect(nil, cleared, rows), rest(ctx, 200*time.Millisecond))
	for _, s := range senders {
		err = errors.Join(err, s.stdin.Close())
	}
	reports, herr := hearReports(senders)
	if err := errors.Join(err, herr, endAll(senders)); err != nil {
		return nil, err
	}
	wal := largest()
	after, err := fileSize(path)
	if err != nil {
		return nil, err
	}
	m := Measures{
		"took_s": took.Seconds(), "wal_mib": float64(wal) / (1 << 20), "file_ratio": float64(after) / float64(before),
		"busy_errors": 0, "worst_ms": 0, "rate_per_s": 0,
	}
	for _, r := range reports {
		m["worst_ms"] = max(m["worst_ms"], float64(r.Worst)/float64(time.Millisecond))
		m["busy_errors"] += float64(r.Busy)
		m["rate_per_s"] += float64(r.Sent) / took.Seconds()
	}
	return m, nil
}

func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// watchSize looks at the size of a file every millisecond, without opening it. largest ends that.
func watchSize(path string) (largest func() int64) {
	stop, done := make(chan struct{}), make(chan int64)
	go func() {
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		var most int64
		for {
			if size, err := fileSize(path); err == nil {
				most = max(most, size)
			}
			select {
			case <-ticker.C:
			case <-stop:
				done <- most
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-done
	}
}
