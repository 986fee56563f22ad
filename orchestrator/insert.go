package orchestrator

import (
	"time"

	"mailroom/tracing"
)

// insertion is one row about to be stored.
type insertion struct {
	draft                        *Draft
	id, recipient                string
	status                       Status
	failure                      string // why it failed at once; of any other, a remark for its first event
	maxRetries, hops             int
	held                         bool
	multicastID, multicastTarget string
	expiresAt, reviewAt          string
	notBefore                    string // "" is at once
	ttl                          any
	seq                          int64 // set by insert
}

// expire sets when the row is due first, when it expires, and when the router next looks at it: when it is overdue, or earlier
// if it expires. A ttl begins with the send, the time without one when the row is due.
func (row *insertion) expire(t *tx, s *Settings) {
	due := t.clock
	if at := row.draft.dueAt(t.clock); !at.IsZero() {
		due, row.notBefore = at, stamp(at)
	}
	expires := due.Add(s.ExpireAfter)
	if row.draft.TTL > 0 {
		expires = t.clock.Add(row.draft.TTL)
		row.ttl = int64(row.draft.TTL / time.Second)
	}
	row.expiresAt = stamp(expires)
	row.reviewAt = min(row.expiresAt, stamp(due.Add(s.OverdueAfter)))
}

// insertPlain stores a row that has only what every message has. It saves a third of the time of insertAny.
const insertPlain = `
	INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, created_at, max_retries,
	    traced_status, review_at, expires_at, priority, trace_id, span_id)
	VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?6, ?9, ?10, ?11, ?12, ?13)`

const insertAny = `
	INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, created_at, max_retries,
	    traced_status, review_at, expires_at, priority, trace_id, span_id, error_message, ended_at, ttl_seconds, held,
	    summary, context, action, thread_id, session_id, reply_to, hops, multicast_id, multicast_target, idempotency_key, origin,
	    not_before, next_attempt_at)
	VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?6, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
	    ?24, ?25, ?26, ?27, ?28, ?29, ?30)`

// plain reports whether insertPlain can store the row.
func (row *insertion) plain() bool {
	d := row.draft
	return row.status == Pending && row.ttl == nil && !row.held && row.multicastID == "" &&
		d.Summary == "" && d.Context == "" && d.Action == "" && d.ThreadID == "" && d.SessionID == "" && d.ReplyTo == "" &&
		d.IdempotencyKey == "" && d.Origin == "" && row.notBefore == ""
}

// insert stores one row and sees to its first event.
func (t *tx) insert(row *insertion) (err error) {
	d := row.draft
	traceID := ""
	if span := tracing.FromContext(t.ctx); span != nil {
		traceID = span.TraceID
	}
	if t.created.first != 0 && t.created.by != t.actor {
		if err := t.traceCreated(); err != nil {
			return err
		}
	}
	if row.plain() {
		row.seq, err = t.insertRow(insertPlain, row.id, d.Sender, row.recipient, d.Type, string(d.Payload), row.status, t.now,
			row.maxRetries, row.reviewAt, row.expiresAt, d.Priority, traceID, t.spanID)
	} else {
		var failure any
		endedAt, held, next := "", 0, row.notBefore
		if row.status == Failed {
			failure, endedAt, row.reviewAt, next = row.failure, t.now, "", ""
		}
		if row.held {
			held = 1
		}
		row.seq, err = t.insertRow(insertAny, row.id, d.Sender, row.recipient, d.Type, string(d.Payload), row.status, t.now,
			row.maxRetries, row.reviewAt, row.expiresAt, d.Priority, traceID, t.spanID,
			failure, endedAt, row.ttl, held, null(d.Summary), null(d.Context), null(d.Action), null(d.ThreadID),
			null(d.SessionID), null(d.ReplyTo), row.hops, null(row.multicastID), null(row.multicastTarget),
			null(d.IdempotencyKey), d.Origin, row.notBefore, next)
	}
	if err != nil {
		return err
	}
	t.traced = true
	if t.created.first == 0 {
		event := t.event(tracing.Created, row.failure)
		event.MessageID, event.NewStatus = row.id, string(row.status)
		t.created = created{first: row.seq, by: t.actor, only: &event}
	} else {
		t.created.only = nil
	}
	if !row.held && t.sends {
		return nil
	}
	if err := t.traceCreated(); err != nil || !row.held {
		return err
	}
	event := t.event(tracing.Held, "nobody is known as "+row.recipient)
	event.MessageID, event.OldStatus, event.NewStatus = row.id, string(row.status), string(row.status)
	return tracing.Record(t, event)
}

// traceCreated writes the events of the rows that were inserted since it was called last. Nothing else may be written
// about such a row before. One statement for several rows takes a third of the time that one for each does, but for a
// single row twice the time.
func (t *transaction) traceCreated() error {
	rows := t.created
	t.created = created{}
	switch {
	case rows.first == 0:
		return nil
	case rows.only != nil:
		return tracing.Record(t, *rows.only)
	}
	return tracing.RecordCreated(t, "agent_message WHERE seq >= ?2", rows.by, rows.first)
}

// null is the SQL NULL for an empty text.
func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}
