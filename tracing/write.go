package tracing

import (
	"cmp"
	"encoding/json"
	"time"
)

// Runner runs one SQL statement within a transaction. Package tracing needs nothing else of a database.
type Runner interface {
	Run(query string, args ...any) error
}

// Layout is the format of every stored time: RFC 3339, UTC, three fractional digits, so that text order is time
// order.
const Layout = "2006-01-02T15:04:05.000Z"

// Save writes the span, or its changes since the last write. end is the time to record as its end, which is omitted
// if the span was left open. failure is the error so far, or "" if there is none. actor is the process. Save must run
// in a transaction; call MarkSaved after the commit.
func (s *Span) Save(x Runner, end time.Time, actor string, failure string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.save(x, end, actor, failure)
}

// SaveOpen writes the span without an end, because its command is still running, and makes Save do the same until End
// is called. After End, it does nothing. It must run in a transaction; see MarkSaved.
func (s *Span) SaveOpen(x Runner, now time.Time, actor string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	s.open = true
	return s.save(x, now, actor, "")
}

func (s *Span) save(x Runner, end time.Time, actor string, failure string) error {
	if s.ended {
		if s.endedAt.IsZero() {
			s.endedAt = end
		}
		end, failure = s.endedAt, cmp.Or(failure, s.failure)
	}
	s.written, s.failure = end, failure
	if s.started.IsZero() || s.started.After(end) {
		s.started = end
	}
	attributes := []byte("{}")
	if len(s.attributes) > 0 {
		var err error
		if attributes, err = json.Marshal(s.attributes); err != nil {
			return err
		}
	}
	status, ended := "OK", end.UTC().Format(Layout)
	if failure != "" {
		status = "ERROR"
	}
	if s.open && !s.ended {
		status, ended = "UNSET", ""
	}
	return x.Run(`
		INSERT INTO command_trace (trace_id, span_id, parent_span_id, name, kind, started_at, ended_at, status,
		                           status_message, actor, caller, attributes)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (span_id) DO UPDATE SET
		    ended_at = excluded.ended_at, status = excluded.status, status_message = excluded.status_message,
		    attributes = excluded.attributes`,
		s.TraceID, s.SpanID, s.ParentSpanID, s.Name, string(s.Kind), s.started.UTC().Format(Layout),
		ended, status, failure, actor, s.Caller, string(attributes))
}

// EventName is a kind of event in the life of a message. Source: contract, "The table".
type EventName string

// The events of message_trace.
const (
	Created       EventName = "created"
	Adopted       EventName = "adopted"        // written or changed by hand, then found and completed
	Held          EventName = "held"           // waits for an agent with the recipient's name
	Claimed       EventName = "claimed"        // leased for a delivery outside the database
	Released      EventName = "released"       // the lease, the hold or the reading ended without an outcome
	AttemptFailed EventName = "attempt_failed" // one attempt of the retry schedule
	Overdue       EventName = "overdue"        // waits for longer than it should
	Delivered     EventName = "delivered"
	Shown         EventName = "shown" // handed out under a lease; not read until it is acknowledged
	Read          EventName = "read"
	Acknowledged  EventName = "acknowledged"
	Expired       EventName = "expired"
	Failed        EventName = "failed"
	Cancelled     EventName = "cancelled"
	Replayed      EventName = "replayed"
	Answered      EventName = "answered" // a question to the user was answered
	Refused       EventName = "refused"  // the asker found an answer to be forged
	Archived      EventName = "archived"
	Deleted       EventName = "deleted"
)

// Event is one row of message_trace.
type Event struct {
	MessageID string
	At        string // in Layout
	Name      EventName
	OldStatus any // string, or nil if there was none
	NewStatus any
	Attempt   int // from 1; 0 if it belongs to none
	Actor     string
	SpanID    string
	Error     string
	Detail    string // what the transport reported about the attempt
}

// Record appends one event.
func Record(x Runner, e Event) error {
	return x.Run(`
		INSERT INTO message_trace (message_id, at, event, old_status, new_status, attempt, actor, span_id, error,
			detail)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.MessageID, e.At, string(e.Name), e.OldStatus, e.NewStatus, e.Attempt, e.Actor, e.SpanID, e.Error, e.Detail)
}

// RecordCreated appends a Created event for every row selected by from, in which ?2 is arg. The time, status, span
// and error are those in the row.
func RecordCreated(x Runner, from string, actor string, arg any) error {
	return x.Run(`
		INSERT INTO message_trace (message_id, at, event, new_status, actor, span_id, error)
		SELECT message_id, created_at, 'created', status, ?1, span_id, coalesce(error_message, '') FROM `+from, actor,
		arg)
}

// RecordSet appends the same event for every row selected by from, a SQL fragment such as "agent_message WHERE seq IN
// (SELECT seq FROM temp.batch)". The current status of the row becomes old_status, and newStatus the new one (""
// leaves it unchanged). The attempt is the current one: the first for a row that never failed, otherwise one more
// than its retries so far, unless retry_count was set by hand to something other than a number in range. Events that
// belong to no attempt, such as cancelled, have 0. e.MessageID, OldStatus, NewStatus and Attempt are not used. In
// from, ?1 is arg, which is nil if from has no parameter.
func RecordSet(x Runner, from string, arg any, newStatus string, e Event) error {
	return x.Run(`
		INSERT INTO message_trace (message_id, at, event, old_status, new_status, attempt, actor, span_id, error,
			detail)
		SELECT message_id, ?2, ?3, status, CASE ?4 WHEN '' THEN status ELSE ?4 END,
		       CASE WHEN ?3 NOT IN ('claimed','released','attempt_failed','delivered','failed') THEN 0
		           WHEN status = 'pending' THEN 1 WHEN status = 'retry' THEN coalesce(CASE WHEN retry_count + 0 < 1000000000 THEN retry_count END, 0) + 2 ELSE 0 END, ?5, ?6, ?7, ?8
		FROM `+from, arg, e.At, string(e.Name), newStatus, e.Actor, e.SpanID, e.Error, e.Detail)
}

// RecordDeleted appends a Deleted event for every row selected by from. It stores the values that the trace needs
// once the row is gone: the last error, and as detail a JSON object with sender, recipient and message_type. Of e, it
// uses At, Actor and SpanID.
func RecordDeleted(x Runner, from string, e Event) error {
	return x.Run(`
		INSERT INTO message_trace (message_id, at, event, old_status, new_status, actor, span_id, error, detail)
		SELECT message_id, ?1, 'deleted', status, status, ?2, ?3, coalesce(CAST(error_message AS TEXT), ''),
		       json_object('sender', CAST(sender AS TEXT), 'recipient', CAST(recipient AS TEXT), 'message_type',
		       	CAST(message_type AS TEXT))
		FROM `+from, e.At, e.Actor, e.SpanID)
}
