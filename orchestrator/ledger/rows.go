package ledger

import (
	"encoding/json"

	"github.com/oklog/ulid/v2"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// Live is the condition under which the engine still has to act on a row. It must stand in every statement that should
// use the partial indexes to the letter: SQLite compares the text of the condition.
const Live = "status IN ('pending','retry')"

// Past is the condition for all other rows.
const Past = "status NOT IN ('pending','retry')"

// Due is the condition under which a live row may be taken now. ?1 is the clock. A row that could not be adopted is
// not.
const Due = Live + " AND next_attempt_at <= ?1 AND lease_token = '' AND held = 0 AND traced_status = status"

// Foreign is the condition for rows that adoption brings into our form: somebody else wrote them or changed their
// status, or one of the columns by which rows are found and told apart is a BLOB, whatever else they say. A BLOB equals
// no text that looks like it, and is greater than any. It must stand to the letter, like Live.
const Foreign = "traced_status IS DISTINCT FROM status" +
	" OR message_id >= x'' OR sender >= x'' OR recipient >= x'' OR status >= x''"

// Later is the condition for live rows that are due later than their sender wanted: those on the ladder, and those that
// were put off. It must stand to the letter, like Live.
const Later = Live + " AND next_attempt_at <> '' AND next_attempt_at <> not_before"

// Leased is the condition for rows under a lease: one on a row that is not live counts for nothing. It must stand to
// the letter, like Live.
const Leased = Live + " AND lease_token <> ''"

// Unowned is the condition, of leases, for those that the engine did not write, and that no process holds: they name
// none, or their token is shorter than any of ours. IsUnowned says the same.
const Unowned = "(lease_owner = '' OR length(lease_token) < 26)"

// IsUnowned reports whether a message has a lease that no process can hold. See Unowned.
func IsUnowned(m *orchestrator.Message) bool {
	return m.LeaseToken != "" && (m.LeaseOwner == "" || len(m.LeaseToken) < ulid.EncodedSize)
}

// dueInOrder is the condition for the rows, of agent_message as m, that are due to ?2 and of no sender whose delivery
// to the same recipient is under way: at most one lease of a pair is live, which keeps its order.
const dueInOrder = Due + ` AND recipient = ?2
	AND NOT EXISTS (SELECT 1 FROM agent_message l WHERE l.status IN ('pending','retry') AND l.lease_token <> ''
		AND l.recipient = ?2 AND l.sender = m.sender)`

// PutOff is the condition for rows that their recipient put off. The rows of its index are no others, and few.
const PutOff = "status = 'pending' AND next_attempt_at <> '' AND next_attempt_at <> not_before"

// behindPutOff is the condition for rows of agent_message as m, to ?2, that must wait because their recipient put off
// one that its sender sent before them: they would overtake it. Rows on the ladder, and those that their sender wants
// later, hold back nobody.
const behindPutOff = `EXISTS (SELECT 1 FROM agent_message p WHERE ` + Overtaken + `)`

// Overtaken is the condition for the rows p of which that is true.
const Overtaken = `p.status = 'pending' AND p.next_attempt_at <> '' AND p.next_attempt_at <> p.not_before AND p.recipient = ?2 AND p.sender = m.sender
	AND p.next_attempt_at > ?1 AND p.priority = m.priority AND p.seq < m.seq`

// Claimable is the condition for the rows, of agent_message as m, that a worker may claim for ?2 now: none of a sender
// whose delivery to the same recipient is under way, and none that would overtake one that was put off.
const Claimable = dueInOrder + ` AND NOT ` + behindPutOff

// Untold is the condition, of agent_inbox as i, for what no digest has told of in the session that a parameter, such as
// ?2, names.
func Untold(parameter string) string {
	return `replace(i.told_in, ' ' || ` + parameter + ` || ' ', '') = i.told_in`
}

// NoLease are the assignments that end the lease of a row, whoever holds it.
const NoLease = "lease_token = '', lease_until = '', lease_owner = ''"

// Takeable is the condition for the rows, of agent_message as m, that a set-based delivery to ?2 takes now. Rows whose
// sender has a delivery to the same recipient under way are left for later, to keep their order; rows that carry a
// transport's mark are left to a worker, which asks that transport first.
const Takeable = dueInOrder + ` AND delivery_marks = ''`

// MessageColumns are what ScanMessage reads, in its order.
const MessageColumns = `seq, message_id, sender, recipient, message_type, payload, status, created_at, delivered_at,
	retry_count, max_retries, error_message, priority, summary, context, action, thread_id, session_id, reply_to, hops,
	multicast_id, multicast_target, idempotency_key, next_attempt_at, expires_at, ended_at, read_at, acknowledged_at,
	lease_owner, lease_until, lease_token, crashes, held, trace_id, span_id, ttl_seconds, delivery_marks, origin, not_before, wake`

// ArchivedColumns are MessageColumns for agent_message_archive, which has one more.
const ArchivedColumns = MessageColumns + `, archived_at`

// Table returns the name of the table that a message is in: agent_message or its archive.
func Table(m *orchestrator.Message) string {
	if m.ArchivedAt != "" {
		return "agent_message_archive"
	}
	return "agent_message"
}

// ScanMessage returns the message in a row of MessageColumns. Its payload is JSON, and Mended, whatever somebody wrote
// there by hand.
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
		m.Payload = orchestrator.JSONString(string(m.Payload)) // written by hand and not adopted yet
	}
	m.Payload = orchestrator.Mended(m.Payload)
	if len(row) > 40 {
		m.ArchivedAt = row.Text(40)
	}
	if m.Status != orchestrator.Pending && m.Status != orchestrator.Retry {
		m.LeaseOwner, m.LeaseUntil, m.LeaseToken = "", "", "" // written by hand; it counts for nothing
	}
	if row[35] != nil {
		ttl := row.Int(35)
		m.TTL = &ttl
	}
	return m
}

// MaxCount is the most that anything is counted to: by hand, anything can be written.
const MaxCount = 1_000_000

// CountOf reads a column that counts, whatever somebody may have written there by hand: 0 to MaxCount.
func CountOf(v any) int { return int(max(0, min(store.Int(v), MaxCount))) }

// Messages runs a query that selects MessageColumns, and returns the messages.
func Messages(c *store.Conn, query string, args ...any) (ms []orchestrator.Message, err error) {
	err = c.Query(query, func(row store.Row) error {
		ms = append(ms, ScanMessage(row))
		return nil
	}, args...)
	return ms, err
}

// MaxRead is the most bytes of payload that one answer holds, unless its first message alone has more: it must fit into
// what carries it.
const MaxRead = 4 << 20

// Fetch returns messages from the table and its archive, at most limit of them and at most maxBytes of payload, but at
// least one if there is any; more says that there are others. query selects their places, in order, as two columns: 1
// if the row is archived, else 0, and its seq. So nothing large is sorted.
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

// ReviewBatch bounds the rows that one transaction reviews.
const ReviewBatch = 500

// ReadingOrder is the order in which a reader gets its messages.
const ReadingOrder = ` ORDER BY CASE action WHEN 'interrupt' THEN 0 ELSE 1 END, priority DESC, seq`
