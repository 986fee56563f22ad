package exports

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
	"mailroom/tracing/otlp"
)

// eventRow is a row of message_trace, joined with its message and with the command that caused the event.
type eventRow struct {
	id                              int64
	messageID, at, event            string
	oldStatus, newStatus            string
	attempt                         int64
	actor, spanID, failure, detail  string
	sender, recipient, kind, thread string // of the message
	messageTrace, messageSpan       string // command that sent the message, from the message's row
	commandTrace, command           string // command with the span id spanID; "" if it has no row
}

func eventOf(row store.Row) eventRow {
	return eventRow{
		id: row.Int(0), messageID: row.Text(1), at: row.Text(2), event: row.Text(3), oldStatus: row.Text(4),
		newStatus: row.Text(5),
		attempt:   row.Int(6), actor: row.Text(7), spanID: row.Text(8), failure: row.Text(9), detail: row.Text(10),
		sender: row.Text(11), recipient: row.Text(12), kind: row.Text(13), thread: row.Text(14),
		messageTrace: row.Text(15), messageSpan: row.Text(16), commandTrace: row.Text(17), command: row.Text(18),
	}
}

// event makes the span of an event. The span belongs to the trace of the command that sent the message, as a
// descendant of that command's span. If a command of another trace caused the event, the span links to it. The span
// of an event that ends an attempt lasts as long as the attempt; all others have no duration.
func (r *reader) event(row *eventRow) (*otlp.Span, error) {
	f, err := r.first(row.messageID)
	if err != nil {
		return nil, err
	}
	trace, root := r.place(row, f)
	at := timeOf(row.at)
	s := &otlp.Span{
		TraceID: trace, SpanID: r.eventID(row.id, row.messageID, row.at, row.event), ParentID: root,
		Name: otlp.Clip(row.event, maxName),
		Kind: otlp.KindInternal, Start: otlp.Nanos(at), End: otlp.Nanos(at),
	}
	if root == "" && row.id != f.id {
		s.ParentID = r.eventID(f.id, row.messageID, f.at, f.event)
	}
	switch command := r.spanID(row.spanID); {
	case row.commandTrace == "":
	case r.traceID(row.commandTrace) == trace:
		s.ParentID = command
	default:
		s.Links = []otlp.Link{{TraceID: r.traceID(row.commandTrace), SpanID: command}}
	}
	if err := r.attempt(row, s); err != nil {
		return nil, err
	}
	if tracing.EventName(row.event) == tracing.Read || tracing.EventName(row.event) == tracing.Shown {
		s.Kind = otlp.KindConsumer
	}
	return s, r.describe(row, s)
}

// first is the first event of a message.
type first struct {
	id                       int64
	at, event, spanID, trace string // spanID and trace: of the command that caused the event
}

func (r *reader) first(messageID string) (*first, error) {
	if f := r.firsts[messageID]; f != nil {
		return f, nil
	}
	f, _, err := store.First(r.Conn, func(row store.Row) first {
		return first{row.Int(0), row.Text(1), row.Text(2), row.Text(3), row.Text(4)}
	}, `SELECT t.id, t.at, t.event, t.span_id, coalesce(c.trace_id, '') FROM message_trace t
		LEFT JOIN command_trace c ON t.span_id <> '' AND c.span_id = t.span_id
		WHERE t.message_id = ? ORDER BY t.id LIMIT 1`, messageID)
	r.firsts[messageID] = &f
	return &f, err
}

// place returns the trace to which the events of a message belong, and the id of their parent span; "" is none. The
// trace of the message takes precedence over its row, because the trace is kept longer. So an event that is sent
// again has the same ids.
func (r *reader) place(row *eventRow, f *first) (trace, root string) {
	switch {
	case f.event == string(tracing.Created) && f.trace != "":
		return r.traceID(f.trace), r.spanID(f.spanID)
	case row.messageTrace != "" && row.messageSpan != "":
		return r.traceID(row.messageTrace), r.spanID(row.messageSpan)
	case row.messageTrace != "":
		return r.traceID(row.messageTrace), ""
	}
	return otlp.TraceID(r.database, "message", row.messageID), ""
}

// eventID returns the span id of an event. The event's number alone is not enough: after a restore, other events have
// the same numbers.
func (r *reader) eventID(id int64, messageID, at, event string) string {
	return otlp.SpanID(r.database, "event", strconv.FormatInt(id, 10), messageID, at, event)
}

// attempt sets the beginning of a span to the time when the message was claimed, if the event ends an attempt outside
// the database.
func (r *reader) attempt(row *eventRow, s *otlp.Span) error {
	switch tracing.EventName(row.event) {
	case tracing.Delivered, tracing.AttemptFailed, tracing.Failed, tracing.Released:
	default:
		return nil
	}
	var claimed time.Time
	err := r.Query(`SELECT at, event FROM message_trace WHERE message_id = ? AND id < ? ORDER BY id DESC LIMIT 1`,
		func(before store.Row) error {
			if before.Text(1) == string(tracing.Claimed) {
				claimed = timeOf(before.Text(0))
			}
			return nil
		}, row.messageID, row.id)
	if err == nil && !claimed.IsZero() && !claimed.After(time.Time(s.End)) {
		s.Start, s.Kind = otlp.Nanos(claimed), otlp.KindClient
	}
	return err
}

// operations maps events to the operation types of the OpenTelemetry conventions.
var operations = map[tracing.EventName]string{
	tracing.Created: "create", tracing.Shown: "receive", tracing.Read: "receive", tracing.Acknowledged: "settle",
}

// failures lists the events that mean that something went wrong.
var failures = []tracing.EventName{tracing.AttemptFailed, tracing.Failed, tracing.Expired, tracing.Refused}

// describe sets the attributes and the status of an event's span.
func (r *reader) describe(row *eventRow, s *otlp.Span) error {
	if row.sender == "" && row.recipient == "" { // the message was deleted, or is a question or an alert
		m, _, err := messages.Deleted(r.Conn, row.messageID)
		if err != nil {
			return err
		}
		row.sender, row.recipient, row.kind = m.Sender, m.Recipient, m.Type
	}
	if row.recipient != "" && !strings.Contains(row.recipient, ":") {
		// Device and thread names are too numerous for span names.
		s.Name = otlp.Clip(row.event+" "+row.recipient, maxName)
	}
	event := tracing.EventName(row.event)
	failed := slices.Contains(failures, event)
	reason := ""
	if failed {
		s.Status.Code, reason = otlp.CodeError, row.event
	}
	s.Attributes = append(named(
		tracing.AttrSystem, "mailroom", tracing.AttrOperation, row.event, tracing.AttrOperationType, operations[event],
		tracing.AttrDestination, row.recipient, tracing.AttrMessageID, row.messageID, tracing.AttrConversationID,
		row.thread,
		tracing.AttrErrorType, reason, "mailroom.sender", row.sender, "mailroom.message_type", row.kind,
		"mailroom.old_status", row.oldStatus,
		"mailroom.new_status", row.newStatus, "mailroom.command", row.command, "mailroom.actor", row.actor,
	), otlp.Number("mailroom.event_id", row.id))
	if row.attempt > 0 {
		s.Attributes = append(s.Attributes, otlp.Number("mailroom.attempt", row.attempt))
	}
	if !r.texts {
		return nil
	}
	if failed {
		s.Status.Message = otlp.Clip(row.failure, maxText)
	}
	return r.addTexts(row, s)
}

// addTexts adds the texts that are sent only with the option texts.
func (r *reader) addTexts(row *eventRow, s *otlp.Span) error {
	add := func(key, text string) {
		if text = strings.TrimSpace(text); text != "" {
			s.Attributes = append(s.Attributes, otlp.Text(key, otlp.Clip(text, maxText)))
		}
	}
	add("mailroom.error", row.failure)
	add("mailroom.detail", row.detail)
	if row.event != string(tracing.Created) && row.event != string(tracing.Adopted) {
		return nil
	}
	payload, _, err := r.Text(`SELECT payload FROM agent_message WHERE message_id = ?1
		UNION ALL SELECT payload FROM agent_message_archive WHERE message_id = ?1`, row.messageID)
	add("mailroom.payload", payload)
	return err
}
