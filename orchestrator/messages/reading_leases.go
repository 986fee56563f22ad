package messages

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
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

// ReadingLease says how long a reader may keep the messages that it is handed before it acknowledges them. Meanwhile they are
// shown, but not read, and no other reader gets them; if the time ends first, they are unread again. The zero value means no
// lease: what is handed out is read at once.
type ReadingLease struct {
	For    time.Duration // MinReadingLease to MaxReadingLease
	Holder string        // what takes them: a command, or the host of a session
	PID    int           // process of this machine whose end ends the lease as well; 0: nothing but time does

	// Session is the agent host's session whose model is shown the messages; "" is none. As long as its process lives, time does
	// not end the lease: the session's next event does, see package hosts.
	Session string

	// Writer is the process that has yet to write the messages to the session; the zero value is none. Until it says by Written that
	// it has, the lease is its own and not the session's: whatever the session's events tell, they tell nothing of these messages,
	// and if the writer ends first they are unread again.
	Writer process.ID

	Reader process.ID // PID's
	Host   string     // where it has that number
}

// Show hands a message out under a reading lease: its place in the inbox looks read, so that no other reader gets it, but the
// message itself stays unread.
func Show(t *ledger.Tx, m *orchestrator.Message, l *ReadingLease) error {
	if err := lend(t, m, l); err != nil {
		return err
	}
	how := "to " + l.Holder + ", until " + m.ShownUntil + " unless it is acknowledged"
	if l.Session != "" {
		how = "to session " + l.Session + " of " + l.Holder + ", not yet confirmed"
	}
	return t.NoteOf(m, tracing.Shown, how)
}

// StandsIn puts an unread message under a reading lease as Show does, but is for one that the session has already: it was shown there
// before another process of the host went on with the session.
func StandsIn(t *ledger.Tx, m *orchestrator.Message, l *ReadingLease) error {
	if err := lend(t, m, l); err != nil {
		return err
	}
	return t.NoteOf(m, tracing.Shown, "before, in session "+l.Session+" of "+l.Holder+", which goes on; not yet confirmed")
}

// lend puts a message under a reading lease.
func lend(t *ledger.Tx, m *orchestrator.Message, l *ReadingLease) error {
	m.ShownAt, m.ShownUntil = t.Now, orchestrator.Stamp(t.Clock.Add(l.For))
	session, host, reader := l.Session, l.Host, l.Reader
	if l.Writer.PID > 0 {
		session, host, reader = "", l.Writer.Host(), l.Writer
	}
	if err := t.Run(`UPDATE agent_inbox SET read_at = ? WHERE message_id = ? AND recipient = ?`, t.Now, m.ID, m.Recipient); err != nil {
		return err
	}
	_, err := t.Exec(`
		INSERT INTO reading_lease (message_id, recipient, holder, host, pid, born, shown_at, until, session)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
		ON CONFLICT (message_id, recipient) DO UPDATE SET holder = ?3, host = ?4, pid = ?5, born = ?6, shown_at = ?7, until = ?8, session = ?9`,
		m.ID, m.Recipient, l.Holder, host, reader.PID, reader.Born, m.ShownAt, m.ShownUntil, session)
	return err
}

// Written makes the lease on m, which its Writer has written, that of the session. One that has ended meanwhile stays so.
func Written(t *ledger.Tx, m *orchestrator.Message, l *ReadingLease) error {
	return t.Run(`
		UPDATE reading_lease SET session = ?4, host = ?5, pid = ?6, born = ?7, until = ?8
		WHERE message_id = ?1 AND recipient = ?2 AND shown_at = ?3 AND session = ''`,
		m.ID, m.Recipient, m.ShownAt, l.Session, l.Host, l.Reader.PID, l.Reader.Born, orchestrator.Stamp(t.Clock.Add(l.For)))
}

// Lease is a row of reading_lease.
type Lease struct {
	ID                    string // of the message
	Session               string // of an agent host, that was shown it; "" is none
	recipient, holder     string
	pid                   int
	host, born, At, Until string
}

// String says who has the message.
func (s *Lease) String() string {
	who := s.holder
	if who == "" {
		who = "a reader"
	}
	switch {
	case s.Session != "":
		return "session " + s.Session + " of " + who
	case s.pid > 0:
		return fmt.Sprintf("%s (process %d)", who, s.pid)
	}
	return who
}

// leases lists rows of reading_lease.
func leases(c *store.Conn, where string, args ...any) ([]Lease, error) {
	return store.List(c, func(row store.Row) Lease {
		return Lease{
			ID: row.Text(0), recipient: row.Text(1), holder: row.Text(2), Session: row.Text(3), pid: int(row.Int(4)), host: row.Text(5),
			born: row.Text(6), At: row.Text(7), Until: row.Text(8),
		}
	}, `SELECT message_id, recipient, holder, session, pid, host, born, shown_at, until FROM reading_lease WHERE `+where, args...)
}

// Reads reports whether it is this process that has the message.
func (s *Lease) Reads(p process.ID) bool {
	return s.pid == p.PID && s.born == p.Born && s.host == p.Host()
}

// SessionLeases lists the leases on messages to an agent that were shown to a session of its host.
func SessionLeases(c *store.Conn, agent, session string) ([]Lease, error) {
	return leases(c, `recipient = ? AND session = ?`, agent, session)
}

// LeaseOf returns the reading lease on a message, nil if there is none. A row about a message that was read, or that is unread
// in the inbox, was written by somebody else and counts for nothing.
func LeaseOf(c *store.Conn, m *orchestrator.Message) (*Lease, error) {
	if m.Status != orchestrator.Delivered || m.ReadAt != "" || m.AcknowledgedAt != "" {
		return nil, nil
	}
	list, err := leases(c, `message_id = ?1 AND recipient = ?2
		AND EXISTS (SELECT 1 FROM agent_inbox WHERE message_id = ?1 AND recipient = ?2 AND read_at <> '')`, m.ID, m.Recipient)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// Lent is the end of a SELECT, from FROM on, that selects, as reading_lease l, what a reader was handed under a lease and has
// neither acknowledged nor read since. It counts as unread, though its place in agent_inbox looks read. It is a CROSS JOIN so
// that SQLite begins with the leases, which are few.
const Lent = ` FROM reading_lease l
	CROSS JOIN agent_inbox i ON i.message_id = l.message_id AND i.recipient = l.recipient AND i.read_at <> ''
	LEFT JOIN agent_message m ON m.message_id = l.message_id AND m.recipient = l.recipient
	WHERE coalesce(m.read_at, '') = ''`

// UnreadOf is a SELECT of the ids of the messages that the agent ?1 has not read, those that are out under a lease included.
const UnreadOf = `SELECT message_id FROM agent_inbox WHERE recipient = ?1 AND read_at = ''
	UNION ALL SELECT l.message_id` + Lent + ` AND l.recipient = ?1`

// EndReadingLeases ends the reading leases whose time is over, so that their messages are unread again. more is true when there
// are others, for the next transaction.
func EndReadingLeases(t *ledger.Tx) (more bool, err error) {
	if err := t.Run(`DELETE FROM reading_lease WHERE until <= ? AND (message_id >= x'' OR recipient >= x'')`, t.ClockText); err != nil {
		return false, err // no message has such a name
	}
	list, err := leases(t.Conn, `until <= ? ORDER BY until LIMIT +?`, t.ClockText, ledger.ReviewBatch)
	if err != nil {
		return false, err
	}
	ended, here := 0, process.Of(os.Getpid())
	for i := range list {
		s := &list[i]
		failed, err := t.RowApart("giving it back to its recipient", s.ID, func() error { return s.timeIsOver(t, here) })
		if err != nil {
			return false, err
		}
		if !failed {
			ended++
		}
	}
	return len(list) == ledger.ReviewBatch && ended > 0, nil
}

// timeIsOver ends a lease, or prolongs one of a session whose process lives. here is the process that asks.
func (s *Lease) timeIsOver(t *ledger.Tx, here process.ID) error {
	reader := process.ID{PID: s.pid, Born: s.born, Space: here.Space}
	if s.Session != "" && s.pid > 0 && s.host == here.Host() && reader.Alive() {
		return Prolong(t, s, &ReadingLease{For: MaxReadingLease, Reader: reader, Host: s.host})
	}
	return GiveBack(t, s, fmt.Sprintf("%s has not acknowledged it by %s; unread again", s, s.Until))
}

// Prolong lets a session keep a message for longer, be it that another process goes on with the session.
func Prolong(t *ledger.Tx, s *Lease, l *ReadingLease) error {
	return t.Run(`UPDATE reading_lease SET until = ?3, host = ?4, pid = ?5, born = ?6 WHERE message_id = ?1 AND recipient = ?2`,
		s.ID, s.recipient, orchestrator.Stamp(t.Clock.Add(l.For)), l.Host, l.Reader.PID, l.Reader.Born)
}

// GiveBack gives a message back to its recipient, who finds it unread, in its order. One that was read or acknowledged after
// all, or that is gone, stays so. why goes into the trace.
func GiveBack(t *ledger.Tx, s *Lease, why string) error {
	return settle(t, s, func(m *orchestrator.Message) error {
		t.Wake(s.recipient)
		if m.Status == orchestrator.Delivered {
			return MarkRead(t, m, "", tracing.Released, why)
		}
		// Somebody has set its status by hand meanwhile. It is read when it is delivered.
		return t.Run(`UPDATE agent_inbox SET read_at = '' WHERE message_id = ? AND recipient = ?`, s.ID, s.recipient)
	})
}

// ConfirmShown marks a message as read, since whom it was shown to has it. why goes into the trace.
func ConfirmShown(t *ledger.Tx, s *Lease, why string) error {
	return settle(t, s, func(m *orchestrator.Message) error {
		if m.Status != orchestrator.Delivered {
			return nil // set by hand meanwhile
		}
		return MarkRead(t, m, t.Now, tracing.Read, why)
	})
}

// settle ends a reading lease and calls outcome with its message, unless that was read or acknowledged meanwhile, or is gone.
func settle(t *ledger.Tx, s *Lease, outcome func(*orchestrator.Message) error) error {
	if err := t.Run(`DELETE FROM reading_lease WHERE message_id = ? AND recipient = ?`, s.ID, s.recipient); err != nil {
		return err
	}
	const unread = ` WHERE message_id = ?1 AND recipient = ?2 AND read_at = '' AND acknowledged_at = ''
		AND EXISTS (SELECT 1 FROM agent_inbox WHERE message_id = ?1 AND recipient = ?2 AND read_at <> '')`
	ms, err := ledger.Messages(t.Conn, `SELECT `+ledger.MessageColumns+` FROM agent_message`+unread, s.ID, s.recipient)
	if err == nil && len(ms) == 0 {
		ms, err = ledger.Messages(t.Conn, `SELECT `+ledger.ArchivedColumns+` FROM agent_message_archive`+unread, s.ID, s.recipient)
	}
	if err != nil || len(ms) == 0 {
		return err
	}
	return outcome(&ms[0])
}

// Unshow ends the reading lease under which m was handed out; if the message has been lent anew since, nothing changes.
func Unshow(t *ledger.Tx, m *orchestrator.Message, why string) error {
	list, err := leases(t.Conn, `message_id = ? AND recipient = ? AND shown_at = ?`, m.ID, m.Recipient, m.ShownAt)
	if err != nil || len(list) == 0 {
		return err
	}
	return GiveBack(t, &list[0], why)
}

// EndReadingLeasesOf ends all reading leases on messages to an agent. why goes into the trace.
func EndReadingLeasesOf(t *ledger.Tx, agent, why string) error {
	list, err := leases(t.Conn, `recipient = ?`, agent)
	if err != nil {
		return err
	}
	for i := range list {
		if err := GiveBack(t, &list[i], why); err != nil {
			return err
		}
	}
	return nil
}

// DeadReaderPoll is how often a waiter looks whether the processes that hold reading leases still run.
const DeadReaderPoll = time.Second

// EndDeadReaders ends the reading leases whose process has ended, so that their messages are unread again: those of one
// recipient, or all for "". ended reports whether there were any.
func EndDeadReaders(ctx context.Context, l *ledger.Ledger, recipient string) (ended bool, err error) {
	here := process.Of(os.Getpid()).Host()
	const ofProcess = `pid > 0 AND host = ?1 AND (?2 = '' OR recipient = ?2)`
	var dead []Lease
	err = l.Look(ctx, func(c *store.Conn) error {
		list, err := leases(c, ofProcess, here, recipient)
		dead = deadOf(list)
		return err
	})
	if err != nil || len(dead) == 0 {
		return false, err
	}
	recipients := make([]string, len(dead))
	for i := range dead {
		recipients[i] = dead[i].recipient
	}
	return true, l.Write(ctx, store.Of(recipients...), func(t *ledger.Tx) error {
		list, err := leases(t.Conn, ofProcess, here, recipient)
		if err != nil {
			return err
		}
		for _, s := range deadOf(list) {
			if !slices.Contains(recipients, s.recipient) {
				continue // its lock is not held; the next look sees to it
			}
			if err := GiveBack(t, &s, s.String()+" has ended; unread again"); err != nil {
				return err
			}
		}
		return nil
	})
}

// deadOf selects the leases whose process, of this machine, has ended. Each process is asked for once.
func deadOf(list []Lease) (dead []Lease) {
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

// MarkRead sets the time at which a message was read, or with at "" makes it unread, and records the event in the trace.
func MarkRead(t *ledger.Tx, m *orchestrator.Message, at string, event tracing.EventName, why string) error {
	if err := t.Run(`UPDATE agent_inbox SET read_at = ? WHERE message_id = ? AND recipient = ?`, at, m.ID, m.Recipient); err != nil {
		return err
	}
	if err := t.Run(`
		UPDATE `+ledger.Table(m)+` SET read_at = ?1,
		       review_at = CASE WHEN ?1 <> '' OR ttl_seconds IS NULL THEN '' ELSE expires_at END
		WHERE message_id = ?2 AND recipient = ?3`, at, m.ID, m.Recipient); err != nil {
		return err
	}
	return t.NoteOf(m, event, why)
}
