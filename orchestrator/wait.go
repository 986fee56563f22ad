package orchestrator

import (
	"context"
	"time"

	"mailroom/orchestrator/process"
	"mailroom/orchestrator/store"
)

// WaitOptions say what to wait for.
type WaitOptions struct {
	Recipient string
	Timeout   time.Duration // 0: do not wait, only take what is there
	Limit     int           // messages at most, 1 to 1000
	Register  bool          // the recipient proved its identity: add it if nobody knows it yet
	Filter    Filter        // the zero value takes everything
	Peek      bool          // leave the messages unread
	Posts     bool          // take the posts of the recipient's threads, too, those that do not mention it; not with a Filter
	Lease     ReadingLease  // hand them out under a lease

	// For are agents any of which the recipient waits for, and ReplyTo is a message of its own whose answer it waits for.
	// Any message ends the wait all the same, unless Filter says otherwise. They say whom it depends on, so that a wait that
	// closes a circle is refused.
	For     []string
	ReplyTo string

	edges []string // what declareWait noted; gone with the transaction that takes something
}

// Filter selects some of the messages that an agent has not read.
type Filter struct {
	Sender      string // agent; whoever names one waits For it alone
	Type        string // message_type
	Target      string // the agent itself, or the group that the sender named
	MinPriority *int
	MaxPriority *int
}

// selected is the condition of a filter: the type, the target, both bounds of the priority and the sender are ?3 to ?7.
const selected = ` AND (?3 = '' OR message_type = ?3) AND (?4 = '' OR coalesce(multicast_target, recipient) = ?4)
	AND (priority >= ?5 OR ?5 IS NULL) AND (priority <= ?6 OR ?6 IS NULL) AND (?7 = '' OR sender = ?7)`

// Wait returns the unread messages of a recipient, interrupts first, then by priority, then oldest first, and marks them
// as read in the same transaction. It delivers what is due to this recipient on the way. When there are none it waits
// until one comes or the timeout ends; no messages and no error is a wait that timed out. more says that there are others
// of the kind, beyond the limit or beyond 4 MiB of payload. Each message goes to exactly one of several waiters; under a
// lease it is not marked as read, and comes back when that ends. Errors:
// unknown_recipient, busy; context.Cause(ctx) when ctx ended; conflict for a wait that nobody could end, since all who
// could wait for the recipient, be it through others; not_found and permission_denied for ReplyTo.
//
// An agent whose transport is not its inbox gets here only what that transport has not taken.
func (r *Router) Wait(ctx context.Context, o WaitOptions) (ms []Message, more bool, err error) {
	recipient, err := CheckName("recipient", o.Recipient)
	if err == nil {
		err = o.checkLease()
	}
	if err != nil {
		return nil, false, err
	}
	if recipient == User {
		return nil, false, Errorf(PermissionDenied, "messages to %s go to that person's phone", User).WithHint("`mailroom signal pair` adds a phone")
	}
	names, err := r.awaited(ctx, recipient, &o)
	if err != nil {
		return nil, false, err
	}
	if o.Posts && o.Filter != (Filter{}) { // one cursor for each thread cannot say which of its posts were passed over
		return nil, false, Errorf(InvalidParams, "a wait for any post of one's threads cannot filter")
	}
	if o.Register {
		if err := r.register(ctx, recipient); err != nil {
			return nil, false, err
		}
	}
	deadline := r.Now().Add(o.Timeout)
	o.Recipient = recipient
	if ms, more, err = r.lookAndTake(ctx, &o); err != nil || len(ms) > 0 {
		return ms, more, err
	}
	silent := r.heartbeat(ctx, recipient, !o.Peek)
	if o.Timeout <= 0 {
		return nil, false, nil
	}
	rings, stop, err := r.bell.Listen(ctx, recipient)
	if err != nil {
		return nil, false, err
	}
	defer stop()
	var posts <-chan bool
	if o.Posts {
		var stopPosts func()
		if posts, stopPosts, err = r.bell.Listen(ctx, anyThread); err != nil {
			return nil, false, err
		}
		defer stopPosts()
	}
	if o.edges, err = r.declareWait(ctx, &o, names); err != nil {
		return nil, false, err
	}
	defer func() { r.withdrawWait(ctx, &o, err) }()
	return r.waitOn(ctx, &o, rings, posts, deadline, silent)
}

// waitOn takes what there is, as soon as there is something, until the deadline. An agent with a limit to its silence is
// heard of every half of it. posts rings for posts in threads; it is nil unless they count.
func (r *Router) waitOn(ctx context.Context, o *WaitOptions, rings, posts <-chan bool, deadline time.Time, silent time.Duration) (ms []Message, more bool, err error) {
	take := r.lookAndTake
	for {
		if ms, more, err = take(ctx, o); err != nil || len(ms) > 0 {
			return ms, more, err
		}
		take = r.lookAndTake
		left := deadline.Sub(r.Now())
		if left <= 0 {
			return nil, false, nil
		}
		next, err := r.nextDue(ctx, o.Recipient)
		if err != nil {
			return nil, false, err
		}
		if !next.IsZero() {
			left = min(left, max(next.Sub(r.Now()), time.Millisecond))
		}
		if silent > 0 {
			left = min(left, silent/2)
		}
		timer := time.NewTimer(left)
		select {
		case named := <-rings:
			if named {
				take = r.take // there is something, so there is no need to look first
			}
		case <-posts: // of any thread
		case <-timer.C:
			silent = r.heartbeat(ctx, o.Recipient, !o.Peek)
		case <-ctx.Done():
			timer.Stop()
			return nil, false, context.Cause(ctx)
		}
		timer.Stop()
	}
}

// register adds an agent that acts for the first time.
func (r *Router) register(ctx context.Context, name string) error {
	conf, err := r.configuration(ctx)
	if err != nil || conf.agents[name] != nil {
		return err
	}
	return r.write(ctx, func(t *tx) error {
		_, err := t.acting(name, true)
		return err
	})
}

// lookAndTake is take behind a look with a reader: an idle waiter never takes the write lock.
func (r *Router) lookAndTake(ctx context.Context, o *WaitOptions) (ms []Message, more bool, err error) {
	there, held, err := r.anythingFor(ctx, o.Recipient)
	if err == nil && held {
		var ended bool
		ended, err = r.endDeadReaders(ctx, o.Recipient)
		there = there || ended
	}
	if err == nil && !there && o.Posts {
		there, err = r.anyUnreadPosts(ctx, o.Recipient)
	}
	if err != nil || !there {
		return nil, false, err
	}
	return r.take(ctx, o)
}

// take reads what there is, without waiting. Of a long backlog a first transaction delivers the usual share. What is to be
// read first may stand behind that share, so it is looked for, and a second transaction delivers it and reads.
func (r *Router) take(ctx context.Context, o *WaitOptions) (ms []Message, more bool, err error) {
	everything := o.Filter == Filter{} && !o.Peek && o.Lease.For == 0
	var first []int64
	for again := true; again; {
		var behind bool
		err = r.write(ctx, func(t *tx) (err error) {
			t.quiet = true
			ms, more, behind = nil, false, false
			if again, err = t.tidy(); err != nil || again {
				return err // what has expired must be out of the inbox before anything is read
			}
			if err := t.releaseToReader(o.Recipient); err != nil {
				return err
			}
			if everything && first == nil {
				if ms, err = t.handOver(o.Recipient, o.Limit); err != nil {
					return err
				}
			}
			if len(ms) == 0 {
				behind, err = t.deliverForReading(o.Recipient, first)
				if again = behind; err != nil || behind {
					return err
				}
				if ms, more, err = t.readUnread(o); err != nil {
					return err
				}
			}
			if o.Posts {
				if ms, more, err = t.withUnreadPosts(o, ms, more); err != nil {
					return err
				}
			}
			if len(ms) == 0 {
				return nil
			}
			if !o.Peek {
				if err := t.heartbeat(o.Recipient); err != nil {
					return err
				}
			}
			return t.endWait(o.edges)
		})
		if err == nil && behind {
			first, err = r.firstDue(ctx, o)
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

// firstDue finds the messages, of those that are due and not delivered, that a reader is to get first. That may take a
// walk along all of them, and so is not done while others wait to write. The result is not nil.
func (r *Router) firstDue(ctx context.Context, o *WaitOptions) ([]int64, error) {
	first := []int64{}
	err := r.look(ctx, func(c *Conn) error {
		return c.query(`SELECT seq FROM agent_message m WHERE `+takeable+selected+readingOrder+` LIMIT +?8`, func(row store.Row) error {
			first = append(first, row.Int(0))
			return nil
		}, stamp(r.Now()), o.Recipient, o.Filter.Type, o.Filter.Target, optional(o.Filter.MinPriority), optional(o.Filter.MaxPriority),
			o.Filter.Sender, o.Limit+1)
	})
	return first, err
}

// anythingFor looks whether taking could find something, and whether a process holds messages of the recipient under a
// lease. It is what a waiter does first when it wakes up, so it is one statement as long as the configuration is the one
// that is known.
func (r *Router) anythingFor(ctx context.Context, recipient string) (there, held bool, err error) {
	err = r.glance(ctx, func(c *Conn) error {
		var version string
		err := c.query(`
			SELECT (SELECT value FROM settings WHERE key = '`+configVersion+`'),
			       EXISTS (SELECT 1 FROM agent_inbox WHERE recipient = ?2 AND read_at = '')
			    OR EXISTS (SELECT 1 FROM agent_message m WHERE `+takeable+`)
			    OR EXISTS (SELECT 1 FROM agent_message WHERE `+foreign+`)
			    OR EXISTS (SELECT 1 FROM agent_message WHERE `+leased+` AND recipient = ?2 AND lease_until <= ?1)
			    OR EXISTS (SELECT 1 FROM reading_lease WHERE recipient = ?2 AND until <= ?1),
			       EXISTS (SELECT 1 FROM reading_lease WHERE recipient = ?2 AND pid > 0)`,
			func(row store.Row) error {
				version, there, held = row.Text(0), row.Int(1) != 0, row.Int(2) != 0
				return nil
			}, stamp(r.Now()), recipient)
		if err != nil {
			return err
		}
		conf := r.config.known(version)
		if conf == nil {
			if conf, err = r.config.load(c); err != nil {
				return err
			}
		}
		agent := conf.agents[recipient]
		if agent == nil {
			return c.unknownAgent(UnknownRecipient, "", recipient, conf)
		}
		if !there && r.setTransport(agent) == nil {
			there, err = c.keptFrom(agent)
		}
		return err
	})
	return there, held, err
}

// deliverForReading puts what is due to a recipient into its inbox, whatever its transport is: it has come to read. It
// takes the usual share, and behind says that more may be due; or, unless first is nil, the rows that first names.
func (t *tx) deliverForReading(recipient string, first []int64) (behind bool, err error) {
	inbox := t.r.inbox()
	if inbox == nil {
		return false, nil
	}
	conf, err := t.config()
	if err != nil {
		return false, err
	}
	if conf.agents[recipient] == nil {
		return false, t.unknownAgent(UnknownRecipient, "", recipient, conf)
	}
	batch := &inboxBatch{tx: t, delivered: map[string]int{}, left: conf.settings.ClaimSize}
	if err := batch.empty(); err != nil {
		return false, err
	}
	if first != nil {
		err = batch.takeThese(recipient, first, inbox)
	} else {
		err = batch.takeShare(recipient, batch.left, inbox)
	}
	if err != nil {
		return false, err
	}
	return batch.more, batch.deliver(conf)
}

// checkLease refuses a lease that could not be kept, and finds out which process it is bound to.
func (o *WaitOptions) checkLease() error {
	if o.Lease.PID > 0 {
		o.Lease.reader = process.Of(o.Lease.PID)
		o.Lease.host = hostOf(o.Lease.reader)
	}
	switch {
	case o.Lease.For == 0:
		return nil
	case o.Lease.For < MinReadingLease || o.Lease.For > MaxReadingLease:
		return Errorf(InvalidParams, "lease: %s is not between %s and %s", o.Lease.For, FormatDuration(MinReadingLease), FormatDuration(MaxReadingLease))
	case o.Peek:
		return Errorf(InvalidParams, "lease: messages that are only looked at are not taken").WithHint("Leave the lease out, or mark what you get as read")
	case o.Posts:
		return Errorf(InvalidParams, "lease: posts of threads have none; one cursor for each thread says what was read")
	}
	return nil
}
