package reading

import (
	"context"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// longestWait bounds how long a wait counts in the search for circles, whatever its timeout. Otherwise a clock that
// was set forward and back, or a row that a killed process left where no pulse shows its death, would block waits
// forever.
const longestWait = 24 * time.Hour

// awaited returns the agents for which a wait waits: the agents in its options, and the recipients of the message in
// ReplyTo. Errors: unknown_recipient; not_found for the message; permission_denied if the waiter did not send it.
func awaited(ctx context.Context, l *ledger.Ledger, waiter string, o *Options) (names []string, err error) {
	if len(o.For) == 0 && o.ReplyTo == "" && o.Filter.Sender == "" {
		return nil, nil
	}
	conf, err := l.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	if o.Filter.Sender != "" {
		if o.Filter.Sender, err = orchestrator.CheckName("agent", o.Filter.Sender); err != nil {
			return nil, err
		}
		o.For = []string{o.Filter.Sender}
	}
	for _, name := range o.For {
		if name, err = orchestrator.CheckName("agent", name); err != nil {
			return nil, err
		}
		if conf.Agents[name] == nil {
			return nil, l.Read(ctx, func(c *store.Conn) error {
				return agents.Unknown(c, orchestrator.UnknownRecipient, waiter+" cannot wait: ", name, conf)
			})
		}
		names = append(names, name)
	}
	if o.ReplyTo == "" {
		return names, nil
	}
	ms, err := ledger.ReadValue(ctx, l, func(c *store.Conn) ([]orchestrator.Message, error) {
		return messages.FindOwn(c, conf, o.ReplyTo, waiter)
	})
	if err != nil {
		return nil, err
	}
	for i := range ms {
		if !conf.Sent(&ms[i], waiter) {
			return nil, orchestrator.Errorf(orchestrator.PermissionDenied,
				"%s was sent by %s; only the sender can wait for the answer", ms[i].ID, ms[i].Sender)
		}
		if !ms[i].IsPost() && ms[i].Recipient != waiter {
			names = append(names, ms[i].Recipient)
		}
	}
	return names, nil
}

// declareWait records for whom a wait waits until it ends. It refuses a wait that closes a circle, in which every
// agent that could end the wait is itself waiting, directly or through others, for the waiter, so that none would
// ever wake. The check and the record are one transaction, so of two waits that close a circle together one is
// refused. The ids identify the rows in the table waits, for endWait. Error: conflict, which names the circle.
func declareWait(ctx context.Context, l *ledger.Ledger, o *Options, names []string) (ids []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	own := edges{names: names, posts: o.Posts}
	switch {
	case o.Filter.Answers != "":
		own.filtered = byAnswers
	case o.Filter.Sender != "":
		own.filtered = byTheirs
	}
	err = l.Write(ctx, store.Waiting, func(t *ledger.Tx) error {
		ids = nil
		if err := t.Run(`DELETE FROM waits WHERE until <= ?1 OR until > ?2`, t.ClockText,
			orchestrator.Stamp(t.Clock.Add(longestWait))); err != nil {
			return err
		}
		if err := checkCircle(t, o.Recipient, &own); err != nil {
			return err
		}
		until := orchestrator.Stamp(t.Clock.Add(min(o.Timeout, longestWait)))
		for _, name := range names {
			id, err := t.NewID("wait-")
			if err != nil {
				return err
			}
			ids = append(ids, id)
			if _, err := t.Exec(`INSERT INTO waits (id, waiter, waits_for, instance, since, until, filtered, posts)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
				id, o.Recipient, name, l.Store.Token(t.Actor), t.Now, until, int64(own.filtered), own.posts); err != nil {
				return err
			}
		}
		return nil
	})
	return ids, err
}

// endWait deletes the rows of a wait. Call it in the transaction that takes the awaited messages, so that an agent
// that answers and then waits itself closes no circle.
func endWait(t *ledger.Tx, ids []string) error {
	for _, id := range ids {
		if err := t.Run(`DELETE FROM waits WHERE id = ?`, id); err != nil {
			return err
		}
	}
	return nil
}

// withdrawWait ends a wait that took nothing. Rows that cannot be deleted expire on their own.
func withdrawWait(ctx context.Context, l *ledger.Ledger, o *Options, failure error) {
	if len(o.edges) == 0 {
		return
	}
	ctx, cancel := ledger.Afterwards(ctx, failure, l.Busy)
	defer cancel()
	if err := l.Write(ctx, store.Shared, func(t *ledger.Tx) error { return endWait(t, o.edges) }); err != nil {
		l.Log.Warn("cannot record the end of a wait; circle detection counts the wait until its timeout", "error", err)
	}
}

// checkCircle refuses a wait that closes a circle of live processes.
func checkCircle(t *ledger.Tx, waiter string, own *edges) error {
	chain, err := circle(t, waiter, own)
	if err == nil && chain != nil {
		err = t.MustBeAlone() // an agent in the chain may just have taken what ends its wait
	}
	if err != nil || chain == nil {
		return err
	}
	removed, err := endDeadWaits(t)
	if err == nil && removed > 0 {
		chain, err = circle(t, waiter, own)
	}
	if err != nil || chain == nil {
		return err
	}
	return closesCircle(chain)
}

// endDeadWaits deletes the waits of processes that are known to be dead.
func endDeadWaits(t *ledger.Tx) (removed int64, err error) {
	instances, err := t.Texts(`SELECT DISTINCT instance FROM waits`)
	for _, instance := range instances {
		if err == nil && t.Ledger.Store.Gone(instance) {
			var n int64
			n, err = t.Exec(`DELETE FROM waits WHERE instance = ?`, instance)
			removed += n
		}
	}
	return removed, err
}

// hop is one agent in a circle of waits.
type hop struct {
	agent string
	since string // when it began to wait
}

// filtered states which messages end a wait, as stored in the table waits.
type filtered int64

const (
	byAll     filtered = iota // any message
	byTheirs                  // a message from one of the awaited agents
	byAnswers                 // an answer from one of them, including answers to other messages
)

// edges describes for whom one agent waits, and what else would end its waits.
type edges struct {
	names    []string // agents for which it waits
	since    string   // when the first of the waits began
	filtered filtered
	posts    bool // a post in its threads also ends the wait
}

// circle returns the chain of waits from a waiter back to itself. It returns nil if there is no such chain, or if any
// agent that the waiter depends on may act: one that waits for no particular agent, or one that has something to read
// and is about to wake. Any one of the agents for which an agent waits can wake it. The chain begins and ends with
// the waiter, whose own wait is about to begin.
func circle(t *ledger.Tx, waiter string, own *edges) (way []hop, err error) {
	cameFrom := map[string]string{}
	since := map[string]string{waiter: t.Now}
	for at, open := waiter, []string(nil); ; at, open = open[0], open[1:] {
		next, err := waitsOf(t, at)
		if err != nil {
			return nil, err
		}
		if at == waiter {
			next.add(own)
		} else {
			since[at] = next.since
		}
		if woken, err := isWoken(t, at, &next); err != nil || woken || len(next.names) == 0 {
			return nil, err
		}
		for _, name := range next.names {
			if name == waiter && way == nil {
				way = []hop{{waiter, since[waiter]}}
				for on := at; on != waiter; on = cameFrom[on] {
					way = append(way, hop{on, since[on]})
				}
				way = append(way, hop{waiter, since[waiter]})
				slices.Reverse(way)
			}
			if _, seen := cameFrom[name]; !seen && name != waiter {
				cameFrom[name] = at
				open = append(open, name)
			}
		}
		if len(open) == 0 {
			return way, nil
		}
	}
}

// add adds another wait of the same agent. The result has the weaker of both filters, because more messages end it.
func (e *edges) add(other *edges) {
	if len(e.names) == 0 {
		e.filtered = other.filtered
	}
	e.filtered = min(e.filtered, other.filtered)
	e.posts = other.posts || e.posts
	e.names = append(e.names, other.names...)
}

// waitsOf returns the waits of an agent.
func waitsOf(t *ledger.Tx, agent string) (e edges, err error) {
	err = t.Query(`SELECT waits_for, since, filtered, posts FROM waits WHERE waiter = ?`, func(row store.Row) error {
		e.add(&edges{names: []string{row.Text(0)}, filtered: filtered(row.Int(2)), posts: row.Int(3) != 0})
		if began := row.Text(1); e.since == "" || began < e.since {
			e.since = began
		}
		return nil
	}, agent)
	return e, err
}

// isWoken reports whether a waiter would find something that ends its wait.
func isWoken(t *ledger.Tx, name string, e *edges) (bool, error) {
	senders := []string{""} // "" is any sender
	if e.filtered > byAll {
		senders = e.names
	}
	for _, sender := range senders {
		if there, err := hasMail(t, name, sender, e.filtered == byAnswers); err != nil || there {
			return there, err
		}
	}
	if !e.posts {
		return false, nil
	}
	return messages.HasUnreadPosts(t.Conn, name)
}

// hasMail reports whether an agent has something to read from a sender; a sender of "" is any. If answers is set,
// only messages that answer another message count.
func hasMail(t *ledger.Tx, name, sender string, answers bool) (bool, error) {
	n, err := t.Number(`
		SELECT EXISTS (SELECT 1 FROM agent_inbox i WHERE recipient = ?2 AND read_at = '' AND (?3 = ''
		        OR EXISTS (SELECT 1 FROM agent_message m WHERE m.message_id = i.message_id AND m.sender = ?3
		        	AND (?4 = 0 OR m.reply_to <> ''))
		        OR EXISTS (SELECT 1 FROM agent_message_archive m WHERE m.message_id = i.message_id AND +m.sender = ?3
		        	AND (?4 = 0 OR m.reply_to <> ''))))
		    OR EXISTS (SELECT 1 FROM agent_message m WHERE `+ledger.Takeable+` AND (?3 = '' OR sender = ?3)
		    	AND (?4 = 0 OR reply_to <> ''))
		    OR EXISTS (SELECT 1 FROM agent_message WHERE (`+ledger.Foreign+`) AND recipient = ?2)`, t.ClockText, name,
		sender, answers)
	return n != 0, err
}

// closesCircle returns the error for a wait that would close a circle.
func closesCircle(chain []hop) error {
	var names, others []string
	for i, h := range chain {
		names = append(names, h.agent)
		if i > 0 && i < len(chain)-1 {
			others = append(others, h.agent+" since "+h.since)
		}
	}
	e := orchestrator.Errorf(orchestrator.Conflict, "this wait would complete a circle of waiting agents: %s",
		strings.Join(names, " waits for "))
	e.Details = map[string]any{"circle": names}
	if len(others) == 0 {
		return e.WithHint("Wait for another agent, or wait without naming an agent")
	}
	return e.WithHint("Already waiting: %s. First send the message that %s is waiting for", strings.Join(others, ", "),
		names[len(names)-2])
}
