// Package overview reports how things stand: the status of the database, why a message is where it is, what has
// happened to it, and what is wrong (doctor). It reads all records, and changes none, but for the test messages that
// Doctor sends if asked.
package overview

import (
	"context"

	"mailroom/orchestrator"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
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
	// delivered to inboxes and not read; what a reader has not confirmed included
	Unread  int64 `json:"unread"`
	Overdue int64 `json:"overdue"` // of the oldest 100 of each recipient and priority
	// next planned retry or review; now, if something is due
	NextDueAt string           `json:"next_due_at,omitempty"`
	Daemons   []daemons.Daemon `json:"daemons"`
	MovedTo   string           `json:"moved_to,omitempty"`  // where the database is now, if it has moved
	Untrusted string           `json:"untrusted,omitempty"` // why the database does nothing outside of itself
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
	Overdue   int64  `json:"overdue,omitempty"`  // of the oldest 100 of each priority
	Disabled  string `json:"disabled,omitempty"` // since when and why its transport is not used any more

	// since when something has been unread in its inbox; Status does not ask
	UnreadSince string `json:"unread_since,omitempty"`

	// of agent hosts, that live; of several the first that looks gets a message
	Sessions []hosts.Session `json:"host_sessions,omitempty"`

	overdueSeq int64 // of the first row that is overdue; 0: none is
}

// Status returns how many messages wait for each recipient, how many there are in all, and which daemons run.
func Status(ctx context.Context, l *ledger.Ledger) (State, error) {
	s := State{Database: l.Path(), Recipients: []RecipientBacklog{}}
	next, err := delivery.NextDue(ctx, l)
	if err != nil {
		return s, err
	}
	planned := ""
	if !next.IsZero() {
		planned = max(orchestrator.Stamp(next), orchestrator.Stamp(l.Now()))
	}
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		s.NextDueAt, s.Totals = planned, map[string]int64{string(ledger.Archived): 0}
		for _, status := range orchestrator.Statuses {
			s.Totals[string(status)] = 0
		}
		counts, err := ledger.Counts(c)
		if err != nil {
			return err
		}
		for _, of := range counts {
			for state, n := range of {
				if state != ledger.Unread {
					s.Totals[string(state)] += n
				}
			}
		}
		if s.Recipients, err = backlogs(c, conf, counts, l.Now()); err != nil {
			return err
		}
		if due, err := anythingDue(c, l, conf, s.Recipients); err != nil {
			return err
		} else if due { // stands in the plan only with the time from which it is overdue
			s.NextDueAt = orchestrator.Stamp(l.Now())
		}
		if err := addForeignTotals(c, s.Totals); err != nil {
			return err
		}
		s.Unread, s.Overdue = 0, 0
		for i := range s.Recipients {
			s.Unread += s.Recipients[i].Unread
			s.Overdue += s.Recipients[i].Overdue
		}
		if err := addSessions(c, s.Recipients, l.Now()); err != nil {
			return err
		}
		s.MovedTo, s.Untrusted = conf.Stored[store.MovedTo], conf.Untrusted
		s.Daemons, err = daemons.ListIn(c, l)
		return err
	})
	s.Bytes, s.WALBytes = l.Size()
	s.Bytes -= s.WALBytes
	return s, err
}

// anythingDue reports whether a delivery run would have anything to do.
func anythingDue(c *store.Conn, l *ledger.Ledger, conf *ledger.Config, backlog []RecipientBacklog) (due bool,
	err error) {
	due, err = delivery.Untidy(l, c, conf, l.Now())
	for i := range backlog {
		if err != nil || due {
			break
		}
		if b := &backlog[i]; b.Pending+b.Retry > b.Later+b.Leased+b.Held {
			due, err = delivery.FirstDue(c, conf, l.Now(), b.Recipient)
		}
	}
	return due, err
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
// asked often. A Last that is smaller than after comes from a database that was restored meanwhile; nothing is counted
// then.
func AttemptsAfter(ctx context.Context, l *ledger.Ledger, after int64) (a Attempts, err error) {
	settled, err := store.SettledIn(ctx, l.Store)
	if err != nil {
		return a, err
	}
	err = l.Read(ctx, func(c *store.Conn) error {
		a = Attempts{}
		if a.Last, err = c.Number(`SELECT coalesce(max(id), 0) FROM message_trace WHERE id <= ?1`,
			settled.Events); err != nil || after < 0 || a.Last <= after {
			return err
		}
		return c.Query(`SELECT event, count(*) FROM message_trace WHERE id > ?1 AND id <= ?2 AND actor = ?3
			GROUP BY event`, func(row store.Row) error {
			switch tracing.EventName(row.Text(0)) {
			case tracing.Delivered:
				a.Delivered = row.Int(1)
			case tracing.AttemptFailed:
				a.Failed = row.Int(1)
			case tracing.Failed:
				a.GivenUp = row.Int(1)
			}
			return nil
		}, after, a.Last, l.Instance())
	})
	return a, err
}
