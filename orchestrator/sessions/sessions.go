// Package sessions decides when to run an agent's start command for the messages that wait for the agent, and records
// the runs. Package watchdog runs the commands.
package sessions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Part returns the part that handles sessions. It updates the recorded runs when an agent is changed or removed.
func Part() *ledger.Part {
	return &ledger.Part{Name: "sessions", AgentChanged: startChanged, Forget: forgetRuns}
}

// Sessions decides which sessions of a database's agents to start, and records their runs. Look and Begin must not be
// called concurrently with each other. Started and End may be called at any time.
type Sessions struct {
	ledger *ledger.Ledger

	// looked holds, for each agent, a time before which no message was delivered that its session has not seen. Look
	// need not scan older rows again. Agents whose transport is the inbox have no entry.
	looked map[string]string
}

// New returns a Sessions for a database.
func New(l *ledger.Ledger) *Sessions { return &Sessions{ledger: l, looked: map[string]string{}} }

// Session describes the session of an agent to the code that starts and stops it.
type Session struct {
	Agent     string
	Command   bool      // the agent has a start command; if false, only Stopped is set
	Running   bool      // the tables record the session as running
	StartedAt string    // when the last run started
	Stopped   string    // when the agent stopped; "" if it has not stopped
	Wanted    bool      // messages wait for the agent, and its session may start now
	NextAt    time.Time // when the session may start for the waiting messages; zero if now or never
}

// Look returns the sessions of all agents of this host that have a start command or use the transport exec.
func (s *Sessions) Look(ctx context.Context) (list []Session, err error) {
	var conf *ledger.Config
	var agents []*ledger.Agent
	// If no agent has a command, this is the only statement.
	err = s.ledger.LookUnchecked(ctx, func(c *store.Conn) error {
		conf, err = s.ledger.Config.Load(c)
		return err
	})
	if err != nil {
		return nil, err
	}
	if conf.Untrusted != "" {
		return nil, nil
	}
	for _, name := range conf.Names {
		if a := conf.Agents[name]; !a.Away() && (a.StartCommand != "" || strings.HasPrefix(a.Deliver, "exec:")) {
			agents = append(agents, a)
		}
	}
	if len(agents) == 0 {
		return nil, nil
	}
	err = s.ledger.Read(ctx, func(c *store.Conn) error {
		list = nil
		last, _, err := c.Text(`SELECT max(ended_at) FROM agent_message WHERE ended_at <> ''`)
		if err != nil {
			return err
		}
		for _, a := range agents {
			one, err := s.lookAt(c, conf, a, last)
			if err != nil {
				return err
			}
			list = append(list, one)
		}
		return nil
	})
	return list, err
}

// lookAt describes the session of one agent. last is the time of the most recent delivery to any agent.
func (s *Sessions) lookAt(c *store.Conn, conf *ledger.Config, a *ledger.Agent, last string) (one Session, err error) {
	one = Session{Agent: a.Name, Command: a.StartCommand != ""}
	status, since, err := agents.LatestStatus(c, a.Name)
	if err != nil {
		return one, err
	}
	if status == orchestrator.Stopped {
		one.Stopped = since
	}
	run, err := LastRun(c, a.Name)
	if err != nil || !one.Command {
		return one, err
	}
	if run != nil {
		one.Running, one.StartedAt = run.State == Running, run.StartedAt
	}
	if one.Running || one.Stopped != "" {
		return one, nil
	}
	w, err := s.wishOf(c, conf, a, run, s.ledger.Now())
	one.Wanted, one.NextAt = w.now, w.later
	if !w.fresh {
		w.first = last
	}
	if err == nil && w.first != "" {
		s.looked[a.Name] = w.first
	}
	return one, err
}

// wish holds the decision whether to start a session.
type wish struct {
	fresh bool      // a message was delivered since the last start
	first string    // when the first of these was delivered; only for transports other than the inbox
	now   bool      // start the session now
	later time.Time // when to start it, after a failure or after another session
}

// attendedPoll is the interval between checks whether a session that reads an agent's inbox has ended.
const attendedPoll = 2 * time.Second

// wishOf decides whether to start the session of an agent. The session must not be running.
func (s *Sessions) wishOf(c *store.Conn, conf *ledger.Config, a *ledger.Agent, run *Run, now time.Time) (w wish,
	err error) {
	status, _, err := agents.LatestStatus(c, a.Name)
	if err != nil || status == orchestrator.Stopped || a.KeptBack() {
		return w, err
	}
	var left bool
	if ReadsInbox(a) {
		w.fresh, left, err = inboxMail(c, a, run)
	} else if w.first, w.fresh, err = c.Text(firstDelivered, deliveredSince(a, run, s.looked[a.Name])...); err == nil &&
		!w.fresh && run != nil && run.State == Failed {
		left, err = unsettled(c, run.Through)
	}
	if err != nil {
		return w, err
	}
	if run != nil && run.State == GivenUp {
		left = false
	}
	if !w.fresh && !left {
		return w, nil
	}
	if by, err := Attended(c, s.ledger, a, now); by != "" || err != nil {
		w.later = now.Add(attendedPoll)
		return w, err
	}
	w.now = true
	if run == nil || run.NextAt == "" {
		return w, nil
	}
	// A time further ahead than the longest wait is left over from a clock that was set forward and then back.
	if next := orchestrator.ParseStamp(run.NextAt); next.After(now) &&
		!next.After(now.Add(slices.Max(conf.Settings.StartLadder))) {
		w.now, w.later = false, next
	}
	return w, nil
}

// Attended returns the name of a session that reads an agent's inbox and was not begun by the agent's start command,
// or "" if there is none. While such a session exists, the agent's start command is not run.
func Attended(c *store.Conn, l *ledger.Ledger, a *ledger.Agent, now time.Time) (by string, err error) {
	for _, p := range l.Parts {
		if p.Attended != nil && by == "" && err == nil && ReadsInbox(a) {
			by, err = p.Attended(c, a.Name, now)
		}
	}
	return by, err
}

// ReadsInbox reports whether the agent reads its messages in its inbox. For such an agent the tables show which
// messages have been read.
func ReadsInbox(a *ledger.Agent) bool {
	return a.Deliver == "inbox" || strings.HasPrefix(a.Deliver, "inbox:")
}

// noTest is a condition that excludes the messages that test a transport. The message is agent_message as m.
const noTest = `(m.sender IS DISTINCT FROM '` + orchestrator.SystemSender + `' OR m.message_type IS DISTINCT FROM '` +
	orchestrator.TestMessage + `')`

// unreadMail selects the unread entries in the inbox of ?1, as i, each with its message, as m.
const unreadMail = `FROM agent_inbox i LEFT JOIN agent_message m ON m.message_id = i.message_id
	AND m.recipient = i.recipient
	WHERE i.recipient = ?1 AND i.read_at = '' AND ` + noTest

// Inboxes are filled in the order of rowid. newestUnread selects the delivery time of the newest row of unreadMail.
// newerUnread selects whether any of the newest 1000 rows came after a start at ?2 that was for messages up to ?3.
const (
	newestUnread = `SELECT i.delivered_at ` + unreadMail + ` ORDER BY i.rowid DESC LIMIT 1`
	newerUnread  = `SELECT EXISTS (SELECT 1 FROM (SELECT i.delivered_at, m.seq ` + unreadMail +
		` ORDER BY i.rowid DESC LIMIT 1000) AS i
		WHERE delivered_at > ?2 OR delivered_at = ?2 AND seq > ?3)`
)

// inboxMail reports whether an agent's inbox holds unread messages (left), and whether any of them came after the
// last start (fresh). An agent that was given up may have many unread messages, so inboxMail does not scan all of
// them.
func inboxMail(c *store.Conn, a *ledger.Agent, run *Run) (fresh, left bool, err error) {
	if run == nil {
		run = &Run{}
	}
	newest, left, err := c.Text(newestUnread, a.Name)
	if err != nil || !left || newest != run.StartedAt {
		return newest > run.StartedAt, left, err
	}
	n, err := c.Number(newerUnread, a.Name, run.StartedAt, run.Through) // the newest is as old as the start
	return n != 0, left, err
}

// deliveredMail selects the messages that were delivered to ?1 through a transport other than the inbox since the
// last start at ?3, and that are neither read nor acknowledged. ?4 is the newest message that the start was for.
// Delivery times never go back, so the scan can begin at ?2, before which no message was found.
const deliveredMail = `FROM agent_message m
	WHERE m.ended_at <> '' AND m.ended_at >= ?2 AND m.ended_at >= ?3 AND NOT (m.ended_at = ?3 AND m.seq <= ?4)
	  AND m.recipient = ?1 AND m.status = 'delivered' AND m.read_at = '' AND m.acknowledged_at = '' AND ` + noTest

func deliveredSince(a *ledger.Agent, run *Run, looked string) []any {
	if run == nil {
		run = &Run{StartedAt: a.CreatedAt}
	}
	return []any{a.Name, max(looked, run.StartedAt), run.StartedAt, run.Through}
}

// firstDelivered selects the delivery time of the first row of deliveredMail.
const firstDelivered = `SELECT m.ended_at ` + deliveredMail + ` ORDER BY m.ended_at LIMIT 1`

// unsettled reports whether a message was delivered but neither read nor acknowledged.
func unsettled(c *store.Conn, seq int64) (bool, error) {
	n, err := c.Number(`SELECT count(*) FROM agent_message WHERE seq = ? AND status = 'delivered' AND read_at = ''
		AND acknowledged_at = ''`, seq)
	return n != 0, err
}

// mail describes the messages that a session is started for.
type mail struct {
	first           string // message_id of the first message to read
	traceID, spanID string // of the span of its send
	count           int
	through         int64    // seq of the newest message
	unread          []string // message_ids of the unread messages in the inbox, at most maxUnread
}

// maxUnread bounds the number of message ids that are kept with a run.
const maxUnread = 1000

// mailFor collects the messages that a session is started for. For a transport other than the inbox, it does not
// count the messages of earlier, failed runs again.
func mailFor(c *store.Conn, a *ledger.Agent, run *Run, looked string) (m mail, err error) {
	from, args := deliveredMail, deliveredSince(a, run, looked)
	if ReadsInbox(a) {
		from, args = unreadMail, []any{a.Name}
	}
	if err := c.Query(`SELECT count(*), coalesce(max(m.seq), 0) `+from, func(row store.Row) error {
		m.count, m.through = int(row.Int(0)), row.Int(1)
		return nil
	}, args...); err != nil {
		return m, err
	}
	id := "m.message_id"
	if ReadsInbox(a) {
		id = "i.message_id"
	} else if m.count == 0 && run != nil {
		from, args = `FROM agent_message m WHERE m.seq = ?1`, []any{run.Through}
		m.count = 1
	}
	err = c.Query(`SELECT `+id+`, m.trace_id, m.span_id `+from+`
		ORDER BY CASE m.action WHEN 'interrupt' THEN 0 ELSE 1 END, m.priority DESC, m.seq
			LIMIT +`+fmt.Sprint(maxUnread), func(row store.Row) error {
		if m.first == "" {
			m.first, m.traceID, m.spanID = row.Text(0), row.Text(1), row.Text(2)
		}
		if ReadsInbox(a) {
			m.unread = append(m.unread, row.Text(0))
		}
		return nil
	}, args...)
	return m, err
}
