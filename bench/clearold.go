package main

import (
	"os"
	"time"

	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/retention"
)

var clearOld = Case{
	Name:  "clear-old",
	Title: "`clear_old` of 1,000,000 rows while 4 senders send",
	About: "A database contains 1,000,000 messages that expired more than a week ago. Four processes send, each with a pause of 2 " +
		"ms between two sends. A fifth process deletes the messages, either with Mailroom's `clear_old` or with one DELETE of the " +
		"same rows on a raw connection. mailroom-delivered clears the same number of delivered and read messages, which it moves " +
		"to the archive. `worst_ms` is the longest time that any sender waited. `wal_mib` is the largest size of the WAL. " +
		"`file_ratio` is the size of the database after the case divided by its size before the case.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: clears("mailroom", "expired")},
		{Name: "one-delete", Run: clears("delete", "expired")},
		{Name: "mailroom-delivered", Run: clears("mailroom", "delivered")},
	},
	Targets: []Target{
		{Measure: "worst_ms", Against: "one-delete", Want: 1.0 / 40, AtMost: true},
		{Measure: "wal_mib", Want: 16, AtMost: true},
		{Measure: "file_ratio", Want: 0.999, AtMost: true},
	},
	Missed: "A batch of `clear_old` adds about 0.7 MB to the WAL. SQLite can start the WAL from its beginning again only if all " +
		"of it is in the database file and no process reads from it at that moment. While four processes send, the WAL usually " +
		"reaches 5 to 10 MB before such a moment comes. The measure is the largest size in the whole run.",
}

// clearerParams selects the database to clear and the design to use.
type clearerParams struct {
	Design string // mailroom or delete
	Path   string
}

// clearerRole waits for a line, clears once, and sends the number of deleted rows.
func clearerRole(r *Run, up *wire, p clearerParams) {
	heard[string](up)
	var rows int64
	if p.Design == "delete" {
		rows = deleteOld(p.Path)
	} else {
		r.within(p.Path, func(e *delivery.Engine) {
			rows = must(retention.ClearOld(r.ctx, e.Ledger, retention.ClearOptions{})).Deleted
		})
	}
	check(up.say(rows))
}

// deleteOld deletes the old rows with one statement, as a program without batches does.
func deleteOld(path string) int64 {
	conn := openRaw(path, "_journal_mode=WAL&_synchronous=FULL&_busy_timeout=60000")
	defer conn.Close()
	done := must(conn.Exec(`DELETE FROM agent_message
		WHERE ended_at <> '' AND ended_at < strftime('%Y-%m-%dT%H:%M:%fZ','now','-7 days')`, nil))
	return must(done.RowsAffected())
}

func clears(design, status string) func(*Run) Measures {
	return func(r *Run) Measures {
		rows := r.scaled(1_000_000, 2000)
		path := r.newMailroom(append(append(numbered("sender", 4), numbered("worker", 10)...), "recipient")...)
		finished{Rows: rows, Status: status, Ended: 8 * 24 * time.Hour, Senders: 4}.fill(path)
		before := fileSize(path)
		clearer := r.startChild("clearer", clearerParams{Design: design, Path: path})
		senders := r.startSenders(4, senderParams{Design: "mailroom", Path: path, Pause: 2 * time.Millisecond})
		tell(senders, sendUntil{Begin: uptime()})
		r.rest(200 * time.Millisecond)
		largest := watchSize(path + "-wal")
		began := uptime()
		check(clearer.say("clear"))
		cleared := heard[int](clearer.wire)
		took := uptime() - began
		check(clearer.end())
		expect(cleared, rows)
		r.rest(200 * time.Millisecond)
		sum := sumUp(senders)
		wal := largest()
		return Measures{
			"took_s": took.Seconds(), "wal_mib": float64(wal) / (1 << 20),
			"file_ratio":  float64(fileSize(path)) / float64(before),
			"busy_errors": float64(sum.Busy), "worst_ms": milliseconds(sum.Worst),
			"rate_per_s": float64(sum.Sent) / took.Seconds(),
		}
	}
}

func fileSize(path string) int64 { return must(os.Stat(path)).Size() }

// watchSize polls the size of a file every millisecond, without opening the file. largest stops the polling and
// returns the largest size.
func watchSize(path string) (largest func() int64) {
	stop, done := make(chan struct{}), make(chan int64)
	go func() {
		var most int64
		for {
			if info, err := os.Stat(path); err == nil {
				most = max(most, info.Size())
			}
			select {
			case <-time.After(time.Millisecond):
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
