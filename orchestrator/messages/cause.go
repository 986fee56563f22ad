package messages

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// chainPause ends a chain of messages: what is sent longer after the message before it begins a new one. A chain that
// has passed the limit is a runaway loop if it took less than this from its first message on.
const chainPause = 10 * time.Minute

// Cause holds the messages that led a process to send: those that it was handed, and those that it has shown its
// agents. A message that it sends then has one hop more than they have, though it is no answer to them, so that agents
// that send new messages to each other are found out. It is safe for concurrent use.
type Cause struct {
	handed []string // ids of the messages for which a transport started the process

	mu      sync.Mutex
	command struct { // what the handed messages lead to, once they were read
		next   link   // behind the one with most hops
		fewest int    // hops of what the one with fewest leads to
		newest string // when the newest of them was sent
	}
	shown map[string]lastShown // by agent
}

// link is a place in a chain of messages that led to one another.
type link struct {
	hops  int    // messages before it
	began string // when the first of these was sent
}

// linkBehind returns what a message leads to, and when the message was sent; the zero link and "" if it is gone.
func linkBehind(c *store.Conn, id string) (next link, sent string, err error) {
	err = c.Query(`SELECT hops, chain_at, created_at FROM agent_message WHERE message_id = ?`,
		func(row store.Row) error {
			sent = row.Text(2)
			next = link{ledger.CountOf(row[0]) + 1, cmp.Or(row.Text(1), sent)}
			return nil
		}, id)
	return next, sent, err
}

// lastShown is the message that an agent was shown last.
type lastShown struct {
	id string
	at time.Time

	asked time.Time // when the tables were last asked for what it leads to
	next  link      // the answer
}

// NewCause returns the cause of what a process sends. handed are the ids of the messages for which a transport has
// started it.
func NewCause(handed []string) *Cause { return &Cause{handed: handed, shown: map[string]lastShown{}} }

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
		c.shown[agent] = lastShown{id: m.ID, at: t.Clock}
	}
}

// Inherit sets the hops of a draft from the cause of its context, if there is one. What a command sends beyond the
// setting hops.inherited is refused if all that it was handed is beyond it, the whole chain took less than ten minutes,
// and no person is to get it. What a session sends is never refused. note is for the sender, as Sent.Note is, once a
// chain of sessions is that long. Error: unavailable.
func Inherit(t *ledger.Tx, conf *ledger.Config, d *orchestrator.Draft) (note string, err error) {
	c, ok := t.Ctx.Value(causeKey{}).(*Cause)
	if !ok || t.AsUser {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := conf.Settings.InheritedHops
	next, fewest, err := c.ofCommand(t)
	switch {
	case err != nil:
		return "", err
	case next.hops <= limit:
	case t.Clock.Sub(orchestrator.ParseStamp(next.began)) >= chainPause:
		next = link{} // so slow that it harms nobody; it is counted anew
	case fewest > limit && d.Recipient != orchestrator.Operator && d.Recipient != orchestrator.User:
		return "", orchestrator.Errorf(orchestrator.Unavailable,
			"loop detected: %d messages caused one another within ten minutes", next.hops).
			WithHint("The agents' commands trigger one another. To list the agents, run `mailroom sql --named busiest_pairs`. You can send again ten minutes after the first message. To change the limit, set hops.inherited")
	}
	shown, err := c.ofSession(t, d.Sender)
	if shown.hops > limit {
		shown.hops = limit
		note = fmt.Sprintf("is one of more than %d messages in a row without input from a person; ask a person before you continue", limit)
	}
	if shown.hops > next.hops {
		next = shown
	}
	d.Hops, d.ChainAt = next.hops, next.began
	return note, err
}

// ofCommand returns where in a chain a command's messages stand, by those of its handed messages with most hops and
// with fewest. It is the zero link if none of them was sent within the last ten minutes. The caller holds mu.
func (c *Cause) ofCommand(t *ledger.Tx) (next link, fewest int, err error) {
	found := &c.command
	for i := 0; i < len(c.handed) && (i > 0 || found.newest == ""); i++ { // unless they were read before
		behind, sent, err := linkBehind(t.Conn, c.handed[i])
		if err != nil {
			found.newest = "" // all are read again
			return link{}, 0, err
		}
		if sent == "" {
			continue
		}
		if behind.hops > found.next.hops {
			found.next = behind
		}
		if found.newest == "" || behind.hops < found.fewest {
			found.fewest = behind.hops
		}
		found.newest = max(found.newest, sent)
	}
	if found.newest == "" || t.Clock.Sub(orchestrator.ParseStamp(found.newest)) > chainPause {
		return link{}, 0, nil
	}
	return found.next, found.fewest, nil
}

// ofSession returns where in a chain the messages of an agent's sessions stand: behind the message that a hook or a
// tool has shown last. It is the zero link if that is ten minutes ago, or a person has said something since. It looks
// once a second: a stream of messages is sent by one process. The caller holds mu.
func (c *Cause) ofSession(t *ledger.Tx, agent string) (next link, err error) {
	last := c.shown[agent]
	if t.Clock.Sub(last.asked).Abs() < time.Second {
		return last.next, nil
	}
	id, at, prompted := last.id, last.at, ""
	err = t.Query(`SELECT shown_id, shown_at, prompted_at FROM host_sessions WHERE agent = ?`,
		func(row store.Row) error {
			if shown := orchestrator.ParseStamp(row.Text(1)); shown.After(at) {
				id, at = row.Text(0), shown
			}
			prompted = max(prompted, row.Text(2))
			return nil
		}, agent)
	if err == nil && id != "" && t.Clock.Sub(at) <= chainPause && !orchestrator.ParseStamp(prompted).After(at) {
		next, _, err = linkBehind(t.Conn, id)
	}
	if err == nil {
		last.asked, last.next = t.Clock, next
		c.shown[agent] = last
	}
	return next, err
}
