package overview

import (
	"maps"
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

// backlogs reports every recipient that is known or for which something waits, and how many messages are overdue,
// created and wanted before that time. What others wrote and nobody has adopted yet is counted as adoption will make
// it. What waits is counted by message_count, so that a million messages cost no more than a thousand. Unless only is
// nil, others than these are left out.
func backlogs(c *store.Conn, conf *ledger.Config, counts map[string]map[orchestrator.Status]int64, clock time.Time,
	overdue string, only []string) (list []RecipientBacklog, late int64, err error) {
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
	now := orchestrator.Stamp(clock)
	if err := addShown(c, of, now); err != nil {
		return nil, 0, err
	}
	if err := addWanted(c, of, now); err != nil {
		return nil, 0, err
	}
	isLeftOut := func(recipient string) bool { return only != nil && !slices.Contains(only, recipient) }
	maps.DeleteFunc(all, func(recipient string, _ *RecipientBacklog) bool { return isLeftOut(recipient) })
	for recipient, b := range all {
		if b.Pending+b.Retry == 0 {
			continue
		}
		n, err := addWaiting(c, b, now, overdue)
		if err == nil && (conf.Agents[recipient] == nil || recipient == orchestrator.User) {
			b.Held, err = c.Number(`SELECT count(*) FROM agent_message WHERE `+ledger.Live+` AND recipient = ?1
				AND held <> 0`, recipient)
		}
		if err != nil {
			return nil, 0, err
		}
		late += n
	}
	list = make([]RecipientBacklog, 0, len(all))
	for _, b := range all {
		list = append(list, *b)
	}
	slices.SortFunc(list, func(a, b RecipientBacklog) int { return strings.Compare(a.Recipient, b.Recipient) })
	others, err := withForeign(&list, c, conf, clock, overdue, isLeftOut)
	return list, late + others, err
}

// withForeign adds what others wrote to a list, and to each recipient what is known of it. It returns how much of what
// it added is overdue.
func withForeign(list *[]RecipientBacklog, c *store.Conn, conf *ledger.Config, clock time.Time, overdue string,
	isLeftOut func(recipient string) bool) (late int64, err error) {
	others, err := foreignBacklogs(c, conf, clock, overdue)
	for _, other := range others {
		if !isLeftOut(other.Recipient) {
			*list = addBacklog(*list, other)
			late += other.Overdue
		}
	}
	for i := range *list {
		b := &(*list)[i]
		if agent := conf.Agents[b.Recipient]; agent != nil {
			b.Known, b.Disabled = true, agent.Disabled
		}
	}
	return late, err
}

// addCounted adds all agents, and what is counted of whomever.
func addCounted(conf *ledger.Config, counts map[string]map[orchestrator.Status]int64,
	of func(recipient string) *RecipientBacklog) {
	for name, agent := range conf.Agents {
		if !agent.BuiltIn {
			of(name)
		}
	}
	for recipient, states := range counts {
		pending, retry, unread := states[orchestrator.Pending], states[orchestrator.Retry], states[ledger.Unread]
		// fewer than 0 says that somebody did something by hand: see doctor
		if pending != 0 || retry != 0 || unread != 0 {
			b := of(recipient)
			b.Pending, b.Retry, b.Unread = pending, retry, unread
		}
	}
}

// addShown adds what is handed to readers, and what is being delivered.
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

// addUnread adds since when something has been unread in each inbox: of the first rows that its index has, which are
// the oldest.
func addUnread(c *store.Conn, list []RecipientBacklog) (err error) {
	for i := range list {
		if b := &list[i]; b.Unread > 0 && err == nil {
			b.UnreadSince, _, err = c.Text(`SELECT coalesce(min(delivered_at), '') FROM (SELECT delivered_at
				FROM agent_inbox
				WHERE recipient = ?1 AND read_at = '' LIMIT +?2) AS u`, b.Recipient, maxOldest)
		}
	}
	return err
}

// addWanted adds what its senders want delivered later.
func addWanted(c *store.Conn, of func(recipient string) *RecipientBacklog, now string) error {
	return c.Query(`SELECT recipient, count(*), min(next_attempt_at)
		FROM agent_message INDEXED BY agent_message_wanted_later
		WHERE `+ledger.WantedLater+` AND next_attempt_at > ?1 GROUP BY recipient`, func(row store.Row) error {
		b := of(row.Text(0))
		b.Later, b.NextAt = row.Int(1), row.Text(2)
		return nil
	}, now)
}

// maxOldest bounds the rows of one recipient and priority that are looked at for how long they have waited, and
// maxPriorities the priorities: there are 19 of them, and those that somebody wrote by hand.
const (
	maxOldest     = 100
	maxPriorities = 30
)

// addWaiting adds since when something has waited for a recipient, and when it is tried next. It returns how many of
// the oldest rows are overdue.
func addWaiting(c *store.Conn, b *RecipientBacklog, now, overdue string) (late int64, err error) {
	below := int64(math.MaxInt64) // priorities that are not looked at yet: up to this one
	for range maxPriorities {
		priority, there := int64(0), false
		err = c.Query(`SELECT priority FROM agent_message WHERE `+ledger.Live+` AND recipient = ?1 AND priority <= ?2
			ORDER BY priority DESC LIMIT 1`,
			func(row store.Row) error {
				priority, there = row.Int(0), true
				return nil
			}, b.Recipient, below)
		if err != nil || !there {
			break
		}
		err = c.Query(`
			SELECT coalesce(min(CASE WHEN not_before > ?3 THEN NULL WHEN not_before > created_at THEN not_before ELSE created_at END), ''),
			       coalesce(min(nullif(next_attempt_at, '')), ''), count(*) FILTER (WHERE created_at < ?4
				AND not_before < ?4),
			       coalesce(min(CASE WHEN created_at < ?4 AND not_before < ?4 THEN seq END), 0)
			FROM (SELECT created_at, not_before, next_attempt_at, seq FROM agent_message
			      WHERE `+ledger.Live+` AND recipient = ?1 AND priority = ?2 AND (`+ledger.Foreign+
			`) IS NOT TRUE ORDER BY seq LIMIT +?5) AS w`, func(row store.Row) error {
			b.OldestAt, b.NextAt = earlier(b.OldestAt, row.Text(0)), earlier(b.NextAt, row.Text(1))
			late += row.Int(2)
			if seq := row.Int(3); seq != 0 && (b.overdueSeq == 0 || seq < b.overdueSeq) {
				b.overdueSeq = seq
			}
			return nil
		}, b.Recipient, priority, now, overdue, maxOldest)
		if err != nil || priority == math.MinInt64 {
			break
		}
		below = priority - 1
	}
	if b.Overdue = late; err != nil || b.Retry == 0 {
		return late, err
	}
	next, _, err := c.Text(`SELECT next_attempt_at FROM agent_message INDEXED BY agent_message_later WHERE `+
		ledger.Later+` AND recipient = ?1 ORDER BY next_attempt_at LIMIT 1`, b.Recipient)
	b.NextAt = earlier(b.NextAt, next)
	return late, err
}

// addForeignTotals counts what others wrote and nobody has adopted yet under the status that it has.
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

// add adds n messages with a status, if they wait under it.
func (b *RecipientBacklog) add(status orchestrator.Status, n int64) bool {
	switch status {
	case orchestrator.Pending:
		b.Pending += n
	case orchestrator.Retry:
		b.Retry += n
	default:
		return false
	}
	return true
}

// foreignBacklogs reports what others wrote that will be live rows once it is adopted, less what of it is counted
// already; a recipient may come more than once.
func foreignBacklogs(c *store.Conn, conf *ledger.Config, clock time.Time, overdue string) (list []RecipientBacklog,
	err error) {
	err = c.Query(`
		SELECT recipient, status, traced_status, count(*), count(*) FILTER (WHERE held <> 0),
		       coalesce(min(CASE WHEN not_before > ?1 THEN NULL ELSE coalesce(strftime('%Y-%m-%dT%H:%M:%fZ',
			created_at), ?1) END), ''),
		       coalesce(min(nullif(next_attempt_at, '')), ''), count(*) FILTER (WHERE created_at < ?2
			AND not_before < ?2),
		       coalesce(min(CASE WHEN created_at < ?2 AND not_before < ?2 THEN seq END), 0)
		FROM agent_message WHERE (`+ledger.Foreign+`) GROUP BY recipient, status, traced_status`,
		func(row store.Row) error {
			f := adoption.ForeignRow{Recipient: row.Text(0), Status: row.Text(1), Traced: row.Text(2)}
			b := RecipientBacklog{Recipient: adoption.Name(f.Recipient)}
			b.add(orchestrator.Status(f.Traced), -row.Int(3))
			if status, _ := f.Meaning(); b.add(status, row.Int(3)) {
				b.OldestAt, b.NextAt, b.Overdue, b.overdueSeq = row.Text(5), row.Text(6), row.Int(7), row.Int(8)
				if adoption.CanHold(conf, b.Recipient) {
					b.Held = row.Int(4)
				}
			}
			if b.Pending != 0 || b.Retry != 0 || b.OldestAt != "" {
				list = append(list, b)
			}
			return nil
		}, orchestrator.Stamp(clock), overdue)
	return list, err
}

// addBacklog adds what others wrote to a list that is sorted by recipients.
func addBacklog(list []RecipientBacklog, other RecipientBacklog) []RecipientBacklog {
	i, found := slices.BinarySearchFunc(list, other.Recipient, func(b RecipientBacklog,
		name string) int {
		return strings.Compare(b.Recipient, name)
	})
	if !found {
		return slices.Insert(list, i, other)
	}
	b := &list[i]
	b.Pending, b.Retry, b.Held = b.Pending+other.Pending, b.Retry+other.Retry, b.Held+other.Held
	b.OldestAt, b.NextAt = earlier(b.OldestAt, other.OldestAt), earlier(b.NextAt, other.NextAt)
	if b.Overdue += other.Overdue; b.overdueSeq == 0 || other.overdueSeq != 0 && other.overdueSeq < b.overdueSeq {
		b.overdueSeq = other.overdueSeq
	}
	return list
}

// Oldest returns since when something has been undelivered or unread.
func (b *RecipientBacklog) Oldest() string { return earlier(b.OldestAt, b.UnreadSince) }

// earlier is the earlier of two times, of which "" is none.
func earlier(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// addSessions adds the sessions of agent hosts in which the recipients work.
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
