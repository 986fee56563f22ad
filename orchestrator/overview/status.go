// Package overview reports the state of a database: its status, why a message is where it is, what happened to the
// message, and what is wrong (doctor). It reads all records and changes none, except for the test messages that
// Doctor sends on request.
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

// State is the result of Status.
type State struct {
	Database   string             `json:"database"`
	Bytes      int64              `json:"database_bytes"`
	WALBytes   int64              `json:"wal_bytes"`
	Totals     map[string]int64   `json:"totals"` // rows of agent_message by status, and "archived"
	Recipients []RecipientBacklog `json:"recipients"`
	// Unread counts messages delivered to inboxes and not read, including those that a reader has not confirmed.
	Unread  int64 `json:"unread"`
	Overdue int64 `json:"overdue"` // of the oldest 100 of each recipient and priority
	// NextDueAt is the next planned retry or review, or the current time if something is due.
	NextDueAt string           `json:"next_due_at,omitempty"`
	Daemons   []daemons.Daemon `json:"daemons"`
	MovedTo   string           `json:"moved_to,omitempty"`  // the new address of the database, if it has moved
	Untrusted string           `json:"untrusted,omitempty"` // why the database may not act outside of itself
}

// RecipientBacklog counts what waits for one recipient.
type RecipientBacklog struct {
	Recipient string `json:"recipient"`
	Known     bool   `json:"known"`
	Pending   int64  `json:"pending"`
	Later     int64  `json:"later,omitempty"` // those of Pending whose senders asked for later delivery
	Retry     int64  `json:"retry"`
	Leased    int64  `json:"leased"` // being delivered right now
	Held      int64  `json:"held"`   // waiting for an agent with this name
	Unread    int64  `json:"unread"`
	Shown     int64  `json:"shown,omitempty"`     // those of Unread handed to a reader that may still confirm them
	OldestAt  string `json:"oldest_at,omitempty"` // since when a message has been undelivered, except those for later
	NextAt    string `json:"next_attempt_at,omitempty"`
	Overdue   int64  `json:"overdue,omitempty"`  // of the oldest 100 of each priority
	Disabled  string `json:"disabled,omitempty"` // since when and why its transport is disabled

	// UnreadSince is the time since which its inbox has had unread messages. Status does not set it.
	UnreadSince string `json:"unread_since,omitempty"`

	// Sessions are the live agent host sessions. If there are several, the first one that checks gets a message.
	Sessions []hosts.Session `json:"host_sessions,omitempty"`

	overdueSeq int64 // sequence number of the first overdue row; 0: none
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
		} else if due { // the plan has such a message only at the time when it becomes overdue
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

// Attempts counts the results of deliveries by message: an attempt with ten messages counts as ten.
type Attempts struct {
	Delivered int64
	Failed    int64 // failed attempts, for any reason
	GivenUp   int64 // messages that became dead letters
	Last      int64 // the last row of message_trace that was examined; 0: none
}

// AttemptsAfter counts the deliveries of this process that follow a row of message_trace, which is the Last of the
// previous count. If after is negative, AttemptsAfter counts nothing and returns only the end of the trace in Last.
// It reads each row of the trace once, by its key, so it may be called often. If the returned Last is smaller than
// after, the database was restored in the meantime, and nothing is counted.
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
