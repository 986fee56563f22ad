package hosts

import (
	"context"
	"os"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/store"
)

const (
	// idleBeforeWake is how long a session must have been idle before it is woken. The hook that ends a turn first
	// records that the session is idle, and takes the messages a moment later.
	idleBeforeWake = 500 * time.Millisecond
	// busyEnough is how long a message waits at most for a working session.
	busyEnough = 30 * time.Second
	// oneNudge is how long a session is not woken again for the same message.
	oneNudge = 2 * time.Minute
)

// Outlook is the next action of a Waiter.
type Outlook int

// The actions of a Waiter.
const (
	Quiet Outlook = iota // nothing waits for the session: look again when a message arrives
	Soon                 // a message waits, but it is too early: look again in a moment
	Over                 // no more wakes for the session, or not by this waiter
	Wake                 // wake the session
)

// Waiter is the process that wakes a session when messages have arrived. A session has one at a time.
type Waiter struct {
	ledger  *ledger.Ledger
	agent   string
	session string
	stays   bool
	self    process.ID
	busy    time.Time // since when a message waits for a working session; zero: none does
}

// waiters maps each sessionKey to its waiter in this process. A process that runs command lines for other machines
// may have several waiters for a session; the newest counts.
var waiters sync.Map

type sessionKey struct{ database, agent, session string }

func (w *Waiter) key() sessionKey { return sessionKey{w.ledger.Path(), w.agent, w.session} }

// NewWaiter registers a waiter for the event's session until ctx ends. It returns nil if another living process is
// the waiter already. It replaces another waiter of this process and, with stays, also that of any other process;
// the next Look of the replaced waiter returns Over. With stays the waiter remains registered after it has woken
// the session. Errors: those of the database; unknown_recipient for an unknown agent.
func NewWaiter(ctx context.Context, l *ledger.Ledger, e Event, stays bool) (*Waiter, error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	if conf.Agents[e.Agent] == nil {
		return nil, orchestrator.Errorf(orchestrator.UnknownRecipient, "unknown agent %q", e.Agent)
	}
	w := &Waiter{ledger: l, agent: e.Agent, session: e.Session, stays: stays, self: process.Of(os.Getpid())}
	taken := false
	err = l.Write(ctx, store.Of(e.Agent), func(t *ledger.Tx) error {
		taken = false
		err := t.Query(`SELECT host, waiter_pid, waiter_born FROM host_sessions WHERE agent = ? AND session = ?`,
			func(row store.Row) error {
				other := process.ID{PID: int(row.Int(1)), Born: row.Text(2), Space: w.self.Space}
				taken = row.Text(0) == w.self.Host() && other != w.self && other.Here()
				return nil
			}, e.Agent, e.Session)
		if taken = taken && !stays; err != nil || taken {
			return err
		}
		// The hook that reports that the session begins or continues may come later.
		return t.Run(`
			INSERT INTO host_sessions (agent, session, program, state, host, pid, born, waiter_pid, waiter_born,
				started_at, seen_at)
			VALUES (?1, ?2, ?3, 'idle', ?4, ?5, ?6, ?7, ?8, ?9, ?9)
			ON CONFLICT (agent, session) DO UPDATE SET host = ?4, pid = ?5, born = ?6, waiter_pid = ?7,
				waiter_born = ?8,
			    state = CASE WHEN host_sessions.state = 'ended' THEN 'idle' ELSE host_sessions.state END`,
			e.Agent, e.Session, e.Program, e.Process.Host(), e.Process.PID, e.Process.Born, w.self.PID, w.self.Born,
			t.Now)
	})
	if err != nil || taken {
		return nil, err
	}
	waiters.Store(w.key(), w)
	context.AfterFunc(ctx, func() { waiters.CompareAndDelete(w.key(), w) })
	return w, nil
}

// Look returns the next action, and with Wake the number of messages. It returns Wake if the session is idle, or
// has let messages wait for busyEnough, provided that messages have not woken it too often and that no session of
// the agent was woken for these messages a moment ago. The waiter is then done, unless it stays. Look writes only
// when it returns Wake.
func (w *Waiter) Look(ctx context.Context) (does Outlook, n int, err error) {
	err = w.ledger.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		does, n, _, err = w.look(c, conf)
		return err
	})
	if err != nil || does != Wake {
		return does, n, err
	}
	err = w.ledger.Write(ctx, store.Of(w.agent), func(t *ledger.Tx) (err error) {
		var newest int64
		if does, n, newest, err = w.look(t.Conn, t.Config()); err != nil || does != Wake {
			return err
		}
		next := process.ID{}
		if w.stays {
			next = w.self
		}
		// The turn counts even if its hook shows nothing because the message was read or cancelled meanwhile: the
		// turn costs money.
		return t.Run(`UPDATE host_sessions SET waiter_pid = ?5, waiter_born = ?6, turns = turns + 1, nudged_seq = ?3,
			nudged_at = ?4
			WHERE agent = ?1 AND session = ?2`, w.agent, w.session, newest, t.Now, next.PID, next.Born)
	})
	if does == Wake {
		w.busy = time.Time{}
	}
	return does, n, err
}

// look determines the next action without writing. newest is the seq of the newest message.
func (w *Waiter) look(c *store.Conn, conf *ledger.Config) (does Outlook, n int, newest int64, err error) {
	now, does := w.ledger.Now(), Over
	idle := false
	err = c.Query(`SELECT state, turns, seen_at, waiter_pid, waiter_born FROM host_sessions WHERE agent = ?
		AND session = ?`, func(row store.Row) error {
		state := row.Text(0)
		if state != "ended" && int(row.Int(1)) < conf.Settings.HookTurns && int(row.Int(3)) == w.self.PID &&
			row.Text(4) == w.self.Born {
			if newest, _ := waiters.Load(w.key()); newest == w {
				does = Quiet
			}
		}
		idle = state == "idle" && now.Sub(orchestrator.ParseStamp(row.Text(2))) >= idleBeforeWake
		return nil
	}, w.agent, w.session)
	if err != nil || does == Over {
		return Over, 0, 0, err
	}
	n, newest, waiting, err := w.waiting(c, conf, now)
	switch {
	case err != nil:
		return Soon, 0, 0, err
	case !waiting:
		w.busy = time.Time{}
		return Quiet, 0, 0, nil
	case idle && n > 0:
		return Wake, n, newest, nil
	case w.busy.IsZero():
		w.busy = now
	case n > 0 && now.Sub(w.busy) >= busyEnough:
		return Wake, n, newest, nil
	}
	return Soon, 0, 0, nil
}

// needs returns the weakest wake with which a message alone causes the event to show messages, depending on the
// cost.
func (e *Event) needs() orchestrator.Wake {
	switch {
	case e.Kind == Rested, e.Kind == Started && e.Settled:
		return orchestrator.WakeNow // a turn begins
	case e.Kind == Stopped, e.Kind == Woken && e.Settled:
		return orchestrator.WakeRest // the turn goes on
	}
	return orchestrator.WakeNever // the turn goes on anyway
}

// matters reports whether an unread message justifies the cost of showing messages. If so, all are shown.
func (e *Event) matters(ctx context.Context, l *ledger.Ledger) (matters bool, err error) {
	needs := e.needs()
	if needs == orchestrator.WakeNever {
		return true, nil
	}
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		matters = false
		return waits(c, conf, e.Agent, l.Now(), 0, func(wake orchestrator.Wake, _ int, _ int64) {
			matters = matters || wake.AtLeast(needs)
		})
	})
	return matters, err
}

// wakeRules returns the wake rules of an agent.
func wakeRules(conf *ledger.Config, agent string) orchestrator.WakeRules {
	if a := conf.Agents[agent]; a != nil {
		return a.WakeRules()
	}
	return nil // the agent was removed a moment ago
}

// waiting counts the unread messages for which the session can be woken now. any reports whether there are such
// messages, including those for which a session of the agent was woken a moment ago.
func (w *Waiter) waiting(c *store.Conn, conf *ledger.Config, now time.Time) (n int, newest int64, any bool,
	err error) {
	nudged, err := c.Number(`SELECT coalesce(max(nudged_seq), 0) FROM host_sessions WHERE agent = ? AND nudged_at > ?`,
		w.agent, orchestrator.Stamp(now.Add(-oneNudge)))
	if err != nil {
		return 0, 0, false, err
	}
	err = waits(c, conf, w.agent, now, nudged, func(wake orchestrator.Wake, newer int, last int64) {
		if wake == orchestrator.WakeNow {
			n, newest, any = n+newer, max(newest, last), true
		}
	})
	return n, newest, any, err
}

// waits calls each for the unread messages to an agent, delivered or not, that no digest has listed and that its
// budget allows to be shown. It groups messages with the same wake. newer is the number of messages in the group
// with a seq greater than after, and last is the greatest seq.
func waits(c *store.Conn, conf *ledger.Config, agent string, now time.Time, after int64,
	each func(wake orchestrator.Wake, newer int, last int64)) error {
	budget, err := cost.Left(c, conf, agent, now)
	if err != nil {
		return err
	}
	rules := wakeRules(conf, agent)
	const columns = `SELECT m.seq, m.message_type, m.action, m.wake, octet_length(m.payload) AS size,
			CASE WHEN m.priority < 0 THEN -1 WHEN m.priority > 1 THEN 2 ELSE 0 END AS priority,
			CASE WHEN m.sender IN ('` + orchestrator.SystemSender + `', '` + orchestrator.User +
		`') OR m.action = 'interrupt' OR m.priority > 1 THEN m.sender ELSE '' END AS sender `
	return c.Query(`
		SELECT message_type, action, wake, priority, sender, min(size), sum(CASE WHEN seq > ?3 THEN 1 ELSE 0 END), max(seq) FROM (
		    `+columns+`FROM agent_inbox i JOIN agent_message m ON m.message_id = i.message_id AND m.recipient = i.recipient
		    WHERE i.recipient = ?2 AND i.read_at = '' AND i.told_in = '' AND (m.ttl_seconds IS NULL OR m.expires_at > ?1)
		    UNION ALL `+columns+`FROM agent_message m WHERE `+ledger.Takeable+` AND (m.expires_at = '' OR m.expires_at > ?1)) AS u
		GROUP BY message_type, action, wake, priority, sender`,
		func(row store.Row) error {
			m := orchestrator.Message{Type: row.Text(0), Action: row.Text(1), Wake: orchestrator.Wake(row.Text(2)),
				Priority: int(row.Int(3)), Sender: row.Text(4)}
			if budget.Allows(&m, int(row.Int(5))) {
				wake, _ := rules.WakeOf(&m)
				each(wake, int(row.Int(6)), row.Int(7))
			}
			return nil
		}, orchestrator.Stamp(now), agent, after)
}
