// Package adoption converts rows that other programs wrote or changed into the engine's own form.
package adoption

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// adoptBatch bounds the rows that one transaction adopts.
const adoptBatch = 500

// Some adopts one batch of rows that the engine did not write, or whose status was changed by hand. Such rows are
// those whose traced_status differs from status, which a partial index finds at once, and those with a BLOB for an
// id, a name or a status. Some converts the rows into the engine's form and records the adoption in the trace. more
// reports whether there are others. Rows that cannot be changed are skipped. Source: contract, "What others wrote is
// adopted".
func Some(t *ledger.Tx) (more bool, err error) {
	more, _, err = adoptAfter(t, math.MinInt64)
	return more, err
}

// adoptAfter adopts one batch of the rows whose seq is greater than after. last is the seq of the last row examined.
func adoptAfter(t *ledger.Tx, after int64) (more bool, last int64, err error) {
	for last = after; ; {
		rows, err := untraced(t, last, adoptBatch)
		if err == nil && len(rows) > 0 {
			err = t.MustBeAlone()
		}
		if err != nil {
			return false, last, err
		}
		adopted := 0
		for i := range rows {
			f := &rows[i]
			failed, err := t.RowSavepoint("importing it", f.id, func() error { return adoptRow(t, f) })
			if err != nil {
				return false, last, err
			}
			if last = f.seq; !failed {
				adopted++
			}
		}
		if more = len(rows) == adoptBatch; adopted > 0 || !more {
			if d, ok := t.Driver.(interface{ Renumber() error }); ok && last >= store.AlarmedNumber {
				err = d.Renumber()
			} else {
				err = ledger.CountBehind(t, last)
			}
			return more, last, err
		}
		if err := t.Ended(); err != nil {
			return false, last, err
		}
	}
}

// ForeignRow is a row as another program wrote it.
type ForeignRow struct {
	blobID                                bool // the id is a BLOB
	tooBig                                bool // the payload is larger than maxForeign
	hops                                  int64
	seq                                   int64
	id, sender, Recipient, Status, Traced string
	payload, messageType                  any
	createdAt, deliveredAt, nextAttemptAt string
	endedAt, notBefore                    string
	retryCount, maxRetries, ttl           any
	errorMessage                          any
}

func untraced(t *ledger.Tx, after int64, limit int) (rows []ForeignRow, err error) {
	err = t.Query(`
		SELECT seq, message_id, sender, recipient, status, traced_status,
		       CASE WHEN octet_length(payload) <= ?2 THEN payload END, message_type, created_at, delivered_at,
		       next_attempt_at, ended_at, retry_count, max_retries, ttl_seconds, error_message,
		       octet_length(payload) > ?2, hops, not_before
		FROM agent_message WHERE (`+ledger.Foreign+`) AND seq > ?3 ORDER BY seq LIMIT +?1`,
		func(row store.Row) error {
			_, blobID := row[1].([]byte)
			rows = append(rows, ForeignRow{
				blobID: blobID,
				seq:    row.Int(0), id: row.Text(1), sender: row.Text(2), Recipient: row.Text(3), Status: row.Text(4),
				Traced: row.Text(5), payload: row[6], messageType: row[7], createdAt: row.Text(8),
				deliveredAt:   row.Text(9),
				nextAttemptAt: row.Text(10), endedAt: row.Text(11), retryCount: row[12],
				maxRetries: row[13], ttl: row[14], errorMessage: row[15],
				tooBig: row.Int(16) != 0, hops: row.Int(17), notBefore: row.Text(18),
			})
			return nil
		}, limit, maxForeign, after)
	return rows, err
}

// adoptRow converts one row into the engine's form.
func adoptRow(t *ledger.Tx, f *ForeignRow) error {
	if why := f.tooLong(); why != "" {
		return refuseForeign(t, f, why)
	}
	conf := t.Config()
	if err := adoptID(t, f); err != nil {
		return err
	}
	status, why := f.Meaning()
	created := timeAdopted(t, f.createdAt)
	event := t.Event(tracing.Adopted, why)
	event.MessageID, event.NewStatus = f.id, string(status)
	if f.Traced != "" {
		event.OldStatus = strings.ToValidUTF8(f.Traced, "\uFFFD")
	}
	if err := tracing.Record(t, event); err != nil {
		return err
	}
	times := timesAdopted(t, f, status, created, &conf.Settings)
	if h := conf.HoldOf(Name(f.sender), Name(f.Recipient), t.ClockText); h != nil && status == orchestrator.Pending && times.notBefore < h.Until {
		times.heldFrom, times.notBefore, times.next = times.notBefore, h.Until, h.Until
		times.expires = orchestrator.Stamp(orchestrator.ParseStamp(times.expires).Add(orchestrator.ParseStamp(h.Until).Sub(t.Clock)))
	}
	maxRetries := store.Int(f.maxRetries)
	if f.maxRetries == nil || maxRetries < 0 {
		maxRetries = int64(conf.Settings.MaxRetries)
	}
	if status == orchestrator.Pending || status == orchestrator.Retry {
		t.WakeAll()
	}
	err := t.Run(`
		UPDATE agent_message SET status = ?2, traced_status = ?2, sender = ?3, recipient = ?4, message_type = ?5,
			payload = ?6,
		       created_at = ?7, delivered_at = ?8, ended_at = ?9, next_attempt_at = ?10, review_at = ?11,
		       	expires_at = ?12,
		       retry_count = ?13, max_retries = ?14, error_message = ?15, ttl_seconds = ?16, hops = ?17,
		       not_before = ?18, held_from = ?20, held = CASE WHEN held <> 0 AND ?19 THEN 1 ELSE 0 END, `+ledger.NoLease+`
		WHERE seq = ?1`,
		f.seq, status, Name(f.sender), Name(f.Recipient),
		adoptedText(f.messageType), Payload(f.payload), created, times.delivered, times.ended, times.next, times.review,
		times.expires,
		ledger.CountOf(f.retryCount), min(maxRetries, ledger.MaxCount), adoptedText(f.errorMessage), f.adoptedTTL(),
		max(0, min(f.hops, ledger.MaxCount)),
		times.notBefore, CanHold(conf, Name(f.Recipient)), times.heldFrom)
	if err != nil {
		return err
	}
	if f.Traced == "" {
		t.Heartbeat(Name(f.sender))
	}
	return ledger.CountAdopted(t, f.seq, Name(f.Recipient), orchestrator.Status(f.Traced), status)
}

// adoptedTimes holds the times of an adopted row; see the columns of agent_message.
type adoptedTimes struct {
	delivered                               any // NULL unless it was delivered
	ended, next, review, expires, notBefore string
	heldFrom                                string
}

func timesAdopted(t *ledger.Tx, f *ForeignRow, status orchestrator.Status, created string,
	s *ledger.Settings) (times adoptedTimes) {
	times.expires = f.adoptedExpiry(t.Clock, s, created)
	times.notBefore = f.adoptedNotBefore(t.Clock, times.expires)
	switch status {
	case orchestrator.Pending:
		times.review = t.Now
		if times.notBefore > t.ClockText {
			times.next = times.notBefore
			if f.adoptedTTL() == nil {
				times.expires = orchestrator.Stamp(orchestrator.ParseStamp(times.notBefore).Add(s.ExpireAfter))
			}
		}
	case orchestrator.Retry:
		times.review = t.Now
		if at, ok := ledger.AdoptTime(f.nextAttemptAt); ok {
			times.next = at
		}
	case orchestrator.Delivered:
		times.ended = adoptedEnd(t, f, f.deliveredAt)
		times.delivered = times.ended
		if f.adoptedTTL() != nil {
			times.review = times.expires
		}
	default:
		times.ended = adoptedEnd(t, f, f.endedAt, f.deliveredAt)
		if f.deliveredAt != "" {
			times.delivered = timeAdopted(t, f.deliveredAt)
		}
	}
	return times
}

// adoptID converts an id that was written as a BLOB into text, because no text would ever match a BLOB. If another
// message has or had that id, adoptID appends the seq of the row. It does the same if an archived message with the
// same id still has a row in the recipient's inbox, because the new message would otherwise never be handed out.
func adoptID(t *ledger.Tx, f *ForeignRow) error {
	taken := `SELECT EXISTS (SELECT 1 FROM agent_inbox WHERE message_id = ?1 AND recipient = ?2)
		AND EXISTS (SELECT 1 FROM agent_message_archive WHERE message_id = ?1 AND +recipient = ?2)`
	with := any(Name(f.Recipient))
	if f.blobID {
		f.id = strings.ToValidUTF8(f.id, "\uFFFD")
		taken = `SELECT EXISTS (SELECT 1 FROM agent_message WHERE message_id = ?1 AND seq <> ?2)
			OR EXISTS (SELECT 1 FROM agent_message_archive WHERE message_id = ?1)`
		with = f.seq
	}
	n, err := t.Number(taken, f.id, with)
	if err != nil || n == 0 && !f.blobID {
		return err
	}
	if n > 0 {
		f.id = fmt.Sprintf("%s-%d", f.id, f.seq)
	}
	return t.Run(`UPDATE agent_message SET message_id = ? WHERE seq = ?`, f.id, f.seq)
}

// adoptedTTL returns the TTL in seconds, or nil if the row has no valid one.
func (f *ForeignRow) adoptedTTL() any {
	if seconds := store.Int(f.ttl); f.ttl != nil && seconds > 0 {
		return min(seconds, int64(orchestrator.MaxTTL/time.Second))
	}
	return nil
}

// adoptedExpiry returns when an adopted row expires. Without a TTL, the time of the setting expiry.undelivered begins
// when the engine first sees the row, however old its written times are, and again when its status is changed by hand.
// The TTL of a new row begins with the creation of the message.
func (f *ForeignRow) adoptedExpiry(now time.Time, s *ledger.Settings, created string) string {
	seconds := store.Int(f.ttl)
	if f.ttl == nil || seconds <= 0 {
		return orchestrator.Stamp(now.Add(s.ExpireAfter))
	}
	from := now
	if f.Traced == "" {
		from = orchestrator.ParseStamp(created)
	}
	return orchestrator.Stamp(from.Add(ledger.TTL(seconds)))
}

// Meaning returns the status that a hand-written status means, and a reason if the meaning was not clear. An unknown
// word on a new row means pending. On a row that the engine has traced, an unknown word is undone, because a guess
// could deliver or lose the message.
func (f *ForeignRow) Meaning() (orchestrator.Status, string) {
	s := orchestrator.Status(strings.ToLower(strings.TrimSpace(f.Status)))
	traced := orchestrator.Status(f.Traced)
	switch {
	case known(s):
		return s, ""
	case s == "" && traced == "":
		return orchestrator.Pending, ""
	case !known(traced): // neither status is the engine's
		return orchestrator.Pending, fmt.Sprintf("unknown status %q, treated as pending", orchestrator.Clip(f.Status))
	}
	return traced, fmt.Sprintf("unknown status %q, reset to the previous status", orchestrator.Clip(f.Status))
}

// known reports whether a status is one of the engine's.
func known(s orchestrator.Status) bool {
	switch s {
	case orchestrator.Pending, orchestrator.Retry, orchestrator.Delivered, orchestrator.Failed, orchestrator.Expired,
		orchestrator.Cancelled:
		return true
	}
	return false
}

// timeAdopted converts a time that another program wrote. A time that is missing, invalid, or more than a day in the
// future becomes the present time.
func timeAdopted(t *ledger.Tx, s string) string { return adoptedTime(s, t.Clock, t.Now) }

func adoptedTime(s string, clock time.Time, now string) string {
	if at, ok := ledger.AdoptTime(s); ok && at < orchestrator.Stamp(clock.Add(orchestrator.Day)) {
		return at
	}
	return now
}

// foreignTo selects the rows of other programs that may be for the agent ?1 and that a query for the agent's live
// rows does not find.
const foreignTo = `SELECT seq, recipient, status, traced_status FROM agent_message
	WHERE (` + ledger.Foreign + `) AND (` + ledger.Live +
	` AND recipient = ?1) IS NOT TRUE AND instr(lower(recipient), ?1) > 0`

// ForeignMessagesTo lists the rows that will be live rows of a recipient once they are adopted, in addition to those
// that a query for its live rows finds. They are in the order of their creation.
func ForeignMessagesTo(c *store.Conn, recipient string, clock time.Time) (seqs []int64, err error) {
	err = c.Query(foreignTo+` ORDER BY `+Order, func(row store.Row) error {
		f := ForeignRow{Recipient: row.Text(1), Status: row.Text(2), Traced: row.Text(3)}
		if status, _ := f.Meaning(); (status == orchestrator.Pending || status == orchestrator.Retry) &&
			Name(f.Recipient) == recipient {
			seqs = append(seqs, row.Int(0))
		}
		return nil
	}, recipient, orchestrator.Stamp(clock))
	return seqs, err
}

// Order sorts rows by the creation time that they will have after adoption. ?2 is the clock.
const Order = `CASE WHEN traced_status IS NOT DISTINCT FROM status THEN created_at
	ELSE coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', created_at), ?2) END, seq`

// Name returns the agent name that a hand-written name means.
func Name(s string) string { return orchestrator.FoldName(strings.TrimSpace(s)) }

// AsAdopted gives a message in a listing the form that its row will have once it is adopted and live. row contains
// the row's MessageColumns, and traced its traced_status.
func AsAdopted(m *orchestrator.Message, row store.Row, traced string, conf *ledger.Config, clock time.Time) {
	f := ForeignRow{Status: row.Text(6), Traced: traced, ttl: row[35]}
	m.Status, _ = f.Meaning()
	m.Sender, m.Recipient = Name(m.Sender), Name(m.Recipient)
	m.Type, _ = adoptedText(row[4]).(string)
	m.Payload = []byte(Payload(row[5]))
	m.CreatedAt = adoptedTime(m.CreatedAt, clock, orchestrator.Stamp(clock))
	m.RetryCount = max(0, m.RetryCount)
	m.Error, _ = adoptedText(row[11]).(string)
	m.NextAttemptAt, _ = ledger.AdoptTime(m.NextAttemptAt)
	if m.NotBefore, _ = ledger.AdoptTime(m.NotBefore); m.Status == orchestrator.Pending {
		m.NextAttemptAt = m.NotBefore
	}
	if f.adoptedTTL() != nil {
		m.ExpiresAt = f.adoptedExpiry(clock, &conf.Settings, m.CreatedAt)
	}
	m.Held = m.Held && CanHold(conf, m.Recipient)
	m.LeaseOwner, m.LeaseUntil, m.LeaseToken = "", "", ""
}

// CanHold reports whether messages can wait for a name: no agent or group has it, and an agent can get it.
func CanHold(conf *ledger.Config, name string) bool {
	_, isGroup := conf.Groups[name]
	return !isGroup && conf.Agents[name] == nil && orchestrator.CanBeAgent(name)
}

// Ahead gives a message the form that adoption will give it, if its row is not adopted yet and will be live then.
func Ahead(c *store.Conn, m *orchestrator.Message, conf *ledger.Config, clock time.Time) error {
	return c.Query(`SELECT traced_status, `+ledger.MessageColumns+` FROM agent_message WHERE seq = ? AND (`+
		ledger.Foreign+`)`, func(row store.Row) error {
		f := ForeignRow{Status: row.Text(7), Traced: row.Text(0)}
		if status, _ := f.Meaning(); status == orchestrator.Pending || status == orchestrator.Retry {
			AsAdopted(m, row[1:], f.Traced, conf, clock)
		}
		return nil
	}, m.Seq)
}

// adoptedEnd returns when a row that was ended by hand has ended. That is the first readable time in written. For a
// row that the engine never saw, it is otherwise the creation time, so that the rows of an imported table have their
// age at once. Otherwise it is the present time.
func adoptedEnd(t *ledger.Tx, f *ForeignRow, written ...string) string {
	if f.Traced == "" {
		written = append(written, f.createdAt)
	}
	for _, at := range written {
		if _, ok := ledger.AdoptTime(at); ok {
			return timeAdopted(t, at)
		}
	}
	return t.Now
}

// Payload converts a hand-written payload into JSON text: NULL becomes null, and text that is not JSON becomes a JSON
// string. JSON text keeps its digits, but is Mended.
func Payload(v any) string {
	if v == nil {
		return "null"
	}
	text := store.Text(v)
	if utf8.ValidString(text) && json.Valid([]byte(text)) && !ledger.IsDeep([]byte(text)) {
		return string(orchestrator.Mended([]byte(text)))
	}
	return string(orchestrator.JSONString(text))
}

func adoptedText(v any) any {
	if v == nil {
		return nil
	}
	return strings.ToValidUTF8(strings.ReplaceAll(store.Text(v), "\x00", ""), "\uFFFD")
}

// adoptedNotBefore converts a hand-written not_before, and limits it to the allowed maximum. It returns "" for a time
// that is invalid, or not before the end that a TTL sets.
func (f *ForeignRow) adoptedNotBefore(clock time.Time, expires string) string {
	at, ok := ledger.AdoptTime(f.notBefore)
	if !ok || f.adoptedTTL() != nil && at >= expires {
		return ""
	}
	return min(at, orchestrator.Stamp(clock.Add(orchestrator.MaxNotBefore)))
}
