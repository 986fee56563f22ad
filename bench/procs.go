package main

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
	"github.com/oklog/ulid/v2"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
)

var procs8 = Case{
	Name:  "procs-8",
	Title: "durable sends, 8 processes of one sender each",
	About: "Eight processes have one database open and send for five seconds, one durable message after the other. The " +
		"greedy design is a raw connection per process with nothing but SQLite's busy timeout of 10 s; it writes the message and its trace row " +
		"into the same tables. worst_ms is the longest that any single send took, jain the fairness between the processes (1: all sent as much). " +
		"The first two targets stand for a design in which every commit is synced under the write lock, the next two for one that syncs after " +
		"it, as Mailroom does.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: func(ctx context.Context, env Env) (Measures, error) { return runProcs(ctx, env, "mailroom", 8) }},
		{Name: "greedy", Run: func(ctx context.Context, env Env) (Measures, error) { return runProcs(ctx, env, "greedy", 8) }},
	},
	Missed: "taking turns costs what the greedy design saves by being unfair: there one process writes hundreds of messages in a row with its " +
		"pages in its cache (see jain), here each finds its cache emptied by seven others, reads ten pages again, and was asleep before. " +
		"Both processors are busy for three quarters of the time, two thirds of that in the kernel, switching between processes; a switch and " +
		"a wake-up stand between any two messages.",
	Targets: []Target{
		{Measure: "rate_per_s", Against: "greedy", Want: 0.85},
		{Measure: "worst_ms", Against: "greedy", Want: 1.0 / 30, AtMost: true},
		{Measure: "rate_per_s", Against: "greedy", Want: 1.25},
		{Measure: "worst_ms", Against: "greedy", Want: 1.0 / 100, AtMost: true},
		{Measure: "jain", Want: 0.99},
		{Measure: "busy_errors", Want: 0, AtMost: true},
	},
}

// senderParams say what a sender process does.
type senderParams struct {
	Design string // mailroom or greedy
	Path   string
	Name   string
	Pause  time.Duration // between two sends
}

// sendUntil tells senders that are ready when to begin and when to stop, by uptime. Stop 0: at the end of the input.
type sendUntil struct{ Begin, Stop time.Duration }

// sentReport is what a sender says at the end.
type sentReport struct {
	Sent  int
	Busy  int // sends that failed because the database was locked
	Worst time.Duration
}

// sending is one sender's way into a database.
type sending interface {
	send() error
	close() error
}

func openSending(ctx context.Context, p senderParams) (sending, error) {
	if p.Design == "greedy" {
		return openGreedy(p.Path, p.Name)
	}
	r, err := openMailroom(ctx, p.Path)
	return &mailroomSending{ctx: ctx, r: r, name: p.Name}, err
}

type mailroomSending struct {
	ctx  context.Context
	r    *delivery.Engine
	name string
}

func (s *mailroomSending) send() error {
	_, err := messages.Send(s.ctx, s.r.Ledger, letter(s.name, "recipient"))
	return err
}

func (s *mailroomSending) close() error { return s.r.Close() }

// greedy is one connection that takes SQLite's write lock whenever it can get it.
type greedy struct {
	conn                           *sqlite3.SQLiteConn
	begin, commit, message, traced *sqlite3.SQLiteStmt
	name                           string
	entropy                        *ulid.MonotonicEntropy
}

func openGreedy(path, name string) (*greedy, error) {
	c, err := (&sqlite3.SQLiteDriver{}).Open("file:" + path + "?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=10000&_mutex=no")
	if err != nil {
		return nil, err
	}
	g := &greedy{conn: c.(*sqlite3.SQLiteConn), name: name, entropy: ulid.Monotonic(rand.Reader, 0)}
	for text, prepared := range map[string]**sqlite3.SQLiteStmt{
		"BEGIN IMMEDIATE": &g.begin, "COMMIT": &g.commit, insertMessage: &g.message, insertTrace: &g.traced,
	} {
		s, err := g.conn.Prepare(text)
		if err != nil {
			return nil, err
		}
		*prepared = s.(*sqlite3.SQLiteStmt)
	}
	return g, nil
}

// insertMessage and insertTrace write what the product writes for one message without options.
const (
	insertMessage = `
		INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, created_at, traced_status,
		    review_at, expires_at)
		VALUES (?1, ?2, ?3, 'task_assignment', ?4, 'pending', ?5, 'pending', ?6, ?7)`
	insertTrace = `
		INSERT INTO message_trace (message_id, at, event, new_status, actor) VALUES (?1, ?2, 'created', 'pending', ?3)`
	timeLayout = "2006-01-02T15:04:05.000Z"
)

func (g *greedy) send() error { return g.sendMany(1) }

// sendMany sends n messages in one transaction.
func (g *greedy) sendMany(n int) error {
	if _, err := g.begin.Exec(nil); err != nil {
		return err
	}
	var err error
	for i := 0; i < n && err == nil; i++ {
		var id, at string
		if id, at, err = g.insert(); err == nil {
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

// insert stores one message within a transaction.
func (g *greedy) insert() (id, at string, err error) {
	now := time.Now().UTC()
	id, at = "msg-"+ulid.MustNew(ulid.Timestamp(now), g.entropy).String(), now.Format(timeLayout)
	_, err = g.message.Exec([]driver.Value{id, g.name, "recipient", letterPayload, at,
		now.Add(5 * time.Minute).Format(timeLayout), now.Add(7 * 24 * time.Hour).Format(timeLayout)})
	return id, at, err
}

func (g *greedy) close() error {
	return errors.Join(g.begin.Close(), g.commit.Close(), g.message.Close(), g.traced.Close(), g.conn.Close())
}

// isLocked reports whether an error is one of those that a busy database gives.
func isLocked(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrBusy || e.Code == sqlite3.ErrLocked) ||
		orchestrator.CodeOf(err) == orchestrator.Busy
}

// senderRole sends as fast as it is let, until it is told to stop.
func senderRole(ctx context.Context, up *wire, raw json.RawMessage) error {
	var p senderParams
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	s, err := openSending(ctx, p)
	if err != nil {
		return err
	}
	if err := s.send(); err != nil { // opens what is opened late
		return err
	}
	if err := up.say("ready"); err != nil {
		return err
	}
	var when sendUntil
	if err := up.hear(&when); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- up.untilClosed() }()
	if err := rest(ctx, when.Begin-uptime()); err != nil {
		return err
	}
	var report sentReport
	for now := uptime(); when.Stop == 0 || now < when.Stop; {
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
			when.Stop = now
			continue
		default:
		}
		err := s.send()
		then := now
		now = uptime()
		report.Worst = max(report.Worst, now-then)
		switch {
		case isLocked(err):
			report.Busy++
		case err != nil:
			return err
		case when.Stop == 0 || now <= when.Stop:
			report.Sent++
		}
		if p.Pause > 0 {
			if err := rest(ctx, p.Pause); err != nil {
				return err
			}
			now = uptime()
		}
	}
	return errors.Join(up.say(report), s.close())
}

// startSenders starts n sender processes and waits until all are ready.
func startSenders(ctx context.Context, n int, p senderParams) (senders []*child, err error) {
	for _, name := range numbered("sender", n) {
		p.Name = name
		c, err := startChild(ctx, "sender", p)
		if err != nil {
			return senders, err
		}
		senders = append(senders, c)
	}
	var ready string
	for _, c := range senders {
		if err := c.hear(&ready); err != nil {
			return senders, fmt.Errorf("a sender: %w", err)
		}
	}
	return senders, nil
}

// tell gives all children the same value.
func tell(children []*child, v any) error {
	for _, c := range children {
		if err := c.say(v); err != nil {
			return err
		}
	}
	return nil
}

// hearReports takes the reports of senders.
func hearReports(senders []*child) ([]sentReport, error) {
	reports := make([]sentReport, len(senders))
	for i, c := range senders {
		if err := c.hear(&reports[i]); err != nil {
			return nil, fmt.Errorf("a sender: %w", err)
		}
	}
	return reports, nil
}

func runProcs(ctx context.Context, env Env, design string, n int) (Measures, error) {
	path, err := newMailroom(ctx, env, append(numbered("sender", n), "recipient")...)
	if err != nil {
		return nil, err
	}
	senders, err := startSenders(ctx, n, senderParams{Design: design, Path: path})
	if err != nil {
		return nil, err
	}
	begin := uptime() + 100*time.Millisecond
	window := scaledTime(env, 5*time.Second, 500*time.Millisecond)
	if err := tell(senders, sendUntil{Begin: begin, Stop: begin + window}); err != nil {
		return nil, err
	}
	reports, err := hearReports(senders)
	if err := errors.Join(err, endAll(senders)); err != nil {
		return nil, err
	}
	var sent, squares, busy float64
	for _, r := range reports {
		sent += float64(r.Sent)
		squares += float64(r.Sent) * float64(r.Sent)
		busy += float64(r.Busy)
	}
	worst := slices.MaxFunc(reports, func(a, b sentReport) int { return int(a.Worst - b.Worst) }).Worst
	return Measures{
		"rate_per_s":  sent / window.Seconds(),
		"worst_ms":    float64(worst) / float64(time.Millisecond),
		"jain":        sent * sent / (float64(n) * squares),
		"busy_errors": busy,
	}, nil
}
