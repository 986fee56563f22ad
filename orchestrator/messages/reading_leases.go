package messages

import (
	"cmp"
	"fmt"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// A reading lease lasts from MinReadingLease to MaxReadingLease. A longer lease in the table was written by hand, or
// by a clock that was set back since, and is shortened.
const (
	MinReadingLease = time.Second
	MaxReadingLease = 24 * time.Hour
)

// ReadingLease describes a reading lease: the time during which one reader has messages exclusively. The messages are
// shown but not read, and no other reader gets them. The lease ends as follows:
//   - First it lasts until the Writer has written the answer with the messages, see Written, or has ended.
//   - Then, with a Session, it lasts until the next event of that session, see package hosts, or the end of the Reader.
//   - Without a Session, it lasts until its time is over, or until the end of the Reader if there is one.
//
// If a lease ends without an acknowledgement, its messages are unread again. The zero value means no lease: messages
// are read as soon as they are handed out.
type ReadingLease struct {
	Holder string // the reader: a command, or the host of a session

	// Writer is the process that still has to write the answer; the zero value means none. Time does not end the
	// lease while this process is alive.
	Writer process.ID

	// For is the duration of the lease without an acknowledgement, from MinReadingLease to MaxReadingLease. 0 means
	// that the messages are read once the Writer has written them.
	For time.Duration

	Session string     // session of an agent host whose model is shown the messages; "" means none
	Reader  process.ID // process whose end ends the lease; the zero value means none
}

// Values of the column ends, which names what ends a lease.
const (
	byAnswer  = "answer"
	bySession = "session"
	byTime    = "time"
)

// unseenWriter is the duration of a lease whose Writer cannot be observed because it is on another machine or in
// another container. Where the Writer can be observed, the lease is prolonged as long as the Writer is alive.
const unseenWriter = 10 * time.Minute

// Show hands out a message of an inbox under a reading lease. The message's row in the inbox is marked as read, so
// that no other reader gets it, but the message itself stays unread.
func Show(t *ledger.Tx, m *orchestrator.Message, l *ReadingLease) error {
	if err := hide(t, m); err != nil {
		return err
	}
	return Lend(t, m, l)
}

// hide marks a message's row in the inbox as read.
func hide(t *ledger.Tx, m *orchestrator.Message) error {
	return t.Run(`UPDATE agent_inbox SET read_at = ? WHERE message_id = ? AND recipient = ?`, t.Now, m.ID, m.Recipient)
}

// Lend puts a message under a reading lease whose row in the inbox is already marked as read.
func Lend(t *ledger.Tx, m *orchestrator.Message, l *ReadingLease) error {
	if err := lend(t, m, m.Recipient, l); err != nil {
		return err
	}
	if l.For == 0 {
		return nil
	}
	how := "to " + l.Holder + ", until " + m.ShownUntil + " unless the message is acknowledged"
	if l.Session != "" {
		how = "to session " + l.Session + " of " + l.Holder + ", not yet confirmed"
	}
	return t.NoteOf(m, tracing.Shown, how)
}

// ShownElsewhere puts an unread message under a reading lease, as Show does, but records in the trace that the
// session already has the message: it was shown before another process of the host took over the session.
func ShownElsewhere(t *ledger.Tx, m *orchestrator.Message, l *ReadingLease) error {
	if err := hide(t, m); err != nil {
		return err
	}
	if err := lend(t, m, m.Recipient, l); err != nil {
		return err
	}
	return t.NoteOf(m, tracing.Shown, "earlier in session "+l.Session+" of "+l.Holder+
		" (still running), not yet confirmed")
}

// lend stores a reader's lease on a message.
func lend(t *ledger.Tx, m *orchestrator.Message, reader string, l *ReadingLease) error {
	m.ShownAt = t.Now
	if l.For > 0 {
		m.ShownUntil = orchestrator.Stamp(t.Clock.Add(l.For))
	}
	ends, session, process, until := l.afterwards(), l.Session, l.Reader, m.ShownUntil
	if l.Writer.PID > 0 {
		ends, session, process, until = byAnswer, "", l.Writer, orchestrator.Stamp(t.Clock.Add(unseenWriter))
	}
	t.KeepSpan()
	err := t.Run(`
		INSERT INTO reading_lease (message_id, recipient, holder, host, pid, born, shown_at, until, session, ends)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
		ON CONFLICT (message_id, recipient) DO UPDATE SET holder = ?3, host = ?4, pid = ?5, born = ?6, shown_at = ?7,
			until = ?8, session = ?9, ends = ?10`,
		m.ID, reader, l.Holder, process.Host(), process.PID, process.Born, m.ShownAt, until, session, ends)
	if err != nil {
		return err
	}
	noteShown(t, reader, m)
	if l.Session == "" {
		return nil
	}
	return t.Run(`UPDATE host_sessions SET shown_id = ?, shown_at = ? WHERE agent = ? AND session = ?`, m.ID, t.Now,
		reader, l.Session)
}

// afterwards returns what ends the lease once its answer has been written.
func (l *ReadingLease) afterwards() string {
	if l.Session != "" {
		return bySession
	}
	return byTime
}

// Written records that the lease's Writer has written the answer with m. The message is then read, or stays under the
// lease of a session or of a time. If the lease has ended in the meantime, Written does not change that.
func Written(t *ledger.Tx, m *orchestrator.Message, l *ReadingLease) error {
	const written = ` WHERE message_id = ?1 AND recipient = ?2 AND shown_at = ?3 AND host = ?4 AND pid = ?5
		AND born = ?6 AND ends = '` + byAnswer + `'`
	lease := []any{m.ID, readerOf(m), m.ShownAt, l.Writer.Host(), l.Writer.PID, l.Writer.Born}
	if m.ShownUntil != "" {
		return t.Run(`UPDATE reading_lease SET ends = ?7, session = ?8, host = ?9, pid = ?10, born = ?11, until = ?12`+
			written,
			append(lease, l.afterwards(), l.Session, l.Reader.Host(), l.Reader.PID, l.Reader.Born, m.ShownUntil)...)
	}
	n, err := t.Exec(`DELETE FROM reading_lease`+written, lease...)
	if err != nil || n == 0 || m.IsPost() {
		return err
	}
	for _, table := range []string{"agent_message", "agent_message_archive"} {
		n, err := t.Exec(`UPDATE `+table+` SET read_at = ?3, review_at = '' WHERE message_id = ?1 AND +recipient = ?2
			AND status = 'delivered' AND read_at = '' AND acknowledged_at = ''`, m.ID, m.Recipient, t.Now)
		if err != nil {
			return err
		}
		if n > 0 {
			return t.NoteOf(m, tracing.Read, "")
		}
	}
	if m.Seq == 0 { // somebody wrote it into the inbox by hand
		return t.NoteOf(m, tracing.Read, "")
	}
	return nil // cleared away, read or acknowledged meanwhile
}

// readerOf returns the agent that has, or had, the lease on m.
func readerOf(m *orchestrator.Message) string { return cmp.Or(m.Reader, m.Recipient) }

// Lease is a row of reading_lease.
type Lease struct {
	ID                    string // of the message
	Session               string // session of an agent host that was shown the message; "" means none
	recipient, holder     string // agent that reads, and program that reads for it
	ends                  string // what ends the lease
	pid                   int
	host, born, At, Until string
}

// Unwritten reports whether the answer with the message has yet to be written.
func (s *Lease) Unwritten() bool { return s.ends == byAnswer }

// String describes who has the message.
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

// leases returns the rows of reading_lease that satisfy a condition.
func leases(c *store.Conn, where string, args ...any) ([]Lease, error) {
	return store.List(c, func(row store.Row) Lease {
		return Lease{
			ID: row.Text(0), recipient: row.Text(1), holder: row.Text(2), Session: row.Text(3), pid: int(row.Int(4)),
			host: row.Text(5),
			born: row.Text(6), At: row.Text(7), Until: row.Text(8), ends: row.Text(9),
		}
	}, `SELECT message_id, recipient, holder, session, pid, host, born, shown_at, until, ends FROM reading_lease
		WHERE `+where, args...)
}

// Reads reports whether process p has the message.
func (s *Lease) Reads(p process.ID) bool {
	return s.pid == p.PID && s.born == p.Born && s.host == p.Host()
}

// OfAnother reports whether a process other than p has the message and still runs. A process that cannot be observed
// from here, for example in another container, counts as ended.
func (s *Lease) OfAnother(p process.ID) bool {
	other := process.ID{PID: s.pid, Born: s.born, Space: p.Space}
	return s.host == p.Host() && other != p && other.Here()
}

// SessionLeases returns the leases on an agent's messages that were shown to a session of its host.
func SessionLeases(c *store.Conn, agent, session string) ([]Lease, error) {
	return leases(c, `recipient = ? AND session = ?`, agent, session)
}

// LeaseOf returns the reading lease on a message, or nil if there is none. It ignores a row for a message that was
// read, or that is unread in the inbox, because somebody else wrote such a row.
func LeaseOf(c *store.Conn, m *orchestrator.Message) (*Lease, error) {
	if m.Status != orchestrator.Delivered || m.ReadAt != "" || m.AcknowledgedAt != "" {
		return nil, nil
	}
	list, err := leases(c, `message_id = ?1 AND recipient = ?2
		AND EXISTS (SELECT 1 FROM agent_inbox WHERE message_id = ?1 AND recipient = ?2 AND read_at <> '')`, m.ID,
		m.Recipient)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// Lent is the end of a SELECT, from FROM on, that selects, as reading_lease l, the messages that a reader was handed
// under a lease and has neither acknowledged nor read since. They count as unread, although their rows in agent_inbox
// are marked as read. The CROSS JOIN makes SQLite start with the leases, which are few.
const Lent = ` FROM reading_lease l
	CROSS JOIN agent_inbox i ON i.message_id = l.message_id AND i.recipient = l.recipient AND i.read_at <> ''
	LEFT JOIN agent_message m ON m.message_id = l.message_id AND m.recipient = l.recipient
	WHERE coalesce(m.read_at, '') = ''`

// UnreadOf is a SELECT of the ids of the messages that the agent ?1 has not read, including those under a lease.
const UnreadOf = `SELECT message_id FROM agent_inbox WHERE recipient = ?1 AND read_at = ''
	UNION ALL SELECT l.message_id` + Lent + ` AND l.recipient = ?1`

// EndReadingLeases ends the reading leases whose time is over, so that their messages are unread again. more reports
// whether others are left for the next transaction.
func EndReadingLeases(t *ledger.Tx) (more bool, err error) {
	if err := t.Run(`DELETE FROM reading_lease WHERE until <= ? AND (message_id >= x'' OR recipient >= x'')`,
		t.ClockText); err != nil {
		return false, err // no message has such a name
	}
	list, err := leases(t.Conn, `until <= ? ORDER BY until LIMIT +?`, t.ClockText, ledger.ReviewBatch)
	if err != nil {
		return false, err
	}
	here := process.Self()
	for i := range list {
		if err := list[i].timeIsOver(t, here); err != nil {
			return false, err
		}
	}
	return len(list) == ledger.ReviewBatch, nil
}

// timeIsOver ends a lease whose time is over. It prolongs the lease instead if the lease depends on a process that is
// observably alive. here is the calling process.
func (s *Lease) timeIsOver(t *ledger.Tx, here process.ID) error {
	reader := process.ID{PID: s.pid, Born: s.born, Space: here.Space}
	seen := s.pid > 0 && s.host == here.Host() && reader.Alive()
	switch {
	case seen && s.ends == byAnswer:
		return Prolong(t, s, &ReadingLease{For: unseenWriter, Reader: reader})
	case seen && s.ends == bySession:
		return Prolong(t, s, &ReadingLease{For: MaxReadingLease, Reader: reader})
	case s.ends == byAnswer:
		return GiveBack(t, s, fmt.Sprintf("%s did not write its answer by %s; unread again", s, s.Until))
	}
	return GiveBack(t, s, fmt.Sprintf("%s did not acknowledge the message by %s; unread again", s, s.Until))
}

// Prolong extends a reading lease, possibly for another process that has taken over the session.
func Prolong(t *ledger.Tx, s *Lease, l *ReadingLease) error {
	return t.Run(`UPDATE reading_lease SET until = ?3, host = ?4, pid = ?5, born = ?6 WHERE message_id = ?1
		AND recipient = ?2`,
		s.ID, s.recipient, orchestrator.Stamp(t.Clock.Add(l.For)), l.Reader.Host(), l.Reader.PID, l.Reader.Born)
}

// giveBack returns a message to its recipient, and fails if the change is refused. If the message is a post, all
// later posts of its thread become unread again as well.
func giveBack(t *ledger.Tx, s *Lease, why string) error {
	t.Wake(s.recipient)
	m, err := end(t, s)
	switch {
	case err != nil:
		return err
	case m == nil:
		return giveBackOther(t, s)
	case m.Status == orchestrator.Delivered:
		return MarkRead(t, m, "", tracing.Released, why)
	}
	// Somebody has set the status by hand meanwhile. The message is read when it is delivered.
	return t.Run(`UPDATE agent_inbox SET read_at = '' WHERE message_id = ? AND recipient = ?`, s.ID, s.recipient)
}

// GiveBack returns a message to its recipient, who finds it unread in its original order. A message that has been
// read or acknowledged after all, or that no longer exists, is not changed. If a trigger of the user refuses the
// change, the refusal is logged, the next attempt follows after a while, and other messages are not delayed. why is
// recorded in the trace.
func GiveBack(t *ledger.Tx, s *Lease, why string) error {
	refused, err := t.RowSavepoint("giving it back to its recipient", s.ID, func() error { return giveBack(t, s, why) })
	if err != nil || !refused {
		return err
	}
	return t.Run(`UPDATE reading_lease SET ends = '`+byTime+
		`', until = ?3, host = '', pid = 0, born = '' WHERE message_id = ?1 AND recipient = ?2`,
		s.ID, s.recipient, orchestrator.Stamp(t.Clock.Add(againGivenBack)))
}

// againGivenBack is the time until the next attempt to return a message that could not be returned.
const againGivenBack = 10 * time.Minute

// giveBackOther returns an entry that is not an unread message to an agent: a post, or a row that somebody wrote into
// the inbox by hand.
func giveBackOther(t *ledger.Tx, s *Lease) error {
	const post = ` WHERE message_id = ?1 AND recipient = '` + orchestrator.ThreadPrefix + `' || thread_id`
	posts, err := ledger.Messages(t.Conn, `SELECT `+ledger.MessageColumns+` FROM agent_message`+post, s.ID)
	if err == nil && len(posts) == 0 {
		posts, err = ledger.Messages(t.Conn, `SELECT `+ledger.ArchivedColumns+` FROM agent_message_archive`+post, s.ID)
	}
	if err != nil {
		return err
	}
	if len(posts) > 0 {
		return unreadFrom(t, &posts[0], s.recipient)
	}
	return t.Run(`UPDATE agent_inbox SET read_at = '' WHERE message_id = ?1 AND recipient = ?2
		AND NOT EXISTS (SELECT 1 FROM agent_message WHERE message_id = ?1 AND recipient = ?2)
		AND NOT EXISTS (SELECT 1 FROM agent_message_archive WHERE message_id = ?1 AND +recipient = ?2)`, s.ID,
		s.recipient)
}

// ConfirmShown marks a message as read because the reader to whom it was shown has received it. why is recorded in
// the trace.
func ConfirmShown(t *ledger.Tx, s *Lease, why string) error {
	m, err := end(t, s)
	if err != nil || m == nil || m.Status != orchestrator.Delivered { // set by hand meanwhile
		return err
	}
	return MarkRead(t, m, t.Now, tracing.Read, why)
}

// end ends a reading lease and returns its message, or nil if the message has been read or acknowledged meanwhile, or
// no longer exists.
func end(t *ledger.Tx, s *Lease) (*orchestrator.Message, error) {
	if err := t.Run(`DELETE FROM reading_lease WHERE message_id = ? AND recipient = ?`, s.ID, s.recipient); err != nil {
		return nil, err
	}
	const unread = ` WHERE message_id = ?1 AND +recipient = ?2 AND read_at = '' AND acknowledged_at = ''
		AND EXISTS (SELECT 1 FROM agent_inbox WHERE message_id = ?1 AND recipient = ?2 AND read_at <> '')`
	ms, err := ledger.Messages(t.Conn, `SELECT `+ledger.MessageColumns+` FROM agent_message`+unread, s.ID, s.recipient)
	if err == nil && len(ms) == 0 {
		ms, err = ledger.Messages(t.Conn, `SELECT `+ledger.ArchivedColumns+` FROM agent_message_archive`+unread, s.ID,
			s.recipient)
	}
	if err != nil || len(ms) == 0 {
		return nil, err
	}
	return &ms[0], nil
}

// Unshow ends the reading lease under which m was handed out. It changes nothing if the message has been lent again
// since.
func Unshow(t *ledger.Tx, m *orchestrator.Message, why string) error {
	list, err := leases(t.Conn, `message_id = ? AND recipient = ? AND shown_at = ?`, m.ID, readerOf(m), m.ShownAt)
	if err != nil || len(list) == 0 {
		return err
	}
	return GiveBack(t, &list[0], why)
}

// EndReadingLeasesOf ends all reading leases on messages to an agent. why is recorded in the trace.
func EndReadingLeasesOf(t *ledger.Tx, agent, why string) error {
	list, err := leases(t.Conn, `recipient = ?`, agent)
	if err != nil {
		return err
	}
	for i := range list {
		if err := giveBack(t, &list[i], why); err != nil {
			return err
		}
	}
	return nil
}

// MarkRead sets the time at which a message was read, or makes it unread if at is "", and records the event in the
// trace.
func MarkRead(t *ledger.Tx, m *orchestrator.Message, at string, event tracing.EventName, why string) error {
	place := `UPDATE agent_inbox SET read_at = ? WHERE message_id = ? AND recipient = ?`
	if at == "" { // no digest has mentioned the message
		place = `UPDATE agent_inbox SET read_at = ?, told_in = '' WHERE message_id = ? AND recipient = ?`
	}
	if err := t.Run(place, at, m.ID, m.Recipient); err != nil {
		return err
	}
	if err := t.Run(`
		UPDATE `+ledger.Table(m)+` SET read_at = ?1,
		       review_at = CASE WHEN ?1 <> '' OR ttl_seconds IS NULL THEN '' ELSE expires_at END
		WHERE message_id = ?2 AND +recipient = ?3`, at, m.ID, m.Recipient); err != nil {
		return err
	}
	return t.NoteOf(m, event, why)
}
