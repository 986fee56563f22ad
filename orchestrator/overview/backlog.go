package overview

import (
	"math"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/adoption"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// backlogs returns the backlog of every recipient that is known or has messages waiting. Rows that others wrote with
// SQL and that are not adopted yet are counted as adoption will classify them. The counts come from the table
// message_count, so that a million messages cost no more than a thousand.
func backlogs(c *store.Conn, conf *ledger.Config, counts map[string]map[orchestrator.Status]int64,
	clock time.Time) ([]RecipientBacklog, error) {
	all := map[string]*RecipientBacklog{}
	of := func(recipient string) *RecipientBacklog {
		b := all[recipient]
		if b == nil {
			b = &RecipientBacklog{Recipient: recipient}
			all[recipient] = b
		}
		return b
	}
	addCounted(conf, counts, of)
	now, overdue := orchestrator.Stamp(clock), orchestrator.Stamp(clock.Add(-conf.Settings.OverdueAfter))
	if err := addShown(c, of, now); err != nil {
		return nil, err
	}
	if err := addWanted(c, of, now); err != nil {
		return nil, err
	}
	for recipient, b := range all {
		if b.Pending+b.Retry == 0 {
			continue
		}
		err := addWaiting(c, b, now, overdue)
		if err == nil && (conf.Agents[recipient] == nil || recipient == orchestrator.User) {
			b.Held, err = c.Number(`SELECT count(*) FROM agent_message WHERE `+ledger.Live+
				` AND recipient = ?1 AND held <> 0`, recipient)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := addForeign(c, conf, of, now, overdue); err != nil {
		return nil, err
	}
	list := make([]RecipientBacklog, 0, len(all))
	for recipient, b := range all {
		if agent := conf.Agents[recipient]; agent != nil {
			b.Known, b.Disabled = true, agent.Disabled
		}
		list = append(list, *b)
	}
	slices.SortFunc(list, func(a, b RecipientBacklog) int { return strings.Compare(a.Recipient, b.Recipient) })
	return list, nil
}

// addCounted adds all agents, and the stored counts of every recipient.
func addCounted(conf *ledger.Config, counts map[string]map[orchestrator.Status]int64,
	of func(recipient string) *RecipientBacklog) {
	for name, agent := range conf.Agents {
		if !agent.BuiltIn {
			of(name)
		}
	}
	for recipient, states := range counts {
		pending, retry, unread := states[orchestrator.Pending], states[orchestrator.Retry], states[ledger.Unread]
		if pending != 0 || retry != 0 || unread != 0 {
			// a negative count means that somebody edited the tables by hand: see doctor
			b := of(recipient)
			b.Pending, b.Retry, b.Unread = pending, retry, unread
		}
	}
}

// addShown adds the messages that are handed to readers, and those that are being delivered.
func addShown(c *store.Conn, of func(recipient string) *RecipientBacklog, now string) error {
	err := c.Query(`SELECT l.recipient, CASE WHEN l.until > ?1 THEN 1 ELSE 0 END`+messages.Lent,
		func(row store.Row) error {
			b := of(row.Text(0))
			b.Unread++
			b.Shown += row.Int(1)
			return nil
		}, now)
	if err != nil {
		return err
	}
	return c.Query(`SELECT recipient, count(*) FROM agent_message INDEXED BY agent_message_leased WHERE `+ledger.Leased+
		` GROUP BY recipient`, func(row store.Row) error {
		of(row.Text(0)).Leased = row.Int(1)
		return nil
	})
}

// addUnread adds to each inbox the time since which it has had unread messages. It looks at the first maxOldest rows
// of the index, which are the oldest.
func addUnread(c *store.Conn, list []RecipientBacklog) (err error) {
	for i := range list {
		if b := &list[i]; b.Unread > 0 && err == nil {
			b.UnreadSince, _, err = c.Text(`SELECT coalesce(min(delivered_at), '')
				FROM (SELECT delivered_at FROM agent_inbox
				WHERE recipient = ?1 AND read_at = '' LIMIT +?2) AS u`, b.Recipient, maxOldest)
		}
	}
	return err
}

// addWanted adds the messages whose senders asked for later delivery.
func addWanted(c *store.Conn, of func(recipient string) *RecipientBacklog, now string) error {
	return c.Query(`SELECT recipient, count(*), min(next_attempt_at)
		FROM agent_message INDEXED BY agent_message_wanted_later
		WHERE `+ledger.WantedLater+` AND next_attempt_at > ?1 GROUP BY recipient`, func(row store.Row) error {
		b := of(row.Text(0))
		b.Later, b.NextAt = row.Int(1), row.Text(2)
		return nil
	}, now)
}

// maxOldest bounds how many rows of one recipient and priority are examined for how long they have waited.
// maxPriorities bounds the number of priorities: there are 19, and any that somebody wrote by hand.
const (
	maxOldest     = 100
	maxPriorities = 30
)

// addWaiting adds the time since which messages to a recipient have waited, the time of the next attempt, and the
// number of overdue messages among the oldest rows.
func addWaiting(c *store.Conn, b *RecipientBacklog, now, overdue string) (err error) {
	below := int64(math.MaxInt64) // the highest priority that is not examined yet
	for range maxPriorities {
		priority, there := int64(0), false
		err = c.Query(`SELECT priority FROM agent_message WHERE `+ledger.Live+
			` AND recipient = ?1 AND priority <= ?2 ORDER BY priority DESC LIMIT 1`,
			func(row store.Row) error {
				priority, there = row.Int(0), true
				return nil
			}, b.Recipient, below)
		if err != nil || !there {
			break
		}
		err = c.Query(`
			SELECT coalesce(min(CASE WHEN not_before > ?3 THEN NULL WHEN not_before > created_at THEN not_before ELSE created_at END), ''),
			       coalesce(min(nullif(next_attempt_at, '')), ''),
			       	count(*) FILTER (WHERE created_at < ?4 AND not_before < ?4),
			       coalesce(min(CASE WHEN created_at < ?4 AND not_before < ?4 THEN seq END), 0)
			FROM (SELECT created_at, not_before, next_attempt_at, seq FROM agent_message
			      WHERE `+ledger.Live+` AND recipient = ?1 AND priority = ?2 AND (`+ledger.Foreign+
			`) IS NOT TRUE ORDER BY seq LIMIT +?5) AS w`, func(row store.Row) error {
			b.OldestAt, b.NextAt = earlier(b.OldestAt, row.Text(0)), earlier(b.NextAt, row.Text(1))
			b.addOverdue(row.Int(2), row.Int(3))
			return nil
		}, b.Recipient, priority, now, overdue, maxOldest)
		if err != nil || priority == math.MinInt64 {
			break
		}
		below = priority - 1
	}
	if err != nil || b.Retry == 0 {
		return err
	}
	next, _, err := c.Text(`SELECT next_attempt_at FROM agent_message INDEXED BY agent_message_later WHERE `+
		ledger.Later+` AND recipient = ?1 ORDER BY next_attempt_at LIMIT 1`, b.Recipient)
	b.NextAt = earlier(b.NextAt, next)
	return err
}

// addForeignTotals counts rows that others wrote with SQL and that are not adopted yet, under the status they have.
func addForeignTotals(c *store.Conn, totals map[string]int64) error {
	return c.Query(`SELECT coalesce(status, 'pending'), traced_status, count(*) FROM agent_message WHERE (`+
		ledger.Foreign+`) GROUP BY status, traced_status`,
		func(row store.Row) error {
			totals[row.Text(0)] += row.Int(2)
			if traced := row.Text(1); slices.Contains(orchestrator.Statuses, orchestrator.Status(traced)) {
				totals[traced] -= row.Int(2)
			}
			return nil
		})
}

// add adds n messages with a status, if messages with that status wait for delivery.
func (b *RecipientBacklog) add(status orchestrator.Status, n int64) {
	switch status {
	case orchestrator.Pending:
		b.Pending += n
	case orchestrator.Retry:
		b.Retry += n
	}
}

// addForeign adds the rows that others wrote with SQL and that will be live once they are adopted, minus the rows
// among them that are counted already.
func addForeign(c *store.Conn, conf *ledger.Config, of func(recipient string) *RecipientBacklog,
	now, overdue string) error {
	return c.Query(`
		SELECT recipient, status, traced_status, count(*), count(*) FILTER (WHERE held <> 0),
		       coalesce(min(CASE WHEN not_before > ?1 THEN NULL ELSE coalesce(strftime('%Y-%m-%dT%H:%M:%fZ',
		       	created_at), ?1) END), ''),
		       coalesce(min(nullif(next_attempt_at, '')), ''),
		       count(*) FILTER (WHERE created_at < ?2 AND not_before < ?2),
		       coalesce(min(CASE WHEN created_at < ?2 AND not_before < ?2 THEN seq END), 0)
		FROM agent_message WHERE (`+ledger.Foreign+`) GROUP BY recipient, status, traced_status`,
		func(row store.Row) error {
			f := adoption.ForeignRow{Recipient: row.Text(0), Status: row.Text(1), Traced: row.Text(2)}
			will, _ := f.Meaning()
			was, waits := orchestrator.Status(f.Traced), isLive(will)
			if !waits && !isLive(was) {
				return nil
			}
			b := of(adoption.Name(f.Recipient))
			b.add(was, -row.Int(3))
			b.add(will, row.Int(3))
			if !waits {
				return nil
			}
			b.OldestAt, b.NextAt = earlier(b.OldestAt, row.Text(5)), earlier(b.NextAt, row.Text(6))
			b.addOverdue(row.Int(7), row.Int(8))
			if adoption.CanHold(conf, b.Recipient) {
				b.Held += row.Int(4)
			}
			return nil
		}, now, overdue)
}

func isLive(status orchestrator.Status) bool {
	return status == orchestrator.Pending || status == orchestrator.Retry
}

// addOverdue adds n overdue messages. seq is the number of the first of them, or 0 if n is 0.
func (b *RecipientBacklog) addOverdue(n, seq int64) {
	if b.Overdue += n; seq != 0 && (b.overdueSeq == 0 || seq < b.overdueSeq) {
		b.overdueSeq = seq
	}
}

// Oldest returns the time since which a message has been undelivered or unread.
func (b *RecipientBacklog) Oldest() string { return earlier(b.OldestAt, b.UnreadSince) }

// earlier returns the earlier of two times. "" stands for no time.
func earlier(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// addSessions adds the agent host sessions in which the recipients work.
func addSessions(c *store.Conn, list []RecipientBacklog, now time.Time) error {
	living, err := hosts.Living(c, now)
	for _, s := range living {
		i := slices.IndexFunc(list, func(b RecipientBacklog) bool { return b.Recipient == s.Agent })
		if i >= 0 {
			list[i].Sessions = append(list[i].Sessions, s)
		}
	}
	return err
}
