package messages

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// chainPause ends a chain of messages: what is sent longer after the message before it begins a new one. A chain that has passed the
// limit is a runaway loop if it took less than this from its first message on.
const chainPause = 10 * time.Minute

// Cause is what made the agents send that a process serves: the messages that they were handed. A message that one sends then has one
// hop more than they have, though it is no answer to them, so that agents that send new messages to each other are found out. It is
// safe for concurrent use.
type Cause struct {
	handed []string // ids of the messages for which a transport started the process

	mu      sync.Mutex
	command struct { // of the handed messages, once they were read
		hops   int // one more than they have
		trace  string
		newest string // when the newest was created
	}
	shown map[string]*lastShown // by agent
}

// lastShown is the newest message that an agent was shown.
type lastShown struct {
	hops int
	at   time.Time

	asked     time.Time // when the tables were last asked for it
	inherited int       // the hops of what it sent then
}

// NewCause returns the cause of what a process sends. handed are the ids of the messages for which a transport has started it.
func NewCause(handed []string) *Cause { return &Cause{handed: handed, shown: map[string]*lastShown{}} }

// of returns what an agent was shown. The caller holds mu.
func (c *Cause) of(agent string) *lastShown {
	if c.shown[agent] == nil {
		c.shown[agent] = &lastShown{}
	}
	return c.shown[agent]
}

type causeKey struct{}

// WithCause returns a context in which sends have a cause, and what is shown is noted there.
func WithCause(ctx context.Context, c *Cause) context.Context {
	return context.WithValue(ctx, causeKey{}, c)
}

// noteShown notes that a message was shown to an agent, for what that sends afterwards.
func noteShown(t *ledger.Tx, agent string, m *orchestrator.Message) {
	if c, ok := t.Ctx.Value(causeKey{}).(*Cause); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		*c.of(agent) = lastShown{hops: m.Hops, at: t.Clock}
	}
}

// Inherit sets the hops of a draft from the cause of its context, if there is one. What a command sends beyond the setting
// hops.inherited is refused if all of its chain took less than ten minutes; what a session sends never is. note tells its sender of a
// chain that is that long. Error: unavailable.
func Inherit(t *ledger.Tx, conf *ledger.Config, d *orchestrator.Draft) (note string, err error) {
	c, ok := t.Ctx.Value(causeKey{}).(*Cause)
	if !ok || t.AsUser {
		return "", nil
	}
	limit := conf.Settings.InheritedHops
	commanded, trace, err := c.ofCommand(t)
	if err != nil {
		return "", err
	}
	if commanded > limit {
		began, _, err := t.Text(`SELECT coalesce(min(started_at), '') FROM command_trace WHERE trace_id = ?`, trace)
		switch {
		case err != nil:
			return "", err
		case began == "" || t.Clock.Sub(orchestrator.ParseStamp(began)) < chainPause:
			return "", orchestrator.Errorf(orchestrator.Unavailable, "a loop: %d messages have led to one another within ten minutes", commanded).
				WithHint("Commands of agents that start each other: `mailroom sql --named busiest_pairs` names them. The setting hops.inherited is the limit")
		}
		commanded = 0 // so slow that it harms nobody; it is counted anew
	}
	shown, err := c.ofSession(t, d.Sender)
	if shown > limit {
		shown = limit
		note = fmt.Sprintf("More than %d messages have led to this one without a word of a person: ask one before you go on", limit)
	}
	d.Hops = max(commanded, shown)
	return note, err
}

// ofCommand returns the hops of what a command sends, and the trace of the messages that it was started for. The hops are 0 if
// none of these was created within the last ten minutes.
func (c *Cause) ofCommand(t *ledger.Tx) (hops int, trace string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := &c.command
	if found.newest == "" {
		for _, id := range c.handed {
			err := t.Query(`SELECT hops, created_at, trace_id FROM agent_message WHERE message_id = ?1
				UNION ALL SELECT hops, created_at, trace_id FROM agent_message_archive WHERE message_id = ?1`, func(row store.Row) error {
				if n := ledger.CountOf(row[0]) + 1; n > found.hops {
					found.hops, found.trace = n, row.Text(2)
				}
				found.newest = max(found.newest, row.Text(1))
				return nil
			}, id)
			if err != nil {
				found.newest = "" // all are read again
				return 0, "", err
			}
		}
	}
	if found.newest == "" || t.Clock.Sub(orchestrator.ParseStamp(found.newest)) > chainPause {
		return 0, "", nil
	}
	return found.hops, found.trace, nil
}

// ofSession returns the hops of what a session of an agent sends: one more than the newest message had that a hook or a tool has
// shown. It is 0 if that is ten minutes ago, or a person has said something since. It looks once a second: a stream of messages is
// sent by one process.
func (c *Cause) ofSession(t *ledger.Tx, agent string) (hops int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.of(agent)
	if t.Clock.Sub(last.asked).Abs() < time.Second {
		return last.inherited, nil
	}
	hops, shown := last.hops+1, last.at
	err = t.Query(`SELECT shown_hops, shown_at, prompted_at FROM host_sessions WHERE agent = ?`, func(row store.Row) error {
		if at := orchestrator.ParseStamp(row.Text(1)); at.After(shown) {
			hops, shown = ledger.CountOf(row[0])+1, at
		}
		if orchestrator.ParseStamp(row.Text(2)).After(shown) {
			hops = 0
		}
		return nil
	}, agent)
	if t.Clock.Sub(shown) > chainPause {
		hops = 0
	}
	if err == nil {
		last.asked, last.inherited = t.Clock, hops
	}
	return hops, err
}
