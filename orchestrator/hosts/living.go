package hosts

import (
	"context"
	"maps"
	"os"
	"slices"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/store"
)

// unprovedLife is how long a silent session counts as living if no process proves that it lives.
const unprovedLife = time.Hour

// Session is an agent's session in an agent host.
type Session struct {
	Agent   string `json:"-"`
	Name    string `json:"session"` // the host's name of the session
	Program string `json:"program"`
	State   string `json:"state"` // working or idle
	Since   string `json:"started_at"`
	SeenAt  string `json:"seen_at"`
	Wakes   bool   `json:"wakes,omitempty"` // a process wakes it when messages arrive

	living bool
	id     process.ID // of the host on this machine; zero if no process proves that the session lives
}

// Living lists the sessions that have not ended and whose process exists, sorted by agent.
func Living(c *store.Conn, now time.Time) (living []Session, err error) {
	list, err := list(c, now, everybody)
	for _, s := range list {
		if s.living {
			living = append(living, s)
		}
	}
	return living, err
}

// everybody is a condition for list that selects all agents.
const everybody = `agent <> ''`

// list lists sessions, including ended ones.
func list(c *store.Conn, now time.Time, where string, args ...any) ([]Session, error) {
	here := process.Of(os.Getpid())
	host := here.Host()
	sessions, err := store.List(c, func(row store.Row) Session {
		s := Session{Agent: row.Text(0), Name: row.Text(1), Program: row.Text(2), State: row.Text(3),
			SeenAt: row.Text(4), Since: row.Text(10)}
		s.living = s.State == IsWorking || s.State == IsIdle
		if row.Text(5) == host && row.Int(6) > 0 {
			s.id = process.ID{PID: int(row.Int(6)), Born: row.Text(7), Space: here.Space}
			s.living = s.living && s.id.Here()
		} else {
			s.living = s.living && now.Sub(orchestrator.ParseStamp(s.SeenAt)) < unprovedLife
		}
		waiter := process.ID{PID: int(row.Int(8)), Born: row.Text(9), Space: here.Space}
		s.Wakes = s.living && row.Text(5) == host && waiter.Here()
		return s
	}, `SELECT agent, session, program, state, seen_at, host, pid, born, waiter_pid, waiter_born, started_at
		FROM host_sessions WHERE `+where+`
		ORDER BY agent, seen_at, session`, args...)
	for i := range sessions { // a process that began another session for the agent has left this one
		s := &sessions[i]
		left := func(later Session) bool { return later.Agent == s.Agent && later.id == s.id }
		s.living = s.living && (s.id.PID == 0 || !slices.ContainsFunc(sessions[i+1:], left))
	}
	return sessions, err
}

// LastHeard returns when a hook of the host was last called for an agent (seen), and when the agent was last handed
// a message (shown), not counting the messages with which doctor tests a transport. For the agent auto it covers
// every agent that the host's sessions were given. "" is never.
func LastHeard(ctx context.Context, l *ledger.Ledger, program, agent string) (seen, shown string, err error) {
	const of = ` FROM host_sessions WHERE program = ?1 AND (agent = ?2 OR ?2 = ?3)`
	err = l.Look(ctx, func(c *store.Conn) error {
		if seen, _, err = c.Text(`SELECT coalesce(max(seen_at), '')`+of, program, agent,
			orchestrator.Auto); err != nil || seen == "" {
			return err
		}
		shown, _, err = c.Text(`SELECT coalesce(max(i.read_at), '') FROM agent_inbox i
			LEFT JOIN agent_message m ON m.message_id = i.message_id
			WHERE i.recipient IN (SELECT agent`+of+`) AND coalesce(m.message_type, '') <> ?4`, program, agent,
			orchestrator.Auto, orchestrator.TestMessage)
		return err
	})
	return seen, shown, err
}

// The presence of an agent, as its host's sessions show it.
const (
	IsWorking = "working"         // a session works; it sees a message after its next tool call or when the turn ends
	IsIdle    = "idle"            // a session is idle, and is woken if its host allows that
	NotWoken  = "idle, not woken" // a session is idle, and this message does not wake it
	OverSpent = "over budget"     // a session runs; it is shown no more messages before the next full hour
	NoHooks   = "no hooks"        // no host has reported a session of the agent
	NotThere  = "not running"     // all sessions have ended
	Abandoned = "session ended"   // not running, and the process that the agent was added for has ended: see NameOf
)

// Presence returns the presence of each of these agents: for the message d that is sent to them, or in general if d
// is nil. It leaves out agents without an inbox of which no host has reported a session. As long as no host has
// reported any session in this database, Presence returns nothing.
func Presence(ctx context.Context, l *ledger.Ledger, d *orchestrator.Draft, agents ...string) (known map[string]string, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		known, err = presenceIn(c, conf, d, l.Now(), agents)
		return err
	})
	return known, err
}

// PresenceIn returns the presence of agents, like Presence, within a transaction.
func PresenceIn(t *ledger.Tx, d *orchestrator.Draft, agents ...string) (map[string]string, error) {
	return presenceIn(t.Conn, t.Config(), d, t.Clock, agents)
}

func presenceIn(c *store.Conn, conf *ledger.Config, d *orchestrator.Draft, now time.Time, agents []string) (
	map[string]string, error) {
	if n, err := c.Number(`SELECT EXISTS (SELECT 1 FROM host_sessions)`); err != nil || n == 0 {
		return nil, err
	}
	where, args := everybody, []any(nil)
	if len(agents) == 1 {
		where, args = `agent = ?`, []any{agents[0]}
	}
	found, err := list(c, now, where, args...)
	if err != nil {
		return nil, err
	}
	known := presenceOf(conf, agents, found)
	if slices.Contains(slices.Collect(maps.Values(known)), NotThere) {
		names, err := givenNames(c, now)
		if err != nil {
			return nil, err
		}
		for _, g := range names {
			if known[g.agent] == NotThere && (g.ended || g.noted) {
				known[g.agent] = Abandoned
			}
		}
	}
	if d == nil {
		return known, nil
	}
	m := orchestrator.Message{Sender: d.Sender, Type: d.Type, Action: d.Action, Priority: d.Priority, Wake: d.Wake}
	for name, is := range known {
		if conf.HoldOf(d.Sender, name, orchestrator.Stamp(now)) != nil {
			delete(known, name) // whatever it does, it does not get the message now
			continue
		}
		if is != IsIdle && is != IsWorking {
			continue
		}
		budget, err := cost.Left(c, conf, name, now)
		if err != nil {
			return nil, err
		}
		if !budget.Allows(&m, len(d.Payload)) {
			known[name] = OverSpent
		} else if wake, _ := wakeRules(conf, name).WakeOf(&m); is == IsIdle && wake != orchestrator.WakeNow {
			known[name] = NotWoken
		}
	}
	return known, nil
}

// presenceOf derives the presence of these agents from these sessions.
func presenceOf(conf *ledger.Config, agents []string, found []Session) map[string]string {
	known := map[string]string{}
	for _, name := range agents {
		if agent := conf.Agents[name]; agent != nil && agent.Deliver == "inbox" {
			known[name] = NoHooks
		}
	}
	for i := range found {
		s := &found[i]
		if slices.Contains(agents, s.Agent) {
			known[s.Agent] = nearest(known[s.Agent], s)
		}
	}
	return known
}

// nearest returns the presence of an agent after one more session is taken into account.
func nearest(known string, s *Session) string {
	switch {
	case known == IsWorking || s.living && s.State == IsWorking:
		return IsWorking
	case known == IsIdle || s.living:
		return IsIdle
	}
	return NotThere
}

// attends reports whether a session gets its agent's messages without its user: the process of its host exists, a
// waiter will wake it, or it was working recently.
func (s *Session) attends(now time.Time) bool {
	busy := s.State == IsWorking && now.Sub(orchestrator.ParseStamp(s.SeenAt)) < unprovedLease
	return s.living && (s.id.PID > 0 || s.Wakes || busy)
}

// attended returns the name of a session that attends to an agent's messages, or "".
func attended(c *store.Conn, agent string, now time.Time) (string, error) {
	found, err := list(c, now, `agent = ?`, agent)
	for i := range found {
		if s := &found[i]; s.attends(now) {
			return s.Program + " " + s.Name, err
		}
	}
	return "", err
}
