package hosts

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/store"
)

const (
	// grace is how long an ended session's agent and its unread messages are kept, so that the session can be
	// resumed.
	grace = time.Hour
	// elsewhere is how long a silent process on another machine, which cannot be checked from here, counts as
	// living.
	elsewhere = 7 * orchestrator.Day
)

// Holder is a process of an agent host that gets its own agent.
type Holder struct {
	Program string     // the host
	Process process.ID // its sessions all have the same agent
	Words   []string   // of its command line; one may be the ID of a session that it resumes
}

// NameOf returns the agent of a process of an agent host. A process without an agent that resumes a session gets
// the agent of that session, if that session's process ended a short while ago. Otherwise an agent with a free name
// is added: claude, claude-2, and so on. Once the process has ended, the agent is removed after an hour, in which
// its session may be resumed, or at once if it has sent nothing and nothing waits for it. Its unread messages then
// expire, and their senders are notified.
//
// Errors: those of the database. NameOf does not create a missing database.
func NameOf(ctx context.Context, l *ledger.Ledger, h Holder) (agent string, err error) {
	err = l.Look(ctx, func(c *store.Conn) error {
		agent, err = h.name(c)
		return err
	})
	if err != nil || agent != "" {
		return agent, err
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if err := endNames(t); err != nil {
			return err
		}
		if agent, err = h.name(t.Conn); err != nil || agent != "" {
			return err
		}
		if agent, err = h.resumed(t.Conn); err != nil {
			return err
		}
		if agent == "" {
			agent = FreeName(t.Config(), h.Program)
			if _, _, err := agents.AddIn(t, agents.Update{Name: agent}); err != nil {
				return err
			}
		}
		return t.Run(`
			INSERT INTO given_names (agent, program, host, pid, born, given_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
			ON CONFLICT (agent) DO UPDATE SET program = ?2, host = ?3, pid = ?4, born = ?5, given_at = ?6,
				ends_at = ''`,
			agent, h.Program, h.Process.Host(), h.Process.PID, h.Process.Born, t.Now)
	})
	return agent, err
}

// IsGiven reports whether an agent was added for a process of an agent host and will be removed with it.
func IsGiven(ctx context.Context, l *ledger.Ledger, agent string) (bool, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (bool, error) {
		n, err := c.Number(`SELECT EXISTS (SELECT 1 FROM given_names WHERE agent = ?)`, agent)
		return n != 0, err
	})
}

// name returns the agent that the process has, or "".
func (h *Holder) name(c *store.Conn) (string, error) {
	agent, _, err := c.Text(`SELECT agent FROM given_names WHERE program = ? AND host = ? AND pid = ? AND born = ?
		AND ends_at = ''`,
		h.Program, h.Process.Host(), h.Process.PID, h.Process.Born)
	return agent, err
}

// resumed returns the agent of the session that the process resumes by its ID, or "" if there is none or its
// process lives.
func (h *Holder) resumed(c *store.Conn) (string, error) {
	for _, word := range h.Words {
		word = word[strings.LastIndexByte(word, '=')+1:] // --resume=ID
		agent, found, err := c.Text(`SELECT g.agent FROM given_names g CROSS JOIN host_sessions s ON s.agent = g.agent
			WHERE s.session = ? AND s.program = ? AND g.ends_at <> ''`, word, h.Program)
		if err != nil || found {
			return agent, err
		}
	}
	return "", nil
}

// FreeName returns the first unused name derived from a host's name: claude, claude-2, and so on.
func FreeName(conf *ledger.Config, program string) string {
	name := program
	for n := 2; conf.Agents[name] != nil || conf.Groups[name] != nil; n++ {
		name = fmt.Sprintf("%s-%d", program, n)
	}
	return name
}

// given is a row of given_names.
type given struct {
	agent string
	ended bool // its process has ended
	noted bool // the end of its process is recorded
	over  bool // its session can no longer be resumed
}

// givenNames lists the given names and the state of each.
func givenNames(c *store.Conn, now time.Time) ([]given, error) {
	here := process.Of(os.Getpid())
	return store.List(c, func(row store.Row) given {
		g := given{agent: row.Text(0), noted: row.Text(4) != ""}
		if row.Text(1) == here.Host() {
			p := process.ID{PID: int(row.Int(2)), Born: row.Text(3), Space: here.Space}
			g.ended = !p.Here()
		} else {
			g.ended = now.Sub(orchestrator.ParseStamp(row.Text(5))) > elsewhere
		}
		left := orchestrator.ParseStamp(row.Text(4)).Sub(now)
		g.over = g.noted && (left <= 0 || left > grace) // the latter happens if the clock was set back
		return g
	}, `SELECT agent, host, pid, born, ends_at,
		coalesce((SELECT max(seen_at) FROM host_sessions s WHERE s.agent = g.agent), given_at)
		FROM given_names g WHERE agent < x'' ORDER BY agent`)
}

// anyEnded reports whether endNames has anything to do.
func anyEnded(c *store.Conn, now time.Time) (bool, error) {
	list, err := givenNames(c, now)
	return slices.ContainsFunc(list, func(g given) bool { return g.over || g.ended && !g.noted }), err
}

// endNames records which processes have ended. It removes the agents whose process ended more than an hour ago, and
// the agents that nobody misses.
func endNames(t *ledger.Tx) error {
	list, err := givenNames(t.Conn, t.Clock)
	if err != nil {
		return err
	}
	for _, g := range list {
		if !g.over && g.ended && !g.noted {
			if g.over, err = pointless(t, g.agent); err == nil && !g.over {
				err = t.Run(`UPDATE given_names SET ends_at = ? WHERE agent = ?`,
					orchestrator.Stamp(t.Clock.Add(grace)), g.agent)
			}
		}
		if err == nil && g.over {
			err = endName(t, g.agent)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pointless reports whether nobody misses an agent: it has sent nothing, and nothing waits for it.
func pointless(t *ledger.Tx, agent string) (bool, error) {
	n, err := t.Number(`
		SELECT EXISTS (SELECT 1 FROM agent_message WHERE sender = ?1 AND `+ledger.Past+` AND seq > ?2)
		    OR EXISTS (SELECT 1 FROM agent_message_archive WHERE sender = ?1 AND seq > ?2)
		    OR EXISTS (SELECT 1 FROM agent_message WHERE recipient = ?1 AND `+ledger.Live+`)
		    OR EXISTS (`+messages.UnreadOf+`)`, agent, t.Config().Former(agent))
	return n == 0, err
}

// endName removes an agent whose session has ended for good.
func endName(t *ledger.Tx, agent string) error {
	if t.Config().Agents[agent] != nil && !orchestrator.IsBuiltIn(agent) && t.Ledger.PartOf(agent) == nil {
		_, err := removal.RemoveIn(t, removal.Request{
			Name: agent, Force: true,
			Expired: fmt.Sprintf("the session of the agent %s ended and was not resumed for %v",
				agent, grace),
		})
		return err
	}
	return t.Run(`DELETE FROM given_names WHERE agent = ?`, agent)
}

// ender removes the agents of ended sessions and remembers its last failure.
type ender struct {
	mu sync.Mutex // held during a run
	orchestrator.Trouble
}

// endNames removes the agents whose time is over. A failure is logged once and retried in the next run.
func (e *ender) endNames(ctx context.Context, l *ledger.Ledger) {
	e.mu.Lock()
	defer e.mu.Unlock()
	due, err := ledger.ReadValue(ctx, l, func(c *store.Conn) (bool, error) { return anyEnded(c, l.Now()) })
	if err == nil && due {
		err = l.Write(ctx, store.Alone, endNames)
	}
	if ctx.Err() == nil && e.Changed(err) && err != nil {
		l.Log.Error("cannot remove the agents of ended sessions; Mailroom retries in each run", "error", err)
	}
}
