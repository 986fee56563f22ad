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

// chainPause is the time after which a chain of messages ends: a message sent later than that after the previous one
// starts a new chain. A chain beyond the limit is a runaway loop if it took less than chainPause since its first
// message.
const chainPause = 10 * time.Minute

// Cause holds the messages that led a process to send: the messages that the process was handed, and the messages
// that it has shown to its agents. A message that the process then sends has one hop more than those, even if it is
// not an answer. In this way agents that send new messages to each other are detected. A Cause is safe for concurrent
// use.
type Cause struct {
	handed []string // ids of the messages for which a transport started the process

	mu      sync.Mutex
	command struct { // successors of the handed messages, once those have been read
		next   link   // after the message with the most hops
		fewest int    // hops after the message with the fewest
		newest string // creation time of the newest handed message
	}
	shown map[string]lastShown // by agent
}

// link is a position in a chain of messages that caused one another.
type link struct {
	hops  int    // number of messages before this position
	began string // creation time of the first message
}

// linkBehind returns the position after a message and the message's creation time. It returns the zero link and "" if
// the message no longer exists.
func linkBehind(c *store.Conn, id string) (next link, sent string, err error) {
	err = c.Query(`SELECT hops, chain_at, created_at FROM agent_message WHERE message_id = ?`,
		func(row store.Row) error {
			sent = row.Text(2)
			next = link{ledger.CountOf(row[0]) + 1, cmp.Or(row.Text(1), sent)}
			return nil
		}, id)
	return next, sent, err
}

// lastShown is the message that was last shown to an agent.
type lastShown struct {
	id string
	at time.Time

	asked time.Time // time of the last query for next
	next  link      // position after the message, from that query
}

// NewCause returns the cause of what a process sends. handed holds the ids of the messages for which a transport
// started the process.
func NewCause(handed []string) *Cause { return &Cause{handed: handed, shown: map[string]lastShown{}} }

type causeKey struct{}

// WithCause returns a context whose sends have the given cause, and in which shown messages are added to that cause.
func WithCause(ctx context.Context, c *Cause) context.Context {
	return context.WithValue(ctx, causeKey{}, c)
}

// noteShown records that a message was shown to an agent. The record determines the hops of the agent's later
// messages.
func noteShown(t *ledger.Tx, agent string, m *orchestrator.Message) {
	if c, ok := t.Ctx.Value(causeKey{}).(*Cause); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.shown[agent] = lastShown{id: m.ID, at: t.Clock}
	}
}

// Inherit sets the hops of a draft from the cause of its context, if there is one. It refuses a draft of a command
// beyond the setting hops.inherited if all messages that the command was handed lead beyond that limit, the whole
// chain took less than ten minutes, and the recipient is not a person. It never refuses a draft of a session. If a
// chain of sessions exceeds the limit, note is a remark for the sender, as in Sent.Note. Error: unavailable.
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
		next = link{} // so slow that it does no harm; counting starts again
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

// ofCommand returns the position of a command's messages in a chain, after the handed message with the most hops, and
// the number of hops after the one with the fewest. It returns the zero link if none of the handed messages was sent
// within the last ten minutes. The caller holds mu.
func (c *Cause) ofCommand(t *ledger.Tx) (next link, fewest int, err error) {
	found := &c.command
	for i := 0; i < len(c.handed) && (i > 0 || found.newest == ""); i++ { // unless they were read before
		behind, sent, err := linkBehind(t.Conn, c.handed[i])
		if err != nil {
			found.newest = "" // read all of them again next time
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

// ofSession returns the position in a chain of the messages of an agent's sessions: after the message that a hook or
// a tool last showed. It returns the zero link if that was more than ten minutes ago, or if a person has typed
// something since. It queries the table at most once a second, because one process may send a stream of messages. The
// caller holds mu.
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
