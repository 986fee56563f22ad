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
	failure                      string
	maxRetries, hops             int
	held                         bool
	multicastID, multicastTarget string
	expiresAt, reviewAt          string
	ttl                          any
}

// expire sets when the row expires, and when the router next looks at it: when it is overdue, or earlier if it expires.
func (row *insertion) expire(t *tx, s *Settings) {
	created := t.clock
	lifetime := s.ExpireAfter
	if row.draft.TTL > 0 {
		lifetime = row.draft.TTL
		row.ttl = int64(row.draft.TTL / time.Second)
	}
	row.expiresAt = stamp(created.Add(lifetime))
	row.reviewAt = stamp(created.Add(min(lifetime, s.OverdueAfter)))
}

// insert stores one row and its first event.
func (t *tx) insert(row *insertion) error {
	d := row.draft
	var failure any
	endedAt := ""
	if row.status == Failed {
		failure, endedAt, row.reviewAt = row.failure, t.now, ""
	}
	traceID := ""
	if span := tracing.FromContext(t.ctx); span != nil {
		traceID = span.TraceID
	}
	held := 0
	if row.held {
		held = 1
	}
	_, err := t.Exec(`
		INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, created_at, retry_count,
		    max_retries, error_message, traced_status, review_at, expires_at, ended_at, ttl_seconds, priority, held, summary,
		    context, action, thread_id, session_id, reply_to, hops, multicast_id, multicast_target, idempotency_key,
		    trace_id, span_id)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, ?6, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
		    ?22, ?23, ?24, ?25, ?26, ?27)`,
		row.id, d.Sender, row.recipient, d.Type, string(d.Payload), row.status, t.now, row.maxRetries, failure, row.reviewAt,
		row.expiresAt, endedAt, row.ttl, d.Priority, held, null(d.Summary), null(d.Context), null(d.Action), null(d.ThreadID),
		null(d.SessionID), null(d.ReplyTo), row.hops, null(row.multicastID), null(row.multicastTarget),
		null(d.IdempotencyKey), traceID, t.spanID)
	if err != nil {
		return err
	}
	event := t.event(tracing.Created, row.failure)
	event.MessageID, event.NewStatus = row.id, string(row.status)
	if err := tracing.Record(t, event); err != nil || !row.held {
		return err
	}
	event.Name, event.Error = tracing.Held, "nobody is known as "+row.recipient
	event.OldStatus = event.NewStatus
	return tracing.Record(t, event)
}

// null is the SQL NULL for an empty text.
func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}
