package hosts

import (
	"context"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// session is a row of host_sessions.
type session struct {
	state     string // working, idle, ended; "" is none known
	pid       int
	born      string
	turns     int // caused by messages since the user last said anything
	continued int // ends of turns in a row that messages have put off
	seenAt    string
	nudgedAt  string // when its waiter last woke it, which counted a turn
}

// known is what the tables have about a session before an event.
type known struct {
	row    session
	leases []lease // on what was shown to it and is not settled
	other  string  // another session of the agent, of which it is to be told
}

// lease is what a session was shown, and is not settled.
type lease struct {
	messages.Lease
	mark  string // of its message
	again bool   // the message was handed back after an earlier showing, and is not read since
}

func look(ctx context.Context, l *ledger.Ledger, e *Event) (k known, err error) {
	err = l.Look(ctx, func(c *store.Conn) error {
		k = known{}
		err := c.Query(`SELECT state, pid, born, turns, continued, seen_at, nudged_at FROM host_sessions WHERE agent = ?
			AND session = ?`, func(row store.Row) error {
			k.row = session{row.Text(0), int(row.Int(1)), row.Text(2), int(row.Int(3)), int(row.Int(4)), row.Text(5),
				row.Text(6)}
			return nil
		}, e.Agent, e.Session)
		if err == nil {
			err = k.findLeases(c, e)
		}
		if err == nil && (e.Kind == Started || e.Kind == Prompted) {
			err = k.otherSession(c, e, l.Now())
		}
		return err
	})
	return k, err
}

func (k *known) findLeases(c *store.Conn, e *Event) error {
	found, err := messages.SessionLeases(c, e.Agent, e.Session)
	if len(found) == 0 || err != nil {
		return err
	}
	key, err := readMarkKey(c)
	if err != nil {
		return err
	}
	for i := range found {
		own := lease{Lease: found[i]}
		if own.mark, err = markOf(c, key, &own.Lease); err != nil {
			return err
		}
		if own.again, err = messages.HandedBack(c, own.ID); err != nil {
			return err
		}
		k.leases = append(k.leases, own)
	}
	return nil
}

// otherSession returns another session of the agent that gets its messages; "" is none, and, where the user goes on
// with a session, one of which it was told before.
func (k *known) otherSession(c *store.Conn, e *Event, now time.Time) error {
	found, err := list(c, now, `agent = ?`, e.Agent)
	for i := range found {
		s := &found[i]
		isNew := e.Kind == Started || s.Since > k.row.seenAt
		if s.Name != e.Session && s.attends(now) && isNew && (s.id.PID == 0 || s.id != e.Process) {
			k.other = s.Name
			return err
		}
	}
	return err
}

// state returns in what state an event leaves its session.
func (e *Event) state() string {
	if e.stays != "" {
		return e.stays
	}
	switch e.Kind {
	case Started, Stopped, Rested:
		return "idle"
	case Ended:
		return "ended"
	}
	return "working"
}

// changes reports whether an event leaves anything to write.
func (k *known) changes(e *Event, verdicts map[string]verdict, now time.Time) bool {
	if k.row.state != e.state() || k.row.pid != e.Process.PID || k.row.born != e.Process.Born || e.Kind == Started ||
		e.Kind == Prompted {
		return true
	}
	for _, v := range verdicts {
		if v != wait {
			return true
		}
	}
	seen := orchestrator.ParseStamp(k.row.seenAt)
	return now.Sub(seen) >= quietWrite || len(k.leases) > 0 && e.Process.PID == 0
}

// note stores what an event tells of its session, and what becomes of what was shown to it.
func note(t *ledger.Tx, e *Event, verdicts map[string]verdict) error {
	prompted := 0 // the user has said something, so that messages may cause turns again
	if e.Kind == Prompted {
		prompted = 1
	}
	if err := t.Run(`
		INSERT INTO host_sessions (agent, session, program, state, host, pid, born, started_at, seen_at, prompted_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, CASE WHEN ?9 = 1 THEN ?8 ELSE '' END)
		ON CONFLICT (agent, session) DO UPDATE SET program = ?3, state = ?4, host = ?5, pid = ?6, born = ?7,
			seen_at = ?8,
			prompted_at = CASE WHEN ?9 = 1 THEN ?8 ELSE host_sessions.prompted_at END,
			turns = CASE WHEN ?9 = 1 THEN 0 ELSE host_sessions.turns END,
			continued = CASE WHEN ?9 = 1 THEN 0 ELSE host_sessions.continued END`,
		e.Agent, e.Session, e.Program, e.state(), e.Process.Host(), e.Process.PID, e.Process.Born, t.Now,
		prompted); err != nil {
		return err
	}
	leases, err := messages.SessionLeases(t.Conn, e.Agent, e.Session)
	if err != nil {
		return err
	}
	for i := range leases {
		lease := &leases[i]
		switch verdicts[lease.ID] {
		case isRead:
			err = messages.ConfirmShown(t, lease, "seen by the model in session "+e.Session)
		case isLost:
			err = messages.GiveBack(t, lease, "the model in session "+e.Session+" has not seen it; unread again")
		default:
			if e.Kind != Ended { // then another process has gone on with the session
				grant := e.lease()
				err = messages.Prolong(t, lease, &grant)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// beginTurn notes that messages begin a turn, or go on with one, and counts that.
func beginTurn(t *ledger.Tx, e *Event, counts bool) error {
	counted, continued := 0, 0
	if counts {
		counted = 1
	}
	if e.Kind == Stopped {
		continued = 1
	}
	return t.Run(`UPDATE host_sessions SET state = 'working', turns = turns + ?4,
		continued = CASE WHEN ?3 = 1 THEN continued + 1 ELSE 0 END
		WHERE agent = ?1 AND session = ?2`, e.Agent, e.Session, continued, counted)
}
