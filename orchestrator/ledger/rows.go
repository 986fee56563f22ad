package ledger

import (
	"encoding/json"

	"github.com/oklog/ulid/v2"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// Live is the condition for rows on which the engine still has to act. Every statement that is to use the partial
// indexes must contain it verbatim, because SQLite compares the text of the condition.
const Live = "status IN ('pending','retry')"

// Past is the condition for all rows that are not live.
const Past = "status NOT IN ('pending','retry')"

// Due is the condition for live rows that may be claimed now. ?1 is the clock. Rows that could not be adopted do not
// satisfy it.
const Due = Live + " AND next_attempt_at <= ?1 AND lease_token = '' AND held = 0 AND traced_status = status"

// Foreign is the condition for rows that adoption brings into the engine's form. Somebody else wrote such a row or
// changed its status, or one of the columns by which rows are found and told apart is a BLOB. A BLOB does not equal a
// text with the same content, and is greater than any text. The condition must be used verbatim, like Live.
const Foreign = "traced_status IS DISTINCT FROM status" +
	" OR message_id >= x'' OR sender >= x'' OR recipient >= x'' OR status >= x''"

// Later is the condition for live rows that are due later than their sender requested: rows that wait for a retry,
// and rows that were postponed. The condition must be used verbatim, like Live.
const Later = Live + " AND next_attempt_at <> '' AND next_attempt_at <> not_before"

// Leased is the condition for rows under a lease. A lease on a row that is not live is ignored. The condition must be
// used verbatim, like Live.
const Leased = Live + " AND lease_token <> ''"

// Unowned is the condition for leases that the engine did not write and that no process holds: they name no owner, or
// their token is shorter than the engine's tokens. IsUnowned makes the same check in Go.
const Unowned = "(lease_owner = '' OR length(lease_token) < 26)"

// IsUnowned reports whether a message has a lease that no process can hold. See Unowned.
func IsUnowned(m *orchestrator.Message) bool {
	return m.LeaseToken != "" && (m.LeaseOwner == "" || len(m.LeaseToken) < ulid.EncodedSize)
}

// dueInOrder is the condition for rows, of agent_message as m, that are due to recipient ?2 and whose sender has no
// delivery to that recipient in progress. At most one lease per sender and recipient is live, which keeps their
// messages in order.
const dueInOrder = Due + ` AND recipient = ?2
	AND NOT EXISTS (SELECT 1 FROM agent_message l WHERE l.status IN ('pending','retry') AND l.lease_token <> ''
		AND l.recipient = ?2 AND l.sender = m.sender)`

// PutOff is the condition for rows that their recipient postponed. Its index contains no other rows, and few.
const PutOff = "status = 'pending' AND next_attempt_at <> '' AND next_attempt_at <> not_before"

// behindPutOff is the condition for rows of agent_message as m, to recipient ?2, that must wait because the recipient
// postponed an earlier message of the same sender, which they would overtake. Rows that wait for a retry, and rows
// that their sender delayed, do not block others.
const behindPutOff = `EXISTS (SELECT 1 FROM agent_message p WHERE ` + Overtaken + `)`

// Overtaken is the condition for the postponed rows p that block a row m.
const Overtaken = `p.status = 'pending' AND p.next_attempt_at <> '' AND p.next_attempt_at <> p.not_before AND p.recipient = ?2 AND p.sender = m.sender
	AND p.next_attempt_at > ?1 AND p.priority = m.priority AND p.seq < m.seq`

// Claimable is the condition for rows, of agent_message as m, that a worker may claim for recipient ?2 now. It
// excludes rows whose sender has a delivery to the same recipient in progress, rows that would overtake a postponed
// one, and rows that have expired. A row with a mark of a transport does not expire before that transport was asked.
const Claimable = dueInOrder + ` AND (expires_at > ?1 OR expires_at = '' OR delivery_marks <> '')
	AND NOT ` + behindPutOff

// Untold returns the condition for rows, of agent_inbox as i, that no digest has mentioned in a session. parameter is
// the SQL parameter, such as ?2, that holds the session.
func Untold(parameter string) string {
	return `replace(i.told_in, ' ' || ` + parameter + ` || ' ', '') = i.told_in`
}

// NoLease contains the assignments that end the lease of a row, whoever holds it.
const NoLease = "lease_token = '', lease_until = '', lease_owner = ''"

// Takeable is the condition for rows, of agent_message as m, that a set-based delivery to recipient ?2 takes now. To
// keep the order, it excludes rows whose sender has a delivery to the same recipient in progress. Rows with a mark of
// a transport are left to a worker, which asks that transport first.
const Takeable = dueInOrder + ` AND delivery_marks = ''`

// MessageColumns lists the columns that ScanMessage reads, in order.
const MessageColumns = `seq, message_id, sender, recipient, message_type, payload, status, created_at, delivered_at,
	retry_count, max_retries, error_message, priority, summary, context, action, thread_id, session_id, reply_to, hops,
	multicast_id, multicast_target, idempotency_key, next_attempt_at, expires_at, ended_at, read_at, acknowledged_at,
	lease_owner, lease_until, lease_token, crashes, held, trace_id, span_id, ttl_seconds, delivery_marks, origin, not_before, wake`

// ArchivedColumns lists the columns of agent_message_archive that ScanMessage reads: MessageColumns and archived_at.
const ArchivedColumns = MessageColumns + `, archived_at`

// Table returns the name of the table that contains a message: agent_message or its archive.
func Table(m *orchestrator.Message) string {
	if m.ArchivedAt != "" {
		return "agent_message_archive"
	}
	return "agent_message"
}

// ScanMessage returns the message in a row of MessageColumns. The payload of the message is always valid JSON,
// repaired by orchestrator.Mended, even if somebody wrote the row by hand.
func ScanMessage(row store.Row) orchestrator.Message {
	m := orchestrator.Message{
		Seq: row.Int(0), ID: row.Text(1), Sender: row.Text(2), Recipient: row.Text(3), Type: row.Text(4),
		Payload: json.RawMessage(row.Text(5)), Status: orchestrator.Status(row.Text(6)), CreatedAt: row.Text(7),
		DeliveredAt: row.Text(8), RetryCount: CountOf(row[9]), MaxRetries: CountOf(row[10]), Error: row.Text(11),
		Priority: int(row.Int(12)), Summary: row.Text(13), Context: row.Text(14), Action: row.Text(15),
		ThreadID: row.Text(16), SessionID: row.Text(17), ReplyTo: row.Text(18), Hops: CountOf(row[19]),
		MulticastID: row.Text(20), Group: row.Text(21), IdempotencyKey: row.Text(22), NextAttemptAt: row.Text(23),
		ExpiresAt: row.Text(24), EndedAt: row.Text(25), ReadAt: row.Text(26), AcknowledgedAt: row.Text(27),
		LeaseOwner: row.Text(28), LeaseUntil: row.Text(29), LeaseToken: row.Text(30), Crashes: CountOf(row[31]),
		Held: row.Int(32) != 0, TraceID: row.Text(33), SpanID: row.Text(34), Marks: row.Text(36),
		Origin: row.Text(37), NotBefore: row.Text(38), Wake: orchestrator.Wake(row.Text(39)),
	}
	if !json.Valid(m.Payload) {
		m.Payload = orchestrator.JSONString(string(m.Payload)) // written by hand and not yet adopted
	}
	m.Payload = orchestrator.Mended(m.Payload)
	if len(row) > 40 {
		m.ArchivedAt = row.Text(40)
	}
	if m.Status != orchestrator.Pending && m.Status != orchestrator.Retry {
		m.LeaseOwner, m.LeaseUntil, m.LeaseToken = "", "", "" // written by hand and therefore ignored
	}
	if row[35] != nil {
		ttl := row.Int(35)
		m.TTL = &ttl
	}
	return m
}

// MaxCount is the largest count that is accepted. Others may write any number by hand.
const MaxCount = 1_000_000

// CountOf returns the value of a counting column, limited to 0 through MaxCount in case somebody wrote it by hand.
func CountOf(v any) int { return int(max(0, min(store.Int(v), MaxCount))) }

// Messages runs a query that selects MessageColumns and returns the messages.
func Messages(c *store.Conn, query string, args ...any) (ms []orchestrator.Message, err error) {
	err = c.Query(query, func(row store.Row) error {
		ms = append(ms, ScanMessage(row))
		return nil
	}, args...)
	return ms, err
}

// MaxRead is the maximum number of payload bytes in one answer, unless the first message alone is larger. The answer
// must fit into its transport.
const MaxRead = 4 << 20

// Fetch returns messages from the table and its archive: at most limit messages and at most maxBytes of payload, but
// at least one message if there is any. more reports whether there are others. query selects the places of the
// messages, in order, as two columns: 1 if the row is archived, else 0, and the seq. So nothing large is sorted.
func Fetch(c *store.Conn, query string, limit, maxBytes int, args ...any) (ms []orchestrator.Message, more bool,
	err error) {
	type place struct {
		archived bool
		seq      int64
	}
	var places []place
	err = c.Query(query, func(row store.Row) error {
		places = append(places, place{row.Int(0) != 0, row.Int(1)})
		return nil
	}, args...)
	if err != nil {
		return nil, false, err
	}
	size := 0
	for _, p := range places {
		if len(ms) == limit {
			return ms, true, nil
		}
		statement := `SELECT ` + MessageColumns + ` FROM agent_message WHERE seq = ?`
		if p.archived {
			statement = `SELECT ` + ArchivedColumns + ` FROM agent_message_archive WHERE seq = ?`
		}
		found, err := Messages(c, statement, p.seq)
		if err != nil {
			return nil, false, err
		}
		for i := range found {
			size += len(found[i].Payload)
		}
		if len(ms) > 0 && size > maxBytes {
			return ms, true, nil
		}
		ms = append(ms, found...)
	}
	return ms, false, nil
}

// ReviewBatch is the maximum number of rows that one transaction reviews.
const ReviewBatch = 500

// ReadingOrder is the SQL clause for the order in which a reader gets its messages.
const ReadingOrder = ` ORDER BY CASE action WHEN 'interrupt' THEN 0 ELSE 1 END, priority DESC, seq`
