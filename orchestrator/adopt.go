package orchestrator

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// adoptBatch bounds the rows that one transaction adopts.
const adoptBatch = 500

// adopt reconciles rows that the engine did not write, or whose status was changed by hand: traced_status differs from
// status, which a partial index finds at once; and rows with a BLOB for an id, a name or a status. It brings them into our
// form and notes them in the trace. It adopts one batch; more is true when there are further ones. Rows that cannot be
// changed are passed over. Source: contract, "What others wrote is adopted".
func (t *tx) adopt() (more bool, err error) {
	more, _, err = t.adoptAfter(math.MinInt64)
	return more, err
}

// adoptAfter adopts one batch of the rows whose seq is greater than a number; last is the seq of the last row that it looked
// at.
func (t *tx) adoptAfter(after int64) (more bool, last int64, err error) {
	for last = after; ; {
		rows, err := t.untraced(last, adoptBatch)
		if err != nil {
			return false, last, err
		}
		adopted := 0
		for i := range rows {
			f := &rows[i]
			failed, err := t.alone("adopting it", f.id, func() error { return t.adoptRow(f) })
			if err != nil {
				return false, last, err
			}
			if last = f.seq; !failed {
				adopted++
			}
		}
		if more = len(rows) == adoptBatch; adopted > 0 || !more {
			if last >= AlarmedNumber {
				err = t.driver.Renumber()
			}
			return more, last, err
		}
		if err := t.ended(); err != nil {
			return false, last, err
		}
	}
}

// adoptAll adopts all that others wrote, however recently. Whoever picks what is delivered next calls it in the same
// transaction: a row written since the run was tidied up must not be passed by a later one of its sender.
func (t *tx) adoptAll() error {
	for more, last := true, int64(math.MinInt64); more; {
		if err := t.ended(); err != nil {
			return err
		}
		var err error
		if more, last, err = t.adoptAfter(last); err != nil {
			return err
		}
	}
	return nil
}

// foreignRow is a row as somebody else wrote it.
type foreignRow struct {
	blobID                                bool // the id is no text
	tooBig                                bool // more than maxForeign
	hops                                  int64
	seq                                   int64
	id, sender, recipient, status, traced string
	payload, messageType                  any
	createdAt, deliveredAt, nextAttemptAt string
	endedAt, notBefore                    string
	retryCount, maxRetries, ttl           any
	errorMessage                          any
}

func (t *tx) untraced(after int64, limit int) (rows []foreignRow, err error) {
	err = t.query(`
		SELECT seq, message_id, sender, recipient, status, traced_status,
		       CASE WHEN octet_length(payload) <= ?2 THEN payload END, message_type, created_at, delivered_at,
		       next_attempt_at, ended_at, retry_count, max_retries, ttl_seconds, error_message,
		       octet_length(payload) > ?2, hops, not_before
		FROM agent_message WHERE (`+foreign+`) AND seq > ?3 ORDER BY seq LIMIT +?1`,
		func(row store.Row) error {
			_, blobID := row[1].([]byte)
			rows = append(rows, foreignRow{
				blobID: blobID,
				seq:    row.Int(0), id: row.Text(1), sender: row.Text(2), recipient: row.Text(3), status: row.Text(4),
				traced: row.Text(5), payload: row[6], messageType: row[7], createdAt: row.Text(8), deliveredAt: row.Text(9),
				nextAttemptAt: row.Text(10), endedAt: row.Text(11), retryCount: row[12],
				maxRetries: row[13], ttl: row[14], errorMessage: row[15],
				tooBig: row.Int(16) != 0, hops: row.Int(17), notBefore: row.Text(18),
			})
			return nil
		}, limit, maxForeign, after)
	return rows, err
}

// adoptRow brings one row into our form.
func (t *tx) adoptRow(f *foreignRow) error {
	if f.tooBig {
		return t.refuseForeign(f)
	}
	conf, err := t.config()
	if err != nil {
		return err
	}
	if err := t.adoptID(f); err != nil {
		return err
	}
	status, why := f.meaning()
	created := t.adoptedTime(f.createdAt)
	event := t.event(tracing.Adopted, why)
	event.MessageID, event.NewStatus = f.id, string(status)
	if f.traced != "" {
		event.OldStatus = strings.ToValidUTF8(f.traced, "\uFFFD")
	}
	if err := tracing.Record(t, event); err != nil {
		return err
	}

	times := t.adoptedTimes(f, status, created, &conf.settings)
	maxRetries := store.Int(f.maxRetries)
	if f.maxRetries == nil || maxRetries < 0 {
		maxRetries = int64(conf.settings.MaxRetries)
	}
	_, err = t.Exec(`
		UPDATE agent_message SET status = ?2, traced_status = ?2, sender = ?3, recipient = ?4, message_type = ?5, payload = ?6,
		       created_at = ?7, delivered_at = ?8, ended_at = ?9, next_attempt_at = ?10, review_at = ?11, expires_at = ?12,
		       retry_count = ?13, max_retries = ?14, error_message = ?15, ttl_seconds = ?16, hops = ?17,
		       not_before = ?18, held = CASE WHEN held <> 0 AND ?19 THEN 1 ELSE 0 END, `+noLease+`
		WHERE seq = ?1`,
		f.seq, status, adoptedName(f.sender), adoptedName(f.recipient),
		adoptedText(f.messageType), adoptedPayload(f.payload), created, times.delivered, times.ended, times.next, times.review, times.expires,
		countOf(f.retryCount), min(maxRetries, maxCount), adoptedText(f.errorMessage), f.adoptedTTL(), max(0, min(f.hops, maxCount)),
		times.notBefore, conf.canHold(adoptedName(f.recipient)))
	if status == Pending || status == Retry {
		t.ring.all = true
	}
	if err == nil && f.traced == "" {
		err = t.heartbeat(adoptedName(f.sender))
	}
	return err
}

// adoptedTimes are the times of a row that somebody else wrote, in our form; see the columns of agent_message.
type adoptedTimes struct {
	delivered                               any // NULL unless it was
	ended, next, review, expires, notBefore string
}

func (t *tx) adoptedTimes(f *foreignRow, status Status, created string, s *Settings) (times adoptedTimes) {
	times.expires = f.adoptedExpiry(t.clock, s, created)
	times.notBefore = f.adoptedNotBefore(t.clock, times.expires)
	switch status {
	case Pending:
		times.review = t.now
		if times.notBefore > t.clockText {
			times.next = times.notBefore
			if f.adoptedTTL() == nil {
				times.expires = stamp(parseStamp(times.notBefore).Add(s.ExpireAfter))
			}
		}
	case Retry:
		times.review = t.now
		if at, ok := adoptTime(f.nextAttemptAt); ok {
			times.next = at
		}
	case Delivered:
		times.ended = t.adoptedEnd(f, f.deliveredAt)
		times.delivered = times.ended
		if f.adoptedTTL() != nil {
			times.review = times.expires
		}
	default:
		times.ended = t.adoptedEnd(f, f.endedAt, f.deliveredAt)
		if f.deliveredAt != "" {
			times.delivered = t.adoptedTime(f.deliveredAt)
		}
	}
	return times
}

// maxForeign is the largest payload, in bytes, that adoption reads. What somebody wrote beyond that fails, untouched.
const maxForeign = 16 * MaxPayload

// refuseForeign makes a dead letter of a row whose payload is too large to be read.
func (t *tx) refuseForeign(f *foreignRow) error {
	reason := fmt.Sprintf("its payload has more than %d bytes", maxForeign)
	event := t.event(tracing.Failed, reason)
	event.MessageID, event.NewStatus = f.id, string(Failed)
	if err := tracing.Record(t, event); err != nil {
		return err
	}
	_, err := t.Exec(`UPDATE agent_message SET status = 'failed', traced_status = 'failed', ended_at = ?, error_message = ? WHERE seq = ?`,
		t.now, reason, f.seq)
	return err
}

// adoptID makes text of an id that somebody wrote as a blob, which no text would ever match. If another message has, or had, that
// id, it gets its number behind it; so does an id whose place in the recipient's inbox an archived message has, since nobody
// would ever be handed the new one.
func (t *tx) adoptID(f *foreignRow) error {
	taken := `SELECT EXISTS (SELECT 1 FROM agent_inbox WHERE message_id = ?1 AND recipient = ?2)
		AND EXISTS (SELECT 1 FROM agent_message_archive WHERE message_id = ?1 AND recipient = ?2)`
	with := any(adoptedName(f.recipient))
	if f.blobID {
		f.id = strings.ToValidUTF8(f.id, "\uFFFD")
		taken = `SELECT EXISTS (SELECT 1 FROM agent_message WHERE message_id = ?1 AND seq <> ?2)
			OR EXISTS (SELECT 1 FROM agent_message_archive WHERE message_id = ?1)`
		with = f.seq
	}
	n, err := t.number(taken, f.id, with)
	if err != nil || n == 0 && !f.blobID {
		return err
	}
	if n > 0 {
		f.id = fmt.Sprintf("%s-%d", f.id, f.seq)
	}
	_, err = t.Exec(`UPDATE agent_message SET message_id = ? WHERE seq = ?`, f.id, f.seq)
	return err
}

// adoptedTTL is the ttl in seconds, nil for one that is none.
func (f *foreignRow) adoptedTTL() any {
	if seconds := store.Int(f.ttl); f.ttl != nil && seconds > 0 {
		return min(seconds, int64(MaxTTL/time.Second))
	}
	return nil
}

// adoptedExpiry is when an adopted row expires. Its seven days begin when the router first sees it, however old the time
// is that somebody wrote, and anew when somebody sets it back; a ttl of its own begins with the message.
func (f *foreignRow) adoptedExpiry(now time.Time, s *Settings, created string) string {
	seconds := store.Int(f.ttl)
	if f.ttl == nil || seconds <= 0 {
		return stamp(now.Add(s.ExpireAfter))
	}
	from := now
	if f.traced == "" {
		from = parseStamp(created)
	}
	return stamp(from.Add(secondsUpTo(seconds, MaxTTL)))
}

// meaning says which status a hand-written one stands for, and why if it was not clear. An unknown word on a new row is
// taken as a send; on a row that the engine knows it is undone, since guessing could deliver or lose the message.
func (f *foreignRow) meaning() (Status, string) {
	s := Status(strings.ToLower(strings.TrimSpace(f.status)))
	traced := Status(f.traced)
	switch {
	case s.known():
		return s, ""
	case s == "" && traced == "":
		return Pending, ""
	case !traced.known(): // the engine wrote neither
		return Pending, fmt.Sprintf("unknown status %q taken as pending", Clip(f.status))
	}
	return traced, fmt.Sprintf("unknown status %q undone", Clip(f.status))
}

// known reports whether a status is one of ours.
func (s Status) known() bool {
	switch s {
	case Pending, Retry, Delivered, Failed, Lapsed, Cancelled:
		return true
	}
	return false
}

// adoptedTime turns a foreign time into ours; one that is missing, makes no sense or lies in the future is now.
func (t *tx) adoptedTime(s string) string { return adoptedTime(s, t.clock, t.now) }

func adoptedTime(s string, clock time.Time, now string) string {
	if at, ok := adoptTime(s); ok && at < stamp(clock.Add(day)) {
		return at
	}
	return now
}

// foreignTo selects what others wrote and may mean for ?1, beside what a look-up of its live rows finds.
const foreignTo = `SELECT seq, recipient, status, traced_status FROM agent_message
	WHERE (` + foreign + `) AND (` + live + ` AND recipient = ?1) IS NOT TRUE AND instr(lower(recipient), ?1) > 0`

// foreignTo lists, by their times of creation, what will be live rows of a recipient once they are adopted, beside what a
// look-up of its live rows finds.
func (c *Conn) foreignTo(recipient string, clock time.Time) (seqs []int64, err error) {
	err = c.query(foreignTo+` ORDER BY `+adoptedOrder, func(row store.Row) error {
		f := foreignRow{recipient: row.Text(1), status: row.Text(2), traced: row.Text(3)}
		if status, _ := f.meaning(); (status == Pending || status == Retry) && adoptedName(f.recipient) == recipient {
			seqs = append(seqs, row.Int(0))
		}
		return nil
	}, recipient, stamp(clock))
	return seqs, err
}

// adoptedOrder sorts rows by the time of creation that they will have when they are adopted. ?2 is the clock.
const adoptedOrder = `CASE WHEN traced_status IS status THEN created_at ELSE coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', created_at), ?2) END, seq`

// adoptedName is the name that somebody meant who wrote it by hand.
func adoptedName(s string) string { return foldName(strings.TrimSpace(s)) }

// asAdopted brings what a listing shows of a row that will be live, whose columns are messageColumns, into the form that
// adoption will give it. traced is its traced_status.
func (m *Message) asAdopted(row store.Row, traced string, conf *config, clock time.Time) {
	f := foreignRow{status: row.Text(6), traced: traced, ttl: row[35]}
	m.Status, _ = f.meaning()
	m.Sender, m.Recipient = adoptedName(m.Sender), adoptedName(m.Recipient)
	m.Type, _ = adoptedText(row[4]).(string)
	m.Payload = []byte(adoptedPayload(row[5]))
	m.CreatedAt = adoptedTime(m.CreatedAt, clock, stamp(clock))
	m.RetryCount = max(0, m.RetryCount)
	m.Error, _ = adoptedText(row[11]).(string)
	m.NextAttemptAt, _ = adoptTime(m.NextAttemptAt)
	if m.NotBefore, _ = adoptTime(m.NotBefore); m.Status == Pending {
		m.NextAttemptAt = m.NotBefore
	}
	if f.adoptedTTL() != nil {
		m.ExpiresAt = f.adoptedExpiry(clock, &conf.settings, m.CreatedAt)
	}
	m.Held = m.Held && conf.canHold(m.Recipient)
	m.LeaseOwner, m.LeaseUntil, m.leaseToken = "", "", ""
}

// canHold reports whether messages can wait for a name: nobody has it yet, and an agent can get it.
func (conf *config) canHold(name string) bool {
	_, isGroup := conf.groups[name]
	return !isGroup && conf.agents[name] == nil && canBeAgent(name)
}

// adoptAhead brings a message into the form that adoption will give it, if that is still to come and it will be live then.
func (c *Conn) adoptAhead(m *Message, conf *config, clock time.Time) error {
	return c.query(`SELECT traced_status, `+messageColumns+` FROM agent_message WHERE seq = ? AND (`+foreign+`)`, func(row store.Row) error {
		f := foreignRow{status: row.Text(7), traced: row.Text(0)}
		if status, _ := f.meaning(); status == Pending || status == Retry {
			m.asAdopted(row[1:], f.traced, conf, clock)
		}
		return nil
	}, m.seq)
}

// adoptedEnd is when a row that somebody ended by hand has ended: the first time that they wrote which can be read, and for
// a row that the router never saw, failing that, when it was made. So a table that is taken over has its age at once.
func (t *tx) adoptedEnd(f *foreignRow, written ...string) string {
	if f.traced == "" {
		written = append(written, f.createdAt)
	}
	for _, at := range written {
		if _, ok := adoptTime(at); ok {
			return t.adoptedTime(at)
		}
	}
	return t.now
}

// adoptedPayload turns what somebody wrote as payload into JSON text: nothing is null, and what is no JSON is a JSON
// string. JSON text stays as it is, digit for digit.
func adoptedPayload(v any) string {
	if v == nil {
		return "null"
	}
	text := store.Text(v)
	if utf8.ValidString(text) && json.Valid([]byte(text)) {
		return text
	}
	return string(JSONString(text))
}

func adoptedText(v any) any {
	if v == nil {
		return nil
	}
	return strings.ToValidUTF8(strings.ReplaceAll(store.Text(v), "\x00", ""), "\uFFFD")
}

// adoptedNotBefore brings a not_before that somebody wrote into our form, and within our bounds. What makes no sense, or lies
// behind the end that a ttl sets, is none.
func (f *foreignRow) adoptedNotBefore(clock time.Time, expires string) string {
	at, ok := adoptTime(f.notBefore)
	if !ok || f.adoptedTTL() != nil && at >= expires {
		return ""
	}
	return min(at, stamp(clock.Add(MaxNotBefore)))
}
