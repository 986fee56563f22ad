package main

import (
	"crypto/rand"
	"database/sql/driver"
	"errors"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
	"github.com/oklog/ulid/v2"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
)

var procs8 = Case{
	Name:  "procs-8",
	Title: "durable sends, 8 processes of one sender each",
	About: "Eight processes have one database open. For five seconds, each process sends one durable message after another. In " +
		"the greedy design, each process has a raw connection with only SQLite's busy timeout of 10 s. The process writes the " +
		"message and its trace row into the same tables as Mailroom. `worst_ms` is the longest time that any single send took. " +
		"`jain` is the fairness between the processes, which is 1 if all processes sent the same number of messages.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: sendingProcesses("mailroom", 8)},
		{Name: "greedy", Run: sendingProcesses("greedy", 8)},
	},
	Missed: "Mailroom's processes take turns, and turns cost the time that the greedy design saves by being unfair. In the greedy " +
		"design, one process writes hundreds of messages in a row with its pages in its cache (see `jain`). In Mailroom, each " +
		"process was asleep before its turn, finds its cache emptied by the seven others, and reads ten pages again. Each turn " +
		"needs a switch between processes and a wake-up. Both processors are busy for three quarters of the time, and spend two " +
		"thirds of this time in the kernel, which switches between the processes.",
	Targets: []Target{
		{Measure: "rate_per_s", Against: "greedy", Want: 1},
		{Measure: "worst_ms", Against: "greedy", Want: 1.0 / 100, AtMost: true},
		{Measure: "jain", Want: 0.99},
		{Measure: "busy_errors", Want: 0, AtMost: true},
	},
}

// greedy is a connection that takes SQLite's write lock whenever it can.
type greedy struct {
	conn                           *sqlite3.SQLiteConn
	begin, commit, message, traced *sqlite3.SQLiteStmt
	name                           string
	entropy                        *ulid.MonotonicEntropy
}

// openGreedy opens a connection that is closed at the end of the run.
func (r *Run) openGreedy(path, name string) *greedy {
	conn := openRaw(path, "_journal_mode=WAL&_synchronous=FULL&_busy_timeout=10000&_mutex=no")
	r.after(conn.Close)
	return &greedy{
		conn: conn, begin: must(conn.Prepare("BEGIN IMMEDIATE")).(*sqlite3.SQLiteStmt),
		commit:  must(conn.Prepare("COMMIT")).(*sqlite3.SQLiteStmt),
		message: must(conn.Prepare(insertMessage)).(*sqlite3.SQLiteStmt),
		traced:  must(conn.Prepare(insertTrace)).(*sqlite3.SQLiteStmt),
		name:    name, entropy: ulid.Monotonic(rand.Reader, 0),
	}
}

// insertMessage and insertTrace write the rows that the product writes for one message without options.
const (
	insertMessage = `
		INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, created_at,
			traced_status,
		    review_at, expires_at)
		VALUES (?1, ?2, ?3, 'task_assignment', ?4, 'pending', ?5, 'pending', ?6, ?7)`
	insertTrace = `
		INSERT INTO message_trace (message_id, at, event, new_status, actor) VALUES (?1, ?2, 'created', 'pending', ?3)`
	timeLayout = "2006-01-02T15:04:05.000Z"
)

// send sends n messages in one transaction.
func (g *greedy) send(n int) error { return g.write(n, true) }

// write stores n messages in one transaction. If traced is set, write also stores a trace row for each message.
func (g *greedy) write(n int, traced bool) error {
	_, err := g.begin.Exec(nil)
	if err != nil {
		return err
	}
	for i := 0; i < n && err == nil; i++ {
		now := time.Now().UTC()
		id, at := "msg-"+ulid.MustNew(ulid.Timestamp(now), g.entropy).String(), now.Format(timeLayout)
		_, err = g.message.Exec([]driver.Value{id, g.name, "recipient", letterPayload, at,
			now.Add(5 * time.Minute).Format(timeLayout), now.Add(7 * 24 * time.Hour).Format(timeLayout)})
		if err == nil && traced {
			_, err = g.traced.Exec([]driver.Value{id, at, g.name})
		}
	}
	if err == nil {
		_, err = g.commit.Exec(nil)
	}
	if err != nil {
		_, rollback := g.conn.Exec("ROLLBACK", nil)
		err = errors.Join(err, rollback)
	}
	return err
}

// isLocked reports whether an error means that the database was busy or locked.
func isLocked(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrBusy || e.Code == sqlite3.ErrLocked) ||
		orchestrator.CodeOf(err) == orchestrator.Busy
}

// senderParams configures a sender process.
type senderParams struct {
	Design string // mailroom or greedy
	Path   string
	Name   string
	Pause  time.Duration // between two sends
}

// sendUntil gives senders that are ready the uptime at which to begin and the uptime at which to stop. If Stop is 0,
// the senders stop at the end of their input.
type sendUntil struct{ Begin, Stop time.Duration }

// sentReport is the report of a sender at its end.
type sentReport struct {
	Sent  int
	Busy  int // sends that failed because the database was locked
	Worst time.Duration
}

// openSending returns a function that sends one message with the given design.
func openSending(r *Run, p senderParams) (send func() error) {
	if p.Design == "greedy" {
		g := r.openGreedy(p.Path, p.Name)
		return func() error { return g.send(1) }
	}
	e := r.open(p.Path)
	return func() error {
		_, err := messages.Send(r.ctx, e.Ledger, letter(p.Name, "recipient"))
		return err
	}
}

// senderRole sends as fast as possible, until its time or its input ends.
func senderRole(r *Run, up *wire, p senderParams) {
	send := openSending(r, p)
	check(send()) // the first send opens what is opened on demand
	check(up.say("ready"))
	when, ended := heard[sendUntil](up), make(chan error, 1)
	go func() { ended <- up.untilClosed() }()
	r.rest(when.Begin - uptime())
	var report sentReport
	for now := uptime(); when.Stop == 0 || now < when.Stop; {
		select {
		case err := <-ended:
			check(err)
			when.Stop = now
			continue
		default:
		}
		err := send()
		then := now
		now = uptime()
		report.Worst = max(report.Worst, now-then)
		switch {
		case isLocked(err):
			report.Busy++
		case err != nil:
			check(err)
		case when.Stop == 0 || now <= when.Stop:
			report.Sent++
		}
		if p.Pause > 0 {
			r.rest(p.Pause)
			now = uptime()
		}
	}
	check(up.say(report))
}

// startSenders starts n sender processes and waits until all are ready.
func (r *Run) startSenders(n int, p senderParams) (senders []*child) {
	for _, name := range numbered("sender", n) {
		p.Name = name
		senders = append(senders, r.startChild("sender", p))
	}
	for _, c := range senders {
		heard[string](c.wire)
	}
	return senders
}

// tell sends the same value to all children.
func tell(children []*child, v any) {
	for _, c := range children {
		check(c.say(v))
	}
}

// sums adds up the reports of several senders. Worst is the longest time of all senders, and squares is the sum of
// the squares of the numbers of sent messages.
type sums struct {
	sentReport
	squares float64
}

// sumUp ends the senders and adds up their reports.
func sumUp(senders []*child) (sum sums) {
	for _, c := range senders {
		c.stdin.Close()
	}
	for _, c := range senders {
		one := heard[sentReport](c.wire)
		check(c.end())
		sum.Sent, sum.Busy, sum.Worst = sum.Sent+one.Sent, sum.Busy+one.Busy, max(sum.Worst, one.Worst)
		sum.squares += float64(one.Sent) * float64(one.Sent)
	}
	return sum
}

func sendingProcesses(design string, n int) func(*Run) Measures {
	return func(r *Run) Measures {
		path := r.newMailroom(append(numbered("sender", n), "recipient")...)
		senders := r.startSenders(n, senderParams{Design: design, Path: path})
		begin, window := uptime()+100*time.Millisecond, r.scaledTime(5*time.Second, 500*time.Millisecond)
		tell(senders, sendUntil{Begin: begin, Stop: begin + window})
		r.rest(begin + window - uptime())
		sum := sumUp(senders)
		sent := float64(sum.Sent)
		return Measures{
			"rate_per_s":  sent / window.Seconds(),
			"worst_ms":    milliseconds(sum.Worst),
			"jain":        sent * sent / (float64(n) * sum.squares),
			"busy_errors": float64(sum.Busy),
		}
	}
}
