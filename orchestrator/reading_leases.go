package orchestrator

import (
	"context"
	"fmt"
	"os"
	"time"

	"mailroom/orchestrator/process"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// A reading lease lasts from MinReadingLease to MaxReadingLease. One in the table that lasts longer was written by hand, or
// by a clock that was set back since, and is shortened to that.
const (
	MinReadingLease = time.Second
	MaxReadingLease = 24 * time.Hour
)

// ReadingLease says for how long a reader has the messages that it is handed before it must have acknowledged them: until
// then they are shown and not read, no other reader gets them, and afterwards they are unread again. The zero value is
// none: what is handed out is read.
type ReadingLease struct {
	For     time.Duration // MinReadingLease to MaxReadingLease
	Holder  string        // what takes them: a command
	Session string        // of the agent's host; may be ""
	PID     int           // process of this machine whose end ends the lease as well; 0: nothing but time does

	reader process.ID // PID's
	host   string     // where it has that number
}

// ShownUntil is when the message, which was handed out under a lease, comes back unless it is acknowledged; "" when it was
// handed out for good.
func (m *Message) ShownUntil() string { return m.shownUntil }

// show hands a message out under a lease: its place in the inbox looks read, so that nobody else gets it, and the message
// itself stays unread.
func (t *tx) show(m *Message, l *ReadingLease) error {
	m.shownAt, m.shownUntil = t.now, stamp(t.clock.Add(l.For))
	if _, err := t.Exec(`UPDATE agent_inbox SET read_at = ? WHERE message_id = ? AND recipient = ?`, t.now, m.ID, m.Recipient); err != nil {
		return err
	}
	if _, err := t.Exec(`
		INSERT INTO reading_lease (message_id, recipient, holder, session, host, pid, born, shown_at, until)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
		ON CONFLICT (message_id, recipient) DO UPDATE SET holder = ?3, session = ?4, host = ?5, pid = ?6, born = ?7, shown_at = ?8, until = ?9`,
		m.ID, m.Recipient, l.Holder, l.Session, l.host, l.reader.PID, l.reader.Born, m.shownAt, m.shownUntil); err != nil {
		return err
	}
	e := t.event(tracing.Shown, "to "+l.Holder+", until "+m.shownUntil+" unless it is acknowledged")
	e.MessageID, e.OldStatus, e.NewStatus = m.ID, string(m.Status), string(m.Status)
	return tracing.Record(t, e)
}

// hostOf names the machine, and the part of it, in which a process has its number.
func hostOf(p process.ID) string {
	host, _ := os.Hostname()
	return host + " " + p.Space
}

// shown is a row of reading_lease.
type shown struct {
	id, recipient, holder, session string
	pid                            int
	born, at, until                string
}

// String says who has the message.
func (s *shown) String() string {
	who := s.holder
	if who == "" {
		who = "a reader"
	}
	if s.session != "" {
		who += " in the session " + s.session
	}
	if s.pid > 0 {
		who += fmt.Sprintf(" (process %d)", s.pid)
	}
	return who
}

// leases lists rows of reading_lease.
func (c *Conn) leases(where string, args ...any) (list []shown, err error) {
	err = c.query(`SELECT message_id, recipient, holder, session, pid, born, shown_at, until FROM reading_lease WHERE `+where, func(row store.Row) error {
		list = append(list, shown{row.Text(0), row.Text(1), row.Text(2), row.Text(3), int(row.Int(4)), row.Text(5), row.Text(6), row.Text(7)})
		return nil
	}, args...)
	return list, err
}

// leaseOf returns the lease under which a message is out; nil when it is not. A row about a message that was read, or that
// stands unread in the inbox, means nothing: somebody wrote it.
func (c *Conn) leaseOf(m *Message) (*shown, error) {
	if m.Status != Delivered || m.ReadAt != "" || m.AcknowledgedAt != "" {
		return nil, nil
	}
	list, err := c.leases(`message_id = ?1 AND recipient = ?2
		AND EXISTS (SELECT 1 FROM agent_inbox WHERE message_id = ?1 AND recipient = ?2 AND read_at <> '')`, m.ID, m.Recipient)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// lent are the messages, of reading_lease as l, that a reader was handed and has neither acknowledged nor read meanwhile. They
// count as unread, though their places in agent_inbox do not look so.
const lent = ` FROM reading_lease l
	JOIN agent_inbox i ON i.message_id = l.message_id AND i.recipient = l.recipient AND i.read_at <> ''
	LEFT JOIN agent_message m ON m.message_id = l.message_id AND m.recipient = l.recipient
	WHERE coalesce(m.read_at, '') = ''`

// unreadOf selects the ids of what the agent ?1 has not read.
const unreadOf = `SELECT message_id FROM agent_inbox WHERE recipient = ?1 AND read_at = ''
	UNION ALL SELECT l.message_id` + lent + ` AND l.recipient = ?1`

// endReadingLeases gives back what was not acknowledged in time.
func (t *tx) endReadingLeases() (more bool, err error) {
	if _, err := t.Exec(`DELETE FROM reading_lease WHERE until <= ? AND (message_id >= x'' OR recipient >= x'')`, t.clockText); err != nil {
		return false, err // no message has such a name
	}
	list, err := t.leases(`until <= ? ORDER BY until LIMIT +?`, t.clockText, reviewBatch)
	if err != nil {
		return false, err
	}
	ended := 0
	for i := range list {
		s := &list[i]
		why := fmt.Sprintf("%s has not acknowledged it by %s; unread again", s, s.until)
		failed, err := t.alone("giving it back to its recipient", s.id, func() error { return t.endReadingLease(s, why) })
		if err != nil {
			return false, err
		}
		if !failed {
			ended++
		}
	}
	return len(list) == reviewBatch && ended > 0, nil
}

// endReadingLease gives a message back to its recipient, who finds it unread, in its order. One that was read or
// acknowledged after all, or that is gone, stays so.
func (t *tx) endReadingLease(s *shown, why string) error {
	if _, err := t.Exec(`DELETE FROM reading_lease WHERE message_id = ? AND recipient = ?`, s.id, s.recipient); err != nil {
		return err
	}
	const unread = ` WHERE message_id = ?1 AND recipient = ?2 AND read_at = '' AND acknowledged_at = ''
		AND EXISTS (SELECT 1 FROM agent_inbox WHERE message_id = ?1 AND recipient = ?2 AND read_at <> '')`
	ms, err := t.messages(`SELECT `+messageColumns+` FROM agent_message`+unread, s.id, s.recipient)
	if err == nil && len(ms) == 0 {
		ms, err = t.messages(`SELECT `+archivedColumns+` FROM agent_message_archive`+unread, s.id, s.recipient)
	}
	if err != nil || len(ms) == 0 {
		return err
	}
	t.ring.add([]string{s.recipient})
	if m := &ms[0]; m.Status == Delivered {
		return t.markRead(m, "", tracing.Released, why)
	}
	// Somebody has set its status by hand meanwhile. It is read when it is delivered.
	_, err = t.Exec(`UPDATE agent_inbox SET read_at = '' WHERE message_id = ? AND recipient = ?`, s.id, s.recipient)
	return err
}

// unshow ends the lease under which a message was handed out, unless it has another one by now.
func (t *tx) unshow(m *Message, why string) error {
	list, err := t.leases(`message_id = ? AND recipient = ? AND shown_at = ?`, m.ID, m.Recipient, m.shownAt)
	if err != nil || len(list) == 0 {
		return err
	}
	return t.endReadingLease(&list[0], why)
}

// endReadingLeasesOf gives back all that the readers of an agent have.
func (t *tx) endReadingLeasesOf(agent, why string) error {
	list, err := t.leases(`recipient = ?`, agent)
	if err != nil {
		return err
	}
	for i := range list {
		if err := t.endReadingLease(&list[i], why); err != nil {
			return err
		}
	}
	return nil
}

// deadReaderPoll is how often somebody who waits looks whether the process of another reader still runs.
const deadReaderPoll = time.Second

// endDeadReaders gives back what readers have whose process has ended: those of a recipient, or of everybody for "".
func (r *Router) endDeadReaders(ctx context.Context, recipient string) (ended bool, err error) {
	here := hostOf(process.Of(os.Getpid()))
	const ofProcess = `pid > 0 AND host = ?1 AND (?2 = '' OR recipient = ?2)`
	var dead []shown
	err = r.look(ctx, func(c *Conn) error {
		list, err := c.leases(ofProcess, here, recipient)
		dead = deadOf(list)
		return err
	})
	if err != nil || len(dead) == 0 {
		return false, err
	}
	return true, r.write(ctx, func(t *tx) error {
		list, err := t.leases(ofProcess, here, recipient)
		if err != nil {
			return err
		}
		for _, s := range deadOf(list) {
			if err := t.endReadingLease(&s, s.String()+" has ended; unread again"); err != nil {
				return err
			}
		}
		return nil
	})
}

// deadOf selects the leases whose process, of this machine, has ended. Each process is asked for once.
func deadOf(list []shown) (dead []shown) {
	alive := map[process.ID]bool{}
	space := process.Of(os.Getpid()).Space
	for _, s := range list {
		reader := process.ID{PID: s.pid, Born: s.born, Space: space}
		lives, known := alive[reader]
		if !known {
			lives = s.pid <= 0 || reader.Alive()
			alive[reader] = lives
		}
		if !lives {
			dead = append(dead, s)
		}
	}
	return dead
}

// markRead sets, or with at "" takes back, the time at which a message was read, and notes it.
func (t *tx) markRead(m *Message, at string, event tracing.EventName, why string) error {
	if _, err := t.Exec(`UPDATE agent_inbox SET read_at = ? WHERE message_id = ? AND recipient = ?`, at, m.ID, m.Recipient); err != nil {
		return err
	}
	if _, err := t.Exec(`
		UPDATE `+m.table()+` SET read_at = ?1,
		       review_at = CASE WHEN ?1 <> '' OR ttl_seconds IS NULL THEN '' ELSE expires_at END
		WHERE message_id = ?2 AND recipient = ?3`, at, m.ID, m.Recipient); err != nil {
		return err
	}
	e := t.event(event, why)
	e.MessageID, e.OldStatus, e.NewStatus = m.ID, string(m.Status), string(m.Status)
	return tracing.Record(t, e)
}
