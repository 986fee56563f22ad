package ledger

import (
	"encoding/json"
	"time"

	"mailroom/orchestrator"
	"mailroom/tracing"
)

// Insertion is a row that is about to be inserted into agent_message.
type Insertion struct {
	Draft                        *orchestrator.Draft
	Id, Recipient                string
	Status                       orchestrator.Status
	Failure                      string // for status failed, the error; otherwise a remark for the first event
	MaxRetries, Hops             int
	Held                         bool
	Own                          bool // the copy for the sender itself; the request needs its seq
	MulticastID, MulticastTarget string
	expiresAt, reviewAt          string
	NotBefore                    string // "" means at once
	heldFrom                     string // value of NotBefore before hold changed it
	ttl                          any
	Seq                          int64 // set by Insert, unless Own is false and the request only sends and is not alone
}

// Expire sets the time at which the row is first due, the time at which it expires, and the time of the next review.
// The review takes place when the row is overdue, or when it expires if that is earlier. A TTL starts at the time of
// sending; without a TTL, the lifetime starts when the row is due.
func (row *Insertion) Expire(t *Tx, s *Settings) {
	due := t.Clock
	if at := DueAt(row.Draft, t.Clock); !at.IsZero() {
		due, row.NotBefore = at, orchestrator.Stamp(at)
	}
	expires := due.Add(s.ExpireAfter)
	if row.Draft.TTL > 0 {
		expires = t.Clock.Add(row.Draft.TTL)
		row.ttl = int64(row.Draft.TTL / time.Second)
	}
	row.expiresAt = orchestrator.Stamp(expires)
	row.reviewAt = min(row.expiresAt, orchestrator.Stamp(due.Add(s.OverdueAfter)))
}

// hold delays the row while messages between its sender and its recipient are held back.
func (row *Insertion) hold(t *Tx) {
	conf := t.Config()
	h := conf.HoldOf(row.Draft.Sender, row.Recipient, t.ClockText)
	if h == nil || row.Held || row.Status != orchestrator.Pending || row.NotBefore >= h.Until {
		return
	}
	row.heldFrom, row.NotBefore = row.NotBefore, h.Until
	row.Failure = h.String()
	row.expiresAt = orchestrator.Stamp(orchestrator.ParseStamp(row.expiresAt).Add(orchestrator.ParseStamp(h.Until).Sub(t.Clock)))
	row.reviewAt = min(row.expiresAt, orchestrator.Stamp(orchestrator.ParseStamp(h.Until).Add(conf.Settings.OverdueAfter)))
}

// insertPlain inserts a row that has only the columns common to all messages. It takes two thirds of the time of
// insertAny.
const insertPlain = `
	INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, created_at, max_retries,
	    traced_status, review_at, expires_at, priority, trace_id, span_id)
	VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?6, ?9, ?10, ?11, ?12, ?13)`

const insertAny = `
	INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, created_at, max_retries,
	    traced_status, review_at, expires_at, priority, trace_id, span_id, error_message, ended_at, ttl_seconds, held,
	    summary, context, action, thread_id, session_id, reply_to, hops, multicast_id, multicast_target,
	    	idempotency_key, origin,
	    not_before, next_attempt_at, chain_at, wake, held_from)
	VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?6, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
		?23,
	    ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33)`

// plain reports whether insertPlain can store the row.
func (row *Insertion) plain() bool {
	d := row.Draft
	return row.Status == orchestrator.Pending && row.ttl == nil && !row.Held && row.Hops == 0 &&
		row.MulticastID == "" &&
		d.Summary == "" && d.Context == "" && d.Action == "" && d.ThreadID == "" && d.SessionID == "" &&
		d.ReplyTo == "" &&
		d.IdempotencyKey == "" && d.Origin == "" && row.NotBefore == "" && d.Wake == ""
}

// Insert inserts a new row into agent_message and records its first event.
func (t *Tx) Insert(row *Insertion) error {
	held := *row // hold changes the times for this recipient only
	held.hold(t)
	err := t.insert(&held)
	row.Seq, row.Hops = held.Seq, held.Hops
	return err
}

func (t *Tx) insert(row *Insertion) (err error) {
	d := row.Draft
	row.Hops = max(row.Hops, d.Hops)
	traceID := ""
	if span := tracing.FromContext(t.Ctx); span != nil {
		traceID = span.TraceID
	}
	if t.created.n > 0 && t.created.by != t.Actor {
		if err := t.TraceCreated(); err != nil {
			return err
		}
	}
	alone := t.IsAlone()
	if row.plain() {
		row.Seq, err = t.insertRow(alone || row.Own, insertPlain, row.Id, d.Sender, row.Recipient, d.Type,
			string(d.Payload), row.Status, t.Now,
			row.MaxRetries, row.reviewAt, row.expiresAt, d.Priority, traceID, t.SpanID)
	} else {
		var failure any
		endedAt, held, next := "", 0, row.NotBefore
		if row.Status == orchestrator.Failed {
			failure, endedAt, row.reviewAt, next = row.Failure, t.Now, "", ""
		}
		if row.Held {
			held = 1
		}
		row.Seq, err = t.insertRow(alone || row.Own, insertAny, row.Id, d.Sender, row.Recipient, d.Type,
			string(d.Payload), row.Status, t.Now,
			row.MaxRetries, row.reviewAt, row.expiresAt, d.Priority, traceID, t.SpanID,
			failure, endedAt, row.ttl, held, null(d.Summary), null(d.Context), null(d.Action), null(d.ThreadID),
			null(d.SessionID), null(d.ReplyTo), row.Hops, null(row.MulticastID), null(row.MulticastTarget),
			null(d.IdempotencyKey), d.Origin, row.NotBefore, next, d.ChainAt, null(string(d.Wake)), row.heldFrom)
	}
	if err != nil {
		return err
	}
	t.KeepSpan()
	if t.created.n == 0 {
		t.created.first, t.created.by = row.Seq, t.Actor
	}
	if t.created.n == 0 || !alone {
		event := t.Event(tracing.Created, row.Failure)
		event.MessageID, event.NewStatus = row.Id, string(row.Status)
		t.created.events = append(t.created.events, event)
	}
	t.created.n++
	if alone && row.Seq%t.Ledger.countEvery == 0 {
		t.created.full = row.Seq
	}
	if !row.Held && t.sends && !t.Careful() {
		return nil
	}
	if err := t.TraceCreated(); err != nil || !row.Held {
		return err
	}
	event := t.Event(tracing.Held, "unknown recipient "+row.Recipient)
	event.MessageID, event.OldStatus, event.NewStatus = row.Id, string(row.Status), string(row.Status)
	return tracing.Record(t, event)
}

// insertRow inserts a row and returns its seq. For a request that only sends, the seq is 0 unless number is true.
func (t *Tx) insertRow(number bool, query string, args ...any) (int64, error) {
	if t.sends && !number {
		return 0, t.InsertLater(query, args...)
	}
	return t.InsertRow(query, args...)
}

// TraceCreated records the events of the rows inserted since its last call, and counts the rows if the time to count
// has come. No other event may be recorded for such a row before. One statement for several rows takes a third of the
// time of one statement each, but twice the time for a single row. Where others insert rows at the same time, their
// rows lie between ours; the rows are then recorded one by one and not counted.
func (t *transaction) TraceCreated() error {
	rows := t.created
	t.created = created{}
	if rows.n > len(rows.events) {
		if err := tracing.RecordCreated(t, "agent_message WHERE seq >= ?2 AND traced_status <> ''"+inOrder, rows.by,
			rows.first); err != nil {
			return err
		}
	} else {
		for i := range rows.events {
			if err := tracing.Record(t, rows.events[i]); err != nil {
				return err
			}
		}
	}
	if rows.full == 0 {
		return nil
	}
	return countUpTo(t, rows.full)
}

// null returns s, or SQL NULL if s is empty.
func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// Tell sends a message from orchestrator.SystemSender. It does nothing if the recipient does not exist.
func (t *Tx) Tell(d *orchestrator.Draft) error {
	d.Sender = orchestrator.SystemSender
	return t.TellAs(d)
}

// TellAs sends a message from the draft's sender without checking the sender's permission, for example for an agent
// whose session has ended. It does nothing if the recipient does not exist.
func (t *Tx) TellAs(d *orchestrator.Draft) error {
	conf := t.Config()
	if conf.Agents[d.Recipient] == nil {
		return nil
	}
	id, err := t.NewID("msg-")
	if err != nil {
		return err
	}
	row := Insertion{Draft: d, Id: id, Recipient: d.Recipient, Status: orchestrator.Pending,
		MaxRetries: conf.Settings.MaxRetries}
	row.Expire(t, &conf.Settings)
	t.WakeAll()
	return t.Insert(&row)
}

// TellSender sends a message from orchestrator.SystemSender to the sender of m, with the hop count of m. It does
// nothing if the sender was removed, even if another agent has the sender's name now.
func (t *Tx) TellSender(m *orchestrator.Message, kind string, payload json.RawMessage) error {
	if !t.Config().Sent(m, m.Sender) {
		return nil
	}
	began := ""
	if m.Hops > 0 {
		var err error
		if began, _, err = t.Text(`SELECT chain_at FROM agent_message WHERE message_id = ?`, m.ID); err != nil {
			return err
		}
	}
	return t.Tell(&orchestrator.Draft{
		Recipient: m.Sender, Type: kind, Payload: payload, ReplyTo: m.ID, ThreadID: m.ThreadID, Hops: m.Hops,
		ChainAt: began,
	})
}
