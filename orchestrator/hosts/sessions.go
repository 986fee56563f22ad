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
	state     string // working, idle, ended; "" is unknown
	pid       int
	born      string
	turns     int // caused by messages since the user's last prompt
	continued int // consecutive ends of turns that messages have put off
	seenAt    string
	nudgedAt  string // when its waiter last woke it and counted a turn
}

// known is the stored state of a session before an event.
type known struct {
	row    session
	leases []lease // on messages that were shown to it and are not settled
	other  string  // another session of the agent, to be reported to this one
}

// lease is a message that was shown to a session and is not settled.
type lease struct {
	messages.Lease
	mark  string // of its message
	again bool   // the message was handed back after an earlier showing and has not been read since
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

// otherSession sets k.other to another session of the agent that gets its messages. If the user continues a
// session, only sessions that began after its last event count.
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

// state returns the state of the session after the event.
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

// changes reports whether an event requires a write.
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

// note stores the session's state after an event, and the decisions about the messages that were shown to it.
func note(t *ledger.Tx, e *Event, verdicts map[string]verdict) error {
	prompted := 0 // the user has entered a prompt, so messages may cause turns again
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
			if e.Kind != Ended { // otherwise another process has continued the session
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

// beginTurn records that messages begin or prolong a turn, and counts the turn if counts is set.
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
