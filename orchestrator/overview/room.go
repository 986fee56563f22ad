package overview

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/store"
)

// Room holds the agents, and who wrote to whom in the last hour.
type Room struct {
	Since  string   `json:"since"`         // messages from this time on are counted
	Cut    bool     `json:"cut,omitempty"` // whether there were more messages; only the newest are counted
	Agents []Member `json:"agents"`
	Pairs  []Pair   `json:"pairs"` // those with the most messages first
	// Costs is how much each sender added to each recipient's context in this clock hour and the one before, the most
	// expensive first.
	Costs []cost.Pair `json:"costs"`
}

// Member is an agent, or a name that no agent has and that received a message.
type Member struct {
	Name     string    `json:"name"`
	Known    bool      `json:"known"` // false: no agent has this name
	BuiltIn  bool      `json:"built_in,omitempty"`
	State    Condition `json:"state"`
	HeardAt  string    `json:"heard_at,omitempty"` // when it last sent, read, waited or was seen working
	Pending  int64     `json:"pending"`            // not delivered yet
	Unread   int64     `json:"unread"`
	OldestAt string    `json:"oldest_at,omitempty"` // since when a message has been undelivered or unread
	Failed   int64     `json:"failed"`              // dead letters

	backlog    RecipientBacklog
	agent      *ledger.Agent
	hookAt     string                      // when a hook of its agent host was last called
	readAt     string                      // when it last read a message
	unreadAt   string                      // when its oldest unread message arrived
	failedAt   string                      // when a message to it failed, if in the last hour
	lastStatus orchestrator.PresenceStatus // the status that it last reported
	lastSince  string
	beatAt     string        // when it was last heard from, if its silence has a limit
	silentAt   string        // when that limit is reached
	toldAt     string        // when its silence was reported
	run        *sessions.Run // the last run of its start command; nil if there was none
	waits      bool          // whether it waits for messages right now
}

// Pair counts the messages from one sender to one recipient.
type Pair struct {
	Sender    string `json:"sender"`
	Recipient string `json:"recipient"`
	Messages  int64  `json:"messages"`
	Failed    int64  `json:"failed,omitempty"`  // failed in that hour, whenever they were sent
	Retry     int64  `json:"retry,omitempty"`   // an attempt failed, and another will follow
	Pending   int64  `json:"pending,omitempty"` // without those counted in Retry
	Unread    int64  `json:"unread,omitempty"`  // in the recipient's inbox
	LastAt    string `json:"last_at"`
}

const (
	roomTime  = time.Hour // how far back messages are examined
	roomRows  = 5000      // how many messages are examined, newest first
	roomStep  = 500       // how many rows one query reads
	roomLimit = 50 * time.Millisecond
	maxCosts  = 100 // in pairs
)

// flow counts messages from one sender to one recipient that are in the same state.
type flow struct {
	sender, recipient string
	status            orchestrator.Status
	unread            bool
	messages          int64
	lastAt            string // when the last of them was sent
	lately            int64  // how many of the messages were sent within exchangeTime
}

// snapshot is the data for Room and the checks: the agents, the messages of the last hour, and the newest dead
// letters.
type snapshot struct {
	c       *store.Conn
	l       *ledger.Ledger
	conf    *ledger.Config
	now     time.Time
	members map[string]*Member
	recent  []flow
	from    int64            // the sequence number of the first row that recent counts
	letters []deadLetter     // newest first
	pushes  map[string]int64 // failed pushes by device
	cut     bool
}

// LookAround returns the agents, and who wrote to whom in the last hour. Its cost does not grow with the number of
// messages: if there are more than 5,000 in that time, only the newest are counted.
func LookAround(ctx context.Context, l *ledger.Ledger) (r Room, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		s, err := takeSnapshot(c, l, conf)
		if err != nil {
			return err
		}
		r = Room{Since: orchestrator.Stamp(s.now.Add(-roomTime)), Cut: s.cut, Agents: []Member{}, Pairs: s.pairs()}
		for _, m := range s.members {
			m.State = s.condition(m)
			r.Agents = append(r.Agents, *m)
		}
		slices.SortFunc(r.Agents, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
		r.Costs, err = cost.Pairs(c, s.now.Add(-roomTime), 0, 0, maxCosts)
		return err
	})
	return r, err
}

// takeSnapshot reads the data for Room and the checks.
func takeSnapshot(c *store.Conn, l *ledger.Ledger, conf *ledger.Config) (*snapshot, error) {
	s := &snapshot{c: c, l: l, conf: conf, now: l.Now(), members: map[string]*Member{}, pushes: map[string]int64{}}
	for name, agent := range conf.Agents {
		if !push.IsMailbox(name) {
			continue // a phone: see checkPhones
		}
		s.members[name] = &Member{Name: name, Known: true, BuiltIn: agent.BuiltIn, agent: agent}
	}
	for _, step := range []func() error{s.walk, s.waiting, s.heard, s.findLetters} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// of returns the member with a name, and adds one if no agent has the name.
func (s *snapshot) of(name string) *Member {
	m := s.members[name]
	if m == nil {
		m = &Member{Name: name}
		s.members[name] = m
	}
	return m
}

// walk counts the newest messages of the last hour, until roomRows or roomLimit is reached. The time limit is needed
// because reading a column stored after a payload costs as much as the payload is long.
func (s *snapshot) walk() error {
	since, until, before := orchestrator.Stamp(s.now.Add(-roomTime)), time.Now().Add(roomLimit), int64(math.MaxInt64)
	for n := 0; ; n += roomStep {
		from, at := int64(math.MinInt64), ""
		err := s.c.Query(`SELECT seq, created_at FROM agent_message WHERE seq < ?1 ORDER BY seq DESC
			LIMIT 1 OFFSET +?2`, func(row store.Row) error {
			from, at = row.Int(0), row.Text(1)
			return nil
		}, before, roomStep-1)
		if err != nil {
			return err
		}
		flows, err := store.List(s.c, func(row store.Row) flow {
			return flow{row.Text(0), row.Text(1), orchestrator.Status(row.Text(2)), row.Int(3) == 1, row.Int(4),
				row.Text(5), row.Int(6)}
		}, `SELECT sender, recipient, status, CASE read_at WHEN '' THEN 1 ELSE 0 END AS unread, count(*),
			max(created_at),
			sum(CASE WHEN created_at >= ?4 THEN 1 ELSE 0 END) FROM agent_message
			WHERE seq >= ?1 AND seq < ?2 AND created_at >= ?3 AND recipient NOT LIKE 'thread:%'
				AND coalesce(message_type, '') <> '`+orchestrator.TestMessage+`'
			GROUP BY sender, recipient, status, unread`, from, before, since,
			orchestrator.Stamp(s.now.Add(-exchangeTime)))
		if err != nil {
			return err
		}
		s.recent, s.from = append(s.recent, flows...), from
		if at < since { // at is also "" if there are no more rows
			return nil
		}
		if before = from; n+roomStep >= roomRows || time.Now().After(until) {
			s.cut = true
			return nil
		}
	}
}

// waiting adds the messages that wait for each recipient, and those that failed.
func (s *snapshot) waiting() error {
	counts, err := ledger.Counts(s.c)
	if err != nil {
		return err
	}
	list, err := backlogs(s.c, s.conf, counts, s.now)
	if err != nil {
		return err
	}
	if err := errors.Join(addUnread(s.c, list), addSessions(s.c, list, s.now)); err != nil {
		return err
	}
	for _, b := range list {
		if !push.IsMailbox(b.Recipient) {
			continue
		}
		m := s.of(b.Recipient)
		m.backlog, m.Pending, m.Unread, m.unreadAt, m.OldestAt = b, b.Pending+b.Retry, b.Unread, b.UnreadSince,
			earlier(b.OldestAt, b.UnreadSince)
		for _, session := range b.Sessions {
			m.HeardAt = max(m.HeardAt, session.SeenAt)
		}
	}
	for name, of := range counts {
		switch n := of[orchestrator.Failed] + of[orchestrator.Expired]; {
		case !push.IsMailbox(name):
			s.pushes[name] = n
		case n > 0:
			s.of(name).Failed = n
		}
	}
	return nil
}

// heard adds when each agent was last heard from, and the status that it reported.
func (s *snapshot) heard() error {
	for i := range s.recent {
		w := &s.recent[i]
		if m := s.members[w.sender]; m != nil {
			m.HeardAt = max(m.HeardAt, w.lastAt)
		}
	}
	runs, err := sessions.LastRuns(s.c)
	if err != nil {
		return err
	}
	for name, run := range runs {
		if m := s.members[name]; m != nil {
			m.run = run
			m.HeardAt = max(m.HeardAt, run.StartedAt, run.Since)
		}
	}
	now := orchestrator.Stamp(s.now)
	for _, ask := range []struct {
		query string
		args  []any
		take  func(m *Member, row store.Row)
	}{
		{`SELECT agent, heard_at, silent_at, told_at FROM heartbeats`, nil, func(m *Member, row store.Row) {
			m.beatAt, m.silentAt, m.toldAt = row.Text(1), row.Text(2), row.Text(3)
			m.HeardAt = max(m.HeardAt, m.beatAt)
		}},
		{`SELECT agent, status, since FROM presence ORDER BY since, rowid`, nil, func(m *Member, row store.Row) {
			if at := row.Text(2); at >= m.lastSince {
				m.lastStatus, m.lastSince = orchestrator.PresenceStatus(row.Text(1)), at
				m.HeardAt = max(m.HeardAt, at)
			}
		}},
		{`SELECT agent, max(seen_at) FROM host_sessions GROUP BY agent`, nil, func(m *Member, row store.Row) {
			m.hookAt = row.Text(1)
			m.HeardAt = max(m.HeardAt, m.hookAt)
		}},
		{`SELECT waiter, since FROM waits WHERE until > ?1`, []any{now}, func(m *Member, _ store.Row) {
			m.HeardAt, m.waits = now, true
		}},
		// the few events that the table traffic does not count yet
		{`SELECT m.recipient, max(t.at), max(CASE WHEN t.event = 'read' THEN t.at END) FROM message_trace AS t
			JOIN agent_message AS m ON m.message_id = t.message_id
			WHERE t.id > (SELECT max(id) - 1000 FROM message_trace) AND t.event IN ('read', 'shown')
			GROUP BY m.recipient`, nil, s.counted},
		{`SELECT recipient, max(at), max(CASE WHEN read > 0 THEN at END) FROM traffic WHERE span = 'hour' AND at >= ?1
			AND read + wrote > 0 GROUP BY recipient`,
			[]any{orchestrator.Stamp(s.now.Add(-7 * orchestrator.Day))}, s.counted},
		{`SELECT recipient, max(at), max(CASE WHEN read > 0 THEN at END) FROM traffic WHERE span = 'minute' AND at >= ?1
			AND read + wrote > 0 GROUP BY recipient`,
			[]any{orchestrator.Stamp(s.now.Add(-3 * time.Hour))}, s.counted},
	} {
		err := s.c.Query(ask.query, func(row store.Row) error {
			if m := s.members[row.Text(0)]; m != nil {
				ask.take(m, row)
			}
			return nil
		}, ask.args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// counted records when an agent last wrote or read a message. The time may be the start of the minute or hour in
// which it did.
func (s *snapshot) counted(m *Member, row store.Row) {
	m.HeardAt = max(m.HeardAt, row.Text(1))
	m.readAt = max(m.readAt, row.Text(2))
}

// patience is how many times overdue.after a message may remain unread by an agent that does other things meanwhile.
const patience = 12

// unreadTooLong reports whether nobody reads an agent's messages. That is so if one has been unread for longer than
// overdue.after, and the agent was not heard from since it arrived; or if one has been unread for longer than
// patience times overdue.after, and the agent has read nothing since, whatever else it does.
func (s *snapshot) unreadTooLong(m *Member) bool {
	if m.unreadAt == "" || m.Name == orchestrator.User {
		return false
	}
	lies, limit := s.now.Sub(orchestrator.ParseStamp(m.unreadAt)), s.conf.Settings.OverdueAfter
	minute := orchestrator.Stamp(orchestrator.ParseStamp(m.unreadAt).Truncate(time.Minute)) // as reads are counted
	return lies > limit && m.HeardAt < minute || lies > patience*limit && m.readAt < minute
}

// pairs counts the messages of the last hour by sender and recipient, and those that failed in that time. It skips
// messages from Mailroom itself, and pushes.
func (s *snapshot) pairs() []Pair {
	found := map[[2]string]*Pair{}
	of := func(sender, recipient, at string) *Pair {
		if sender == orchestrator.SystemSender || !push.IsMailbox(recipient) {
			return &Pair{} // is discarded
		}
		p := found[[2]string{sender, recipient}]
		if p == nil {
			p = &Pair{Sender: sender, Recipient: recipient}
			found[[2]string{sender, recipient}] = p
		}
		p.LastAt = max(p.LastAt, at)
		return p
	}
	for i := range s.recent {
		w := &s.recent[i]
		p := of(w.sender, w.recipient, w.lastAt)
		p.Messages += w.messages
		switch w.status {
		case orchestrator.Retry:
			p.Retry += w.messages
		case orchestrator.Pending:
			p.Pending += w.messages
		case orchestrator.Delivered:
			if m := s.members[w.recipient]; w.unread && m != nil && m.Unread > 0 {
				p.Unread += w.messages
			}
		}
	}
	since := orchestrator.Stamp(s.now.Add(-roomTime))
	for i := range s.letters {
		if w := &s.letters[i]; w.ended >= since {
			of(w.sender, w.recipient, w.at).Failed++
		}
	}
	list := make([]Pair, 0, len(found))
	for _, p := range found {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Sender, b.Sender),
			cmp.Compare(a.Recipient, b.Recipient))
	})
	return list
}
