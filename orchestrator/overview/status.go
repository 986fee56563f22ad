// Package overview reports how things stand: the status of the database, why a message is where it is, what has happened to it,
// and what is wrong (doctor). It reads all records, and changes none, but for the test messages that Doctor sends if asked.
package overview

import (
	"context"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/adoption"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// State is what Status reports.
type State struct {
	Database   string             `json:"database"`
	Bytes      int64              `json:"database_bytes"`
	WALBytes   int64              `json:"wal_bytes"`
	Totals     map[string]int64   `json:"totals"` // rows of agent_message by status, and "archived"
	Recipients []RecipientBacklog `json:"recipients"`
	Unread     int64              `json:"unread"` // delivered to inboxes and not read; what a reader has not confirmed included
	Overdue    int64              `json:"overdue"`
	NextDueAt  string             `json:"next_due_at,omitempty"` // next planned retry or review; now, if that is overdue
	Daemons    []daemons.Daemon   `json:"daemons"`
	Untrusted  string             `json:"untrusted,omitempty"` // why the database does nothing outside of itself
}

// RecipientBacklog counts what waits for one recipient.
type RecipientBacklog struct {
	Recipient string `json:"recipient"`
	Known     bool   `json:"known"`
	Pending   int64  `json:"pending"`
	Later     int64  `json:"later,omitempty"` // of those pending: what their senders want delivered later
	Retry     int64  `json:"retry"`
	Leased    int64  `json:"leased"` // being delivered right now
	Held      int64  `json:"held"`   // waiting for an agent of that name
	Unread    int64  `json:"unread"`
	Shown     int64  `json:"shown,omitempty"`     // of those, handed to a reader that may still confirm them
	OldestAt  string `json:"oldest_at,omitempty"` // since when something has been undelivered that is not wanted later
	NextAt    string `json:"next_attempt_at,omitempty"`
	Disabled  string `json:"disabled,omitempty"` // since when and why its transport is not used any more

	Sessions []hosts.Session `json:"host_sessions,omitempty"` // of agent hosts, that live; of several the first that looks gets a message
}

// Status returns how many messages wait for each recipient, how many there are in all, and which daemons run.
func Status(ctx context.Context, l *ledger.Ledger) (State, error) {
	s := State{Database: l.Path(), Totals: map[string]int64{}, Recipients: []RecipientBacklog{}}
	next, err := delivery.NextDue(ctx, l, "")
	if err != nil {
		return s, err
	}
	if !next.IsZero() {
		s.NextDueAt = max(orchestrator.Stamp(next), orchestrator.Stamp(l.Now()))
	}
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		for _, status := range []orchestrator.Status{orchestrator.Pending, orchestrator.Retry, orchestrator.Delivered, orchestrator.Failed, orchestrator.Lapsed, orchestrator.Cancelled} {
			s.Totals[string(status)] = 0
		}
		err := c.Query(`SELECT coalesce(status, 'pending'), count(*) FROM agent_message GROUP BY status`, func(row store.Row) error {
			s.Totals[row.Text(0)] += row.Int(1)
			return nil
		})
		if err != nil {
			return err
		}
		if s.Totals["archived"], err = c.Number(`SELECT count(*) FROM agent_message_archive`); err != nil {
			return err
		}
		if s.Recipients, err = backlogs(c, conf, l.Now()); err != nil {
			return err
		}
		s.Unread = 0
		for i := range s.Recipients {
			s.Unread += s.Recipients[i].Unread
		}
		if err := addSessions(c, s.Recipients, l.Now()); err != nil {
			return err
		}
		s.Untrusted = conf.Untrusted
		overdue := orchestrator.Stamp(l.Now().Add(-conf.Settings.OverdueAfter))
		if s.Overdue, err = c.Number(`SELECT count(*) FROM agent_message WHERE `+ledger.Live+` AND created_at < ?1 AND not_before < ?1`, overdue); err != nil {
			return err
		}
		s.Daemons, err = daemons.ListIn(c, l.Now())
		return err
	})
	s.Bytes, s.WALBytes = l.Size()
	s.Bytes -= s.WALBytes
	return s, err
}

// backlogs reports every recipient that is known or for which something waits. What others wrote and nobody has adopted yet is
// counted as adoption will make it.
func backlogs(c *store.Conn, conf *ledger.Config, clock time.Time) ([]RecipientBacklog, error) {
	list, err := store.List(c, func(row store.Row) RecipientBacklog {
		return RecipientBacklog{
			Recipient: row.Text(0), Pending: row.Int(1), Retry: row.Int(2), Leased: row.Int(3), Held: row.Int(4),
			Unread: row.Int(5), Shown: row.Int(6), OldestAt: row.Text(7), NextAt: row.Text(8), Later: row.Int(9),
		}
	}, `
		SELECT recipient, sum(pending), sum(retry), sum(leased), sum(held), sum(unread), sum(shown), coalesce(min(oldest), ''), coalesce(min(next), ''), sum(later)
		FROM (
		    SELECT recipient, count(*) FILTER (WHERE status = 'pending') AS pending, count(*) FILTER (WHERE status = 'retry') AS retry,
		           count(*) FILTER (WHERE lease_token <> '') AS leased, count(*) FILTER (WHERE held <> 0) AS held, 0 AS unread, 0 AS shown,
		           min(CASE WHEN not_before > ?1 THEN NULL WHEN not_before > created_at THEN not_before ELSE created_at END) AS oldest,
		           min(nullif(next_attempt_at, '')) AS next, count(*) FILTER (WHERE `+ledger.WantedLater+` AND not_before > ?1) AS later
		    FROM agent_message WHERE `+ledger.Live+` AND (`+ledger.Foreign+`) IS NOT TRUE GROUP BY recipient
		    UNION ALL
		    SELECT recipient, 0, 0, 0, 0, count(*), 0, NULL, NULL, 0 FROM agent_inbox WHERE read_at = '' GROUP BY recipient
		    UNION ALL
		    SELECT l.recipient, 0, 0, 0, 0, 1, CASE WHEN l.until > ?1 THEN 1 ELSE 0 END, NULL, NULL, 0`+messages.Lent+`
		    UNION ALL
		    SELECT name, 0, 0, 0, 0, 0, 0, NULL, NULL, 0 FROM agents) AS b
		GROUP BY recipient ORDER BY recipient`, orchestrator.Stamp(clock))
	if err != nil {
		return nil, err
	}
	others, err := foreignBacklogs(c, conf, clock)
	for _, other := range others {
		list = addBacklog(list, other)
	}
	for i := range list {
		if agent := conf.Agents[list[i].Recipient]; agent != nil {
			list[i].Known, list[i].Disabled = true, agent.Disabled
		}
	}
	return list, err
}

// foreignBacklogs reports what others wrote that will be live rows once it is adopted; a recipient may come more than once.
func foreignBacklogs(c *store.Conn, conf *ledger.Config, clock time.Time) (list []RecipientBacklog, err error) {
	err = c.Query(`
		SELECT recipient, status, traced_status, count(*), count(*) FILTER (WHERE held <> 0),
		       coalesce(min(CASE WHEN not_before > ?1 THEN NULL ELSE coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', created_at), ?1) END), ''),
		       coalesce(min(nullif(next_attempt_at, '')), '')
		FROM agent_message WHERE (`+ledger.Foreign+`) GROUP BY recipient, status, traced_status`, func(row store.Row) error {
		f := adoption.ForeignRow{Recipient: row.Text(0), Status: row.Text(1), Traced: row.Text(2)}
		b := RecipientBacklog{Recipient: adoption.Name(f.Recipient), OldestAt: row.Text(5), NextAt: row.Text(6)}
		switch status, _ := f.Meaning(); status {
		case orchestrator.Pending:
			b.Pending = row.Int(3)
		case orchestrator.Retry:
			b.Retry = row.Int(3)
		default:
			return nil
		}
		if adoption.CanHold(conf, b.Recipient) {
			b.Held = row.Int(4)
		}
		list = append(list, b)
		return nil
	}, orchestrator.Stamp(clock))
	return list, err
}

// addBacklog adds what others wrote to a list that is sorted by recipients.
func addBacklog(list []RecipientBacklog, other RecipientBacklog) []RecipientBacklog {
	i, found := slices.BinarySearchFunc(list, other.Recipient, func(b RecipientBacklog, name string) int { return strings.Compare(b.Recipient, name) })
	if !found {
		return slices.Insert(list, i, other)
	}
	b := &list[i]
	b.Pending, b.Retry, b.Held = b.Pending+other.Pending, b.Retry+other.Retry, b.Held+other.Held
	b.OldestAt, b.NextAt = earlier(b.OldestAt, other.OldestAt), earlier(b.NextAt, other.NextAt)
	return list
}

// earlier is the earlier of two times, of which "" is none.
func earlier(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// Attempts counts what came of deliveries, in messages: an attempt with ten messages counts ten.
type Attempts struct {
	Delivered int64
	Failed    int64 // attempts that failed, for whatever reason
	GivenUp   int64 // messages that became dead letters
	Last      int64 // the last row of message_trace that was looked at; 0 is none
}

// AttemptsAfter counts what this process did after a row of message_trace, the Last of the count before. A negative one
// counts nothing and only says where the trace ends. It reads each row of the trace once, by its key, so that it may be
// asked often. A Last that is smaller than after comes from a database that was restored meanwhile; nothing is counted then.
func AttemptsAfter(ctx context.Context, l *ledger.Ledger, after int64) (a Attempts, err error) {
	err = l.Read(ctx, func(c *store.Conn) error {
		if a.Last, err = c.Number(`SELECT coalesce(max(id), 0) FROM message_trace`); err != nil || after < 0 || a.Last <= after {
			return err
		}
		return c.Query(`SELECT event, count(*) FROM message_trace WHERE id > ? AND actor = ? GROUP BY event`, func(row store.Row) error {
			switch tracing.EventName(row.Text(0)) {
			case tracing.Delivered:
				a.Delivered = row.Int(1)
			case tracing.AttemptFailed:
				a.Failed = row.Int(1)
			case tracing.Failed:
				a.GivenUp = row.Int(1)
			}
			return nil
		}, after, l.Instance())
	})
	return a, err
}
