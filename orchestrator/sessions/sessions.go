// Package sessions decides when to run an agent's start command because messages wait for the agent, and records
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

// Part returns what sessions add to the engine: they follow changes of their agents.
func Part() *ledger.Part {
	return &ledger.Part{Name: "sessions", AgentChanged: startChanged, Forget: forgetRuns}
}

// Sessions manages the sessions of a database's agents. Look and Begin must not be called concurrently with each
// other. Started and End may be called at any time.
type Sessions struct {
	ledger *ledger.Ledger

	// looked maps each agent to a time before which no message was delivered that its session has not seen, so that
	// Look need not scan older rows again. It omits agents whose transport is the inbox.
	looked map[string]string
}

// New returns a Sessions for a database.
func New(l *ledger.Ledger) *Sessions { return &Sessions{ledger: l, looked: map[string]string{}} }

// Session describes the session of an agent for a watchdog.
type Session struct {
	Agent     string
	Command   bool      // it has a start command; otherwise only Stopped counts
	Running   bool      // it runs, as far as the tables show
	StartedAt string    // of the last run
	Stopped   string    // when the agent stopped; "" if it has not
	Wanted    bool      // messages wait for it, and it may be started now
	NextAt    time.Time // when it may be started for the waiting messages; zero: now or never
}

// Look returns the sessions of all agents of this host that have a start command or that get their messages through
// the transport exec.
func (s *Sessions) Look(ctx context.Context) (list []Session, err error) {
	var conf *ledger.Config
	var agents []*ledger.Agent
	// This single statement is all that runs if no agent has a command.
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

// lookAt describes the session of one agent. last is the time of the last delivery to any agent.
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

// wish describes whether a session is to be started.
type wish struct {
	fresh bool      // a message was delivered since the last start
	first string    // when the first of them was delivered, by another transport than the inbox
	now   bool      // it is to be started now
	later time.Time // when it is to be started, after a failure or another session
}

// attendedPoll is the interval for checking whether a session that reads an agent's inbox has ended.
const attendedPoll = 2 * time.Second

// wishOf decides whether to start the session of an agent whose session is not running.
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
	// A time further ahead than any wait results from a clock that was set forward and back.
	if next := orchestrator.ParseStamp(run.NextAt); next.After(now) &&
		!next.After(now.Add(slices.Max(conf.Settings.StartLadder))) {
		w.now, w.later = false, next
	}
	return w, nil
}

// Attended returns the name of a session that reads an agent's inbox and was not started by the start command, or
// "" if there is none. While there is such a session, the agent's start command is not run.
func Attended(c *store.Conn, l *ledger.Ledger, a *ledger.Agent, now time.Time) (by string, err error) {
	for _, p := range l.Parts {
		if p.Attended != nil && by == "" && err == nil && ReadsInbox(a) {
			by, err = p.Attended(c, a.Name, now)
		}
	}
	return by, err
}

// ReadsInbox reports whether the agent reads its messages in its inbox, so that the tables show which ones it has
// read.
func ReadsInbox(a *ledger.Agent) bool {
	return a.Deliver == "inbox" || strings.HasPrefix(a.Deliver, "inbox:")
}

// noTest excludes messages that test a transport, of agent_message as m.
const noTest = `(m.sender IS DISTINCT FROM '` + orchestrator.SystemSender + `' OR m.message_type IS DISTINCT FROM '` +
	orchestrator.TestMessage + `')`

// unreadMail selects the unread messages in the inbox of ?1, as i, with their rows in agent_message, as m.
const unreadMail = `FROM agent_inbox i LEFT JOIN agent_message m ON m.message_id = i.message_id
	AND m.recipient = i.recipient
	WHERE i.recipient = ?1 AND i.read_at = '' AND ` + noTest

// Inboxes are filled in the order of rowid. newestUnread selects the delivery time of the last message of
// unreadMail. newerUnread selects whether any of the last messages came after a start at ?2 that was for messages
// up to ?3.
const (
	newestUnread = `SELECT i.delivered_at ` + unreadMail + ` ORDER BY i.rowid DESC LIMIT 1`
	newerUnread  = `SELECT EXISTS (SELECT 1 FROM (SELECT i.delivered_at, m.seq ` + unreadMail +
		` ORDER BY i.rowid DESC LIMIT 1000) AS i
		WHERE delivered_at > ?2 OR delivered_at = ?2 AND seq > ?3)`
)

// inboxMail reports whether an agent's inbox contains unread messages (left), and whether some of them came after
// the last start (fresh). It does not scan all unread messages, because an agent that was given up may have many.
func inboxMail(c *store.Conn, a *ledger.Agent, run *Run) (fresh, left bool, err error) {
	if run == nil {
		run = &Run{}
	}
	newest, left, err := c.Text(newestUnread, a.Name)
	if err != nil || !left || newest != run.StartedAt {
		return newest > run.StartedAt, left, err
	}
	n, err := c.Number(newerUnread, a.Name, run.StartedAt, run.Through) // in the millisecond of the start
	return n != 0, left, err
}

// deliveredMail selects the messages delivered to ?1 through another transport since the last start at ?3 that are
// not known to be handled. ?4 is the newest message that the start was for. Delivery times never decrease, so the
// scan can begin at ?2, before which nothing was found.
const deliveredMail = `FROM agent_message m
	WHERE m.ended_at <> '' AND m.ended_at >= ?2 AND m.ended_at >= ?3 AND NOT (m.ended_at = ?3 AND m.seq <= ?4)
	  AND m.recipient = ?1 AND m.status = 'delivered' AND m.read_at = '' AND m.acknowledged_at = '' AND ` + noTest

func deliveredSince(a *ledger.Agent, run *Run, looked string) []any {
	if run == nil {
		run = &Run{StartedAt: a.CreatedAt}
	}
	return []any{a.Name, max(looked, run.StartedAt), run.StartedAt, run.Through}
}

// firstDelivered selects the earliest delivery time of deliveredMail.
const firstDelivered = `SELECT m.ended_at ` + deliveredMail + ` ORDER BY m.ended_at LIMIT 1`

// unsettled reports whether the message with this seq was delivered and is not known to be handled.
func unsettled(c *store.Conn, seq int64) (bool, error) {
	n, err := c.Number(`SELECT count(*) FROM agent_message WHERE seq = ? AND status = 'delivered' AND read_at = ''
		AND acknowledged_at = ''`, seq)
	return n != 0, err
}

// mail describes the messages for which a session is started.
type mail struct {
	first           string // message_id of the first message
	traceID, spanID string // of its send
	count           int
	through         int64    // seq of the newest message
	unread          []string // message_ids of those in the inbox, at most maxUnread
}

// maxUnread is the maximum number of messages that are recorded as the cause of a session.
const maxUnread = 1000

// mailFor collects the messages for which a session is started. It does not count again the messages that failed
// runs have left and that came through another transport than the inbox.
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
