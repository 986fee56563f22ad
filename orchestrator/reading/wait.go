// Package reading hands messages to readers. It contains wait, unread and arrivals, and the leases under which
// messages are read.
package reading

import (
	"context"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/adoption"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// Options specifies whose messages Wait takes, which ones, and how long Wait waits for them.
type Options struct {
	Recipient string
	Timeout   time.Duration // 0: do not wait, only take the available messages
	Limit     int           // maximum number of messages, 1 to 1000
	Filter    Filter        // the zero value takes everything
	Peek      bool          // leave the messages unread
	Untold    string        // session of an agent host: leave out what a digest has announced there; see package cost
	// Posts also takes the posts of the recipient's threads that do not mention the recipient; not with a Filter
	Posts bool
	Lease messages.ReadingLease // hand the messages out under a lease

	// Fits returns how many of the next messages, counted from the first, the reader takes. The others stay unread.
	// nil takes all.
	Fits func(ms []orchestrator.Message) int

	// Affords is called with the messages that fit, in the transaction that takes them, and returns how many of them
	// are taken. nil takes all.
	Affords func(t *ledger.Tx, ms []orchestrator.Message) (int, error)

	// Taken is called in the same transaction with the messages taken. nil does nothing.
	Taken func(t *ledger.Tx, ms []orchestrator.Message) error

	// Waiting, unless it is nil, is called once before the wait if no message is there yet.
	Waiting func()

	// For lists agents for which the recipient waits; any one of them can end the wait. ReplyTo is a message of the
	// recipient whose answer it waits for. Unless Filter is set, any other message ends the wait too. For and ReplyTo
	// declare on whom the recipient depends, so that a wait that closes a circle is refused.
	For     []string
	ReplyTo string

	edges []string // rows of declareWait; the transaction that takes messages deletes them
}

// Filter selects some of the unread messages. The zero value selects all.
type Filter struct {
	Sender      string // agent; a wait with a Sender waits For that agent alone
	Type        string // message_type
	Target      string // the agent itself, or the group that the sender named
	MinPriority *int
	MaxPriority *int
	// Answers is a message of the recipient: take only its answers. For a message to a group, the answers to any copy
	// count.
	Answers string
}

// selected is the SQL condition of a filter. The parameters ?3 to ?8 are the type, the target, the minimum and the
// maximum priority, the sender, and the message that is answered.
const selected = ` AND (?3 = '' OR message_type = ?3) AND (?4 = '' OR coalesce(multicast_target, recipient) = ?4)
	AND (priority >= ?5 OR ?5 IS NULL) AND (priority <= ?6 OR ?6 IS NULL) AND (?7 = '' OR sender = ?7)
	AND (?8 = '' OR reply_to = ?8 OR reply_to IN (SELECT message_id FROM agent_message WHERE multicast_id = ?8
		UNION ALL SELECT message_id FROM agent_message_archive WHERE multicast_id = ?8))`

// Wait takes the unread messages of a recipient: interrupts first, then by priority, then the oldest first. It first
// delivers the recipient's due messages to its inbox, and it marks what it takes as read. If there are no messages,
// Wait waits until one arrives or the timeout ends. No messages and no error means that the timeout ended. more
// reports whether further messages match, beyond the limit or beyond 4 MiB of payload.
//
// Of several waiters exactly one gets each message. After the death of that waiter, another one may get the message.
// Of the waits in one Line the newest is first.
//
// With a lease, a message is not marked as read. If the lease has a Writer, call Written once the answer was written.
// Otherwise an acknowledgement ends the lease, or the message becomes unread again. If the caller cannot use the
// messages, it gives them back with Unread.
//
// A recipient whose transport is not its inbox gets only the messages that the transport has not delivered yet.
//
// Errors: unknown_recipient; busy; context.Cause(ctx) if ctx ended; conflict for a wait that no agent could end,
// because all awaited agents wait for this one, directly or through others; not_found and permission_denied for
// ReplyTo.
func Wait(ctx context.Context, l *ledger.Ledger, o Options) (ms []orchestrator.Message, more bool, err error) {
	recipient, err := orchestrator.CheckName("recipient", o.Recipient)
	if err == nil {
		err = o.checkLease()
	}
	if err != nil {
		return nil, false, err
	}
	if recipient == orchestrator.User {
		return nil, false,
			orchestrator.Errorf(orchestrator.PermissionDenied, "messages to `%s` go to the user's phone",
				orchestrator.User).WithHint("To pair a phone, run `mailroom signal pair`")
	}
	names, err := awaited(ctx, l, recipient, &o)
	if err != nil {
		return nil, false, err
	}
	// A thread has one cursor, so the posts that a filter skips could not be recorded.
	if o.Posts && o.Filter != (Filter{}) {
		return nil, false,
			orchestrator.Errorf(orchestrator.InvalidParams, "a wait for posts in all your threads cannot use a filter")
	}
	if ledger.Proved(ctx, recipient) {
		if err := register(ctx, l, recipient); err != nil {
			return nil, false, err
		}
	}
	deadline := l.Now().Add(o.Timeout)
	o.Recipient = recipient
	here := stand(ctx, l, &o)
	defer func() { ms, more, err = here.leave(ms, more, err) }()
	if ms, more, err = here.take(ctx, l, &o, false); err != nil || len(ms) > 0 {
		return ms, more, err
	}
	silent := agents.Heartbeat(ctx, l, recipient, !o.Peek)
	if o.Timeout <= 0 {
		return nil, false, nil
	}
	rings, stop, err := l.Store.Bell().Listen(ctx, recipient)
	if err != nil {
		return nil, false, err
	}
	defer stop()
	var posts <-chan bool
	if o.Posts {
		var stopPosts func()
		if posts, stopPosts, err = l.Store.Bell().Listen(ctx, orchestrator.AnyThread); err != nil {
			return nil, false, err
		}
		defer stopPosts()
	}
	here.alone(func() { o.edges, err = declareWait(ctx, l, &o, names) })
	if err != nil {
		return nil, false, err
	}
	defer func() { here.alone(func() { withdrawWait(ctx, l, &o, err) }) }()
	if o.Waiting != nil {
		o.Waiting()
	}
	return waitOn(ctx, l, &o, here, rings, posts, deadline, silent)
}

// waitOn takes messages as soon as there are any, until the deadline. If silent is not 0, waitOn records a heartbeat
// of the agent after half that time at the latest. posts rings for posts in threads; it is nil unless posts count.
func waitOn(ctx context.Context, l *ledger.Ledger, o *Options, here *place, rings, posts <-chan bool,
	deadline time.Time, silent time.Duration) (ms []orchestrator.Message, more bool, err error) {
	rung := false
	for {
		looked := l.Now()
		if ms, more, err = here.take(ctx, l, o, rung); err != nil || len(ms) > 0 {
			return ms, more, err
		}
		rung = false
		left := min(deadline.Sub(l.Now()), orchestrator.SlowPoll)
		if left <= 0 {
			return nil, false, nil
		}
		next, err := delivery.NextDueOf(ctx, l, o.Recipient, looked)
		if err != nil {
			return nil, false, err
		}
		if !next.IsZero() {
			left = min(left, max(next.Sub(l.Now()), time.Millisecond))
		}
		if silent > 0 {
			left = min(left, silent/2)
		}
		select {
		case rung = <-rings:
		case <-posts: // in any thread
		case <-here.wakes():
		case <-time.After(left):
			silent = agents.Heartbeat(ctx, l, o.Recipient, !o.Peek)
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// register adds an agent that acts for the first time.
func register(ctx context.Context, l *ledger.Ledger, name string) error {
	conf, err := l.Configuration(ctx)
	if err != nil || conf.Agents[name] != nil {
		return err
	}
	return l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		_, err := agents.Acting(t, name)
		return err
	})
}

// lookAndTake takes the available messages. Unless rung is set, it first looks whether there are any.
func lookAndTake(ctx context.Context, l *ledger.Ledger, o *Options, rung bool) (ms []orchestrator.Message, more bool,
	err error) {
	if !rung {
		if there, err := look(ctx, l, o); err != nil || !there {
			return nil, false, err
		}
	}
	return take(ctx, l, o)
}

// look reports whether there may be something to take. It does not hold the write lock, so a waiter with nothing to
// read delays no writer.
func look(ctx context.Context, l *ledger.Ledger, o *Options) (there bool, err error) {
	there, held, err := anythingFor(ctx, l, o.Recipient)
	if err == nil && held {
		var ended bool
		ended, err = messages.EndDeadReaders(ctx, l, o.Recipient)
		there = there || ended
	}
	if err == nil && !there && o.Posts {
		there, err = ledger.ReadValue(ctx, l, func(c *store.Conn) (bool, error) {
			return messages.HasUnreadPosts(c,
				o.Recipient)
		})
	}
	return there, err
}

// take reads the available messages without waiting. Of a long backlog, the first transaction delivers only the usual
// share. The messages to be read first may be beyond that share. So take looks for them, and a second transaction
// delivers and reads them.
func take(ctx context.Context, l *ledger.Ledger, o *Options) (ms []orchestrator.Message, more bool, err error) {
	everything := o.Filter == Filter{} && !o.Peek && o.Lease.For == 0
	var first []int64
	for again := true; again; {
		var behind bool
		err = l.Write(ctx, store.Of(o.Recipient), func(t *ledger.Tx) (err error) {
			t.Quiet = true
			ms, more, behind = nil, false, false
			if again, err = delivery.Tidy(t); err != nil || again {
				return err // expired messages must leave the inbox before anything is read
			}
			if err := delivery.ReleaseToReader(t, o.Recipient); err != nil {
				return err
			}
			if everything && first == nil {
				if ms, err = handOver(t, o); err != nil {
					return err
				}
			}
			if len(ms) == 0 {
				behind, err = deliverForReading(t, o.Recipient, first)
				if again = behind; err != nil || behind {
					return err
				}
				if ms, more, err = readUnread(t, o); err != nil {
					return err
				}
			}
			if o.Posts {
				if ms, more, err = withUnreadPosts(t, o, ms, more); err != nil {
					return err
				}
			}
			if len(ms) == 0 {
				return nil
			}
			if err := adoption.WrittenSince(t); err != nil {
				return err
			}
			if !o.Peek {
				t.Heartbeat(o.Recipient)
			}
			if o.Taken != nil {
				if err := o.Taken(t, ms); err != nil {
					return err
				}
			}
			return endWait(t, o.edges)
		})
		if err == nil && behind {
			first, err = firstDue(ctx, l, o)
		}
		if err != nil {
			return nil, false, err
		}
	}
	if len(ms) > 0 {
		o.edges = nil
	}
	return ms, more, nil
}

// firstDue finds those due and undelivered messages that a reader gets first. The search may walk along all of them,
// so it runs without the write lock. The result is not nil.
func firstDue(ctx context.Context, l *ledger.Ledger, o *Options) ([]int64, error) {
	first := []int64{}
	err := l.Look(ctx, func(c *store.Conn) error {
		return c.Query(`SELECT seq FROM agent_message m WHERE `+ledger.Takeable+selected+ledger.ReadingOrder+
			` LIMIT +?9`, func(row store.Row) error {
			first = append(first, row.Int(0))
			return nil
		}, orchestrator.Stamp(l.Now()), o.Recipient, o.Filter.Type, o.Filter.Target, o.Filter.MinPriority,
			o.Filter.MaxPriority,
			o.Filter.Sender, o.Filter.Answers, o.Limit+1)
	})
	return first, err
}

// anythingFor reports whether take could find something, and whether a process holds messages of the recipient under
// a lease. A waiter calls it first whenever it wakes up. So it is one statement, unless the configuration has
// changed.
func anythingFor(ctx context.Context, l *ledger.Ledger, recipient string) (there, held bool, err error) {
	err = l.LookUnchecked(ctx, func(c *store.Conn) error {
		var version string
		err := c.Query(`
			SELECT (SELECT value FROM settings WHERE key = '`+store.ConfigVersion+`'),
			       EXISTS (SELECT 1 FROM agent_inbox WHERE recipient = ?2 AND read_at = '')
			    OR EXISTS (SELECT 1 FROM agent_message m WHERE `+ledger.Takeable+`)
			    OR EXISTS (SELECT 1 FROM agent_message WHERE `+ledger.Foreign+`)
			    OR EXISTS (SELECT 1 FROM agent_message WHERE `+ledger.Leased+` AND recipient = ?2 AND lease_until <= ?1)
			    OR EXISTS (SELECT 1 FROM reading_lease WHERE recipient = ?2 AND until <= ?1),
			       EXISTS (SELECT 1 FROM reading_lease WHERE recipient = ?2 AND pid > 0)`,
			func(row store.Row) error {
				version, there, held = row.Text(0), row.Int(1) != 0, row.Int(2) != 0
				return nil
			}, orchestrator.Stamp(l.Now()), recipient)
		if err != nil {
			return err
		}
		conf := l.Config.Known(version)
		if conf == nil {
			if conf, err = l.Config.Load(c); err != nil {
				return err
			}
		}
		agent := conf.Agents[recipient]
		if agent == nil {
			return agents.Unknown(c, orchestrator.UnknownRecipient, "", recipient, conf)
		}
		if !there && l.SetTransport(agent) == nil {
			there, err = delivery.KeptFrom(c, agent)
		}
		return err
	})
	return there, held, err
}

// deliverForReading puts the due messages of a recipient into its inbox, whatever its transport, because the
// recipient is reading now. With a nil first it takes the usual share; behind then reports whether more may be due.
// Otherwise it takes the rows in first.
func deliverForReading(t *ledger.Tx, recipient string, first []int64) (behind bool, err error) {
	inbox := t.Ledger.Inbox()
	if inbox == nil {
		return false, nil
	}
	conf := t.Config()
	if conf.Agents[recipient] == nil {
		return false, agents.Unknown(t.Conn, orchestrator.UnknownRecipient, "", recipient, conf)
	}
	batch := &delivery.InboxBatch{Tx: t, Delivered: map[string]int{}, Left: conf.Settings.ClaimSize}
	if err := batch.Empty(); err != nil {
		return false, err
	}
	if first != nil {
		err = batch.TakeThese(recipient, first, inbox)
	} else {
		err = batch.TakeShare(recipient, batch.Left, inbox)
	}
	if err != nil {
		return false, err
	}
	return batch.More, batch.Deliver()
}

// checkLease refuses a lease that cannot be granted.
func (o *Options) checkLease() error {
	switch {
	case o.Lease.For == 0:
		return nil
	case o.Lease.For < messages.MinReadingLease || o.Lease.For > messages.MaxReadingLease:
		return orchestrator.Errorf(orchestrator.InvalidParams, "lease is %s, but must be from %s to %s", o.Lease.For,
			orchestrator.FormatDuration(messages.MinReadingLease),
			orchestrator.FormatDuration(messages.MaxReadingLease))
	case o.Peek:
		return orchestrator.Errorf(orchestrator.InvalidParams, "lease: messages that stay unread cannot have a lease").
			WithHint("Omit the lease, or mark the messages as read")
	case o.Posts:
		return orchestrator.Errorf(orchestrator.InvalidParams,
			"lease: posts in threads cannot have a lease, because each thread records only the last post that you have read")
	}
	return nil
}
