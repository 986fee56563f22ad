package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/oklog/ulid/v2"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// transaction is the state that the requests of one write transaction share. The clock is read once for all of them,
// after the locks are taken. It is read again if Hold takes further locks later.
type transaction struct {
	*store.Transaction

	// Clock is the reading of the clock. Leases and retry times are measured with it, so that a clock that is set
	// forward and back does not leave them stranded. Now is the time that is stored: it is never earlier than the
	// last stored time, so that a clock that is set back does not change the order of events.
	Clock     time.Time
	ClockText string
	Now       string
	idTime    uint64 // Now in the form used by ids

	conf *Config

	created created
}

// created describes the new rows whose first events are not yet written.
type created struct {
	n      int             // number of rows
	first  int64           // seq of the first row
	by     string          // actor that created the rows
	events []tracing.Event // event of the first row; of all rows, if others may insert rows at the same time
	full   int64           // seq of the last row at which counting is due; 0 if it is not
}

// Tx is one request within a write transaction.
type Tx struct {
	*transaction
	Ledger *Ledger
	Ctx    context.Context

	// sends is true if the request only sends messages. The events of its new rows are then written later, together
	// with those of the other requests in the transaction.
	sends bool

	// Quiet is set by requests whose caller learns nothing if nothing changed. A batch of such requests skips the
	// sync.
	Quiet bool

	Actor  string // lease owner and trace actor
	SpanID string

	AsUser bool // the request returns an answer in the user's name

	ring       store.Ring
	after      []func() // called once the commit is on disk
	spanned    bool     // see KeepSpan
	wantsAlone bool     // see MustBeAlone
	heartbeats []string // agents with a SilentAfter limit that were active, each once
}

// maxAhead is the longest time that the last stored time may lie ahead of the clock. A later time is ignored, because
// anybody can write a row of the trace.
const maxAhead = 3650 * orchestrator.Day

// Begin is called by the store at the start of a write transaction. It reads the clock and the last stored time, and
// checks whether the configuration or the version of the tables has changed.
func (l *Ledger) Begin(under *store.Transaction) error {
	t := &transaction{Transaction: under}
	under.Shared = t
	t.ReadClock(l.now())
	var last, version string
	err := t.Query(`
		SELECT (SELECT at FROM message_trace ORDER BY id DESC LIMIT 1),
		       (SELECT value FROM settings WHERE key = '`+store.ConfigVersion+`')`, func(row store.Row) error {
		last, version = row.Text(0), row.Text(1)
		return nil
	})
	if err != nil {
		return err
	}
	if t.conf = l.Config.Known(version); t.conf == nil {
		if t.conf, err = l.Config.Load(t.Conn); err != nil {
			return err
		}
	}
	if err := takesWrites(l, t.conf); err != nil {
		return err
	}
	if last <= t.Now {
		return nil
	}
	if at := orchestrator.ParseStamp(last); !at.IsZero() && at.Before(t.Clock.Add(maxAhead)) {
		t.Now, t.idTime = last, ulid.Timestamp(at)
	}
	return nil
}

// ReadClock sets the transaction's times from a reading of the clock.
func (t *transaction) ReadClock(clock time.Time) {
	t.Clock, t.ClockText = clock, orchestrator.Stamp(clock)
	if t.ClockText > t.Now {
		t.Now, t.idTime = t.ClockText, ulid.Timestamp(clock)
	}
}

// End is called by the store before it commits a write transaction. It writes the events of new rows that are not yet
// written.
func (l *Ledger) End(under *store.Transaction) error {
	return under.Shared.(*transaction).TraceCreated()
}

// request is one call of Write.
type request struct {
	store.Request
	ledger *Ledger
	fn     func(*Tx) error
	sends  bool
	lazy   bool
	tx     Tx // of the current run
}

// Write runs fn in a write transaction and returns when the transaction is on disk. The transaction may be shared
// with other requests: an error of fn undoes only the changes of fn. fn may run more than once, so it must set its
// results rather than add to them. If ctx ends before the request is taken, the request is withdrawn with code busy;
// after that point Write waits for the outcome. An error of fn is returned unchanged.
//
// The scope determines what nobody else changes while fn runs. Changes of the configuration, adoption and Tidy need
// more than most scopes. In that case all changes of fn are undone, and fn is run again with store.Alone, see
// MustBeAlone.
func (l *Ledger) Write(ctx context.Context, scope store.Scope, fn func(*Tx) error) error {
	return submit(ctx, scope, request{ledger: l, fn: fn})
}

// WriteLazily runs fn as Write does, for a change that a power cut or a failing server may undo. It returns without
// waiting for the disk, unless it shares its transaction with requests that wait.
func (l *Ledger) WriteLazily(ctx context.Context, scope store.Scope, fn func(*Tx) error) error {
	return submit(ctx, scope, request{ledger: l, fn: fn, lazy: true})
}

// WriteSends runs fn as Write does, for a request that only sends messages. The first events of all sends in a
// transaction are written with one statement.
func (l *Ledger) WriteSends(ctx context.Context, scope store.Scope, fn func(*Tx) error) error {
	return submit(ctx, scope, request{ledger: l, fn: fn, sends: true})
}

// errNotAlone ends a request that must be alone and is not.
var errNotAlone = errors.New("to be run again alone")

// MustBeAlone returns an error unless nobody else writes until the transaction ends. After such an error the request
// is undone, whatever it returns, and is run again alone. Call MustBeAlone before a change that only some requests of
// a wider scope make.
func (t *Tx) MustBeAlone() error {
	if t.IsAlone() {
		return nil
	}
	t.wantsAlone = true
	return errNotAlone
}

func submit(ctx context.Context, scope store.Scope, asked request) error {
	q := asked
	q.Ctx, q.Scope, q.Work = ctx, scope, &q
	err := q.ledger.Store.Write(&q.Request)
	if errors.Is(err, errNotAlone) {
		return submit(ctx, store.Alone, asked)
	}
	return err
}

// Prepare writes the events of rows that earlier requests of the transaction have created, unless this request only
// sends.
func (q *request) Prepare(under *store.Transaction) error {
	if q.sends {
		return nil
	}
	return q.ledger.End(under)
}

// Run runs fn, and then stores the heartbeats, and the command's span if the request changed anything.
func (q *request) Run(under *store.Transaction) error {
	t := &q.tx
	*t = Tx{transaction: under.Shared.(*transaction), Ledger: q.ledger, Ctx: q.Ctx, sends: q.sends,
		Actor: q.ledger.instance}
	if instance, ok := q.Ctx.Value(instanceKey{}).(string); ok {
		t.Actor = instance
	}
	if span := tracing.FromContext(q.Ctx); span != nil {
		t.SpanID = span.SpanID
		span.Begin(t.Clock)
	}
	untraced, conf, done := t.created, t.conf, false
	defer func() {
		if !done {
			t.conf, t.created = conf, untraced // the changes of fn are about to be undone
		}
	}()
	err := q.fn(t)
	if err == nil {
		err = t.finish()
	}
	if t.wantsAlone {
		err = errNotAlone
	}
	done = err == nil
	return err
}

// Quiet reports whether the caller learns nothing if nothing changed.
func (q *request) Quiet() bool { return q.tx.Quiet }

// Lazy reports whether the request need not wait for the disk.
func (q *request) Lazy() bool { return q.lazy }

// Rings returns the listeners to wake.
func (q *request) Rings() *store.Ring { return &q.tx.ring }

// Durable calls the functions that were waiting for the commit.
func (q *request) Durable() {
	for _, f := range q.tx.after {
		f()
	}
}

// finish stores the heartbeats, and the command's span if the request changed anything. It is part of the request.
func (t *Tx) finish() error {
	if err := t.storeHeartbeats(); err != nil {
		return err
	}
	span := tracing.FromContext(t.Ctx)
	if span == nil || !t.spanned || span.Settled() {
		return nil
	}
	l, actor := t.Ledger, t.Actor
	t.AfterCommit(func() { span.MarkSaved(func(ctx context.Context) { saveOpen(ctx, l, span, actor) }) })
	return span.Save(t, t.Clock, t.Actor, "")
}

// NewID returns a new id: the prefix and a ULID. Ids are in order of creation, even if the clock was set back.
func (t *Tx) NewID(prefix string) (string, error) {
	id, err := ulid.New(t.idTime, t.Ledger.entropy)
	if err != nil {
		t.Ledger.entropy = newEntropy() // the counter of this millisecond overflowed
		if id, err = ulid.New(t.idTime, t.Ledger.entropy); err != nil {
			return "", err
		}
	}
	return prefix + id.String(), nil
}

// Wake wakes the listeners for these recipients once the transaction is committed.
func (t *Tx) Wake(recipients ...string) { t.ring.Add(recipients) }

// WakeAll wakes all listeners once the transaction is committed.
func (t *Tx) WakeAll() { t.ring.All = true }

// AfterCommit calls f once the transaction is on disk.
func (t *Tx) AfterCommit(f func()) { t.after = append(t.after, f) }

// KeepSpan makes the request write the command's span together with its changes. Recording an event in the trace does
// this automatically.
func (t *Tx) KeepSpan() { t.spanned = true }

func newEntropy() *ulid.MonotonicEntropy { return ulid.Monotonic(rand.Reader, 0) }

// Event returns an event for the trace with the fields common to all events of this request.
func (t *Tx) Event(name tracing.EventName, failure string) tracing.Event {
	t.KeepSpan()
	return tracing.Event{Name: name, At: t.Now, Actor: t.Actor, SpanID: t.SpanID, Error: failure}
}

// Selection is a set of rows of agent_message: a condition in which ?1 is Arg.
type Selection struct {
	Where string
	Arg   any // nil if the condition has no parameter
}

// InBatch selects the rows whose seq is in the temporary table batch.
var InBatch = Selection{Where: "seq IN (SELECT seq FROM temp.batch)"}

// BySeq selects one row.
func BySeq(seq int64) Selection { return Selection{"seq = ?1", seq} }

// Note records an event in the trace of rows, without changing their status.
func (t *Tx) Note(rows Selection, name tracing.EventName, failure string) error {
	return t.NoteEvent(rows, t.Event(name, failure))
}

// NoteOf records an event in the trace of one message, archived or not, without changing its status.
func (t *Tx) NoteOf(m *orchestrator.Message, name tracing.EventName, failure string) error {
	e := t.Event(name, failure)
	e.MessageID, e.OldStatus, e.NewStatus = m.ID, string(m.Status), string(m.Status)
	return tracing.Record(t, e)
}

// inOrder makes the trace record rows in the order of sending, because a server selects rows in any order.
const inOrder = " ORDER BY seq"

// NoteEvent records an event with details in the trace of rows, without changing their status.
func (t *Tx) NoteEvent(rows Selection, e tracing.Event) error {
	return tracing.RecordSet(t, "agent_message WHERE "+rows.Where+inOrder, rows.Arg, "", e)
}

// Change is one change of status.
type Change struct {
	To      orchestrator.Status
	Event   tracing.EventName
	Failure string // recorded in the trace, and in error_message unless empty
	Detail  string // recorded in the trace
	// Next is the time at which a retry is due.
	Next string
	// Attempted is true if a delivery attempt ends with this change. If the attempt was a retry, the retry is
	// counted.
	Attempted bool
	// Read is true if the recipient already has the message, and Final if nobody reads the message in the table. In
	// both cases the message cannot expire unread.
	Read, Final bool
}

// ChangeStatus changes the status of messages, records the changes in the trace, and ends the leases of the messages.
// It returns the number of rows changed. All changes of status use it. Source: contract, "One function makes every
// change of status".
func (t *Tx) ChangeStatus(rows Selection, c Change) (int64, error) {
	event := t.Event(c.Event, c.Failure)
	event.Detail = c.Detail
	if err := tracing.RecordSet(t, "agent_message WHERE "+rows.Where+inOrder, rows.Arg, string(c.To),
		event); err != nil {
		return 0, err
	}
	if err := countChanges(t, rows, c.To); err != nil {
		return 0, err
	}
	retries := "retry_count"
	if c.Attempted {
		retries = "CASE WHEN status = 'retry' AND retry_count + 0 < 1000000000 THEN retry_count + 1 ELSE retry_count END" // others may write any number
	}
	var set string
	switch c.To {
	case orchestrator.Delivered:
		set = `delivered_at = ?2, ended_at = ?2, retry_count = ` + retries + `,
		       review_at = CASE WHEN ttl_seconds IS NULL THEN '' ELSE expires_at END`
		if c.Final {
			set = `delivered_at = ?2, ended_at = ?2, retry_count = ` + retries + `, review_at = ''`
		}
		if c.Read {
			set = `delivered_at = ?2, ended_at = ?2, read_at = ?2, review_at = '', retry_count = ` + retries
		}
	case orchestrator.Retry:
		set = `retry_count = ` + retries
	case orchestrator.Pending:
		set = `ended_at = '', delivered_at = NULL, retry_count = 0, crashes = 0, held = 0,
		       read_at = '', review_at = ?2`
	case orchestrator.Failed:
		set = `ended_at = ?2, review_at = '', retry_count = ` + retries
	default:
		set = `ended_at = ?2, review_at = ''`
	}
	return t.Exec(`
		UPDATE agent_message SET status = ?3, traced_status = ?3, `+NoLease+`,
		       next_attempt_at = ?5, error_message = CASE WHEN ?3 IN ('delivered','pending') THEN NULL
		                                                  WHEN ?4 = '' THEN error_message ELSE ?4 END, `+set+`
		WHERE `+rows.Where, rows.Arg, t.Now, c.To, c.Failure, c.Next)
}

// Savepoint runs fn so that a failure of fn undoes only the changes of fn. If err is not nil, the whole request must
// end.
func (t *Tx) Savepoint(fn func() error) (failure, err error) {
	untraced, conf, heartbeats, after := t.created, t.conf, t.heartbeats, t.after
	if failure, err = t.Transaction.Savepoint(fn); failure != nil {
		t.conf, t.created = conf, untraced // fn may have changed the configuration and written events of new rows
		t.heartbeats, t.after = heartbeats, after
	}
	return failure, err
}

// Ended returns an error if nobody waits for the request any more, so that it can stop.
func (t *Tx) Ended() error { return context.Cause(t.Ctx) }

// RowSavepoint runs fn, which changes the row of one message. If fn fails because of that row, for example because a
// trigger aborts or a value is too big, its changes are undone, the failure is logged, and failed is true, so that
// other rows need not wait.
func (t *Tx) RowSavepoint(what, id string, fn func() error) (failed bool, err error) {
	cause, err := t.ChangeRows(fn)
	if err != nil || cause == nil {
		return false, err
	}
	t.Ledger.Log.Error("cannot change a message; it stays unchanged", "doing", what, "message_id", id, "error",
		cause)
	return true, nil
}

// ChangeRows runs fn, which changes rows, with a savepoint. fault is a failure caused by the rows. If err is not nil,
// the failure has another cause, and the whole request must end.
func (t *Tx) ChangeRows(fn func() error) (fault, err error) {
	failure, err := t.Savepoint(fn) // until it is undone, any error fails a server's transaction
	if err == nil && failure != nil && !t.rowsFault(failure) {
		return nil, failure
	}
	return failure, err
}

// rowsFault reports whether a set-based delivery failed because of its rows, and not because of the disk or a lock.
func (t *Tx) rowsFault(err error) bool {
	if t.Broken() {
		return false
	}
	var own *orchestrator.Error
	explained := t.Ledger.Store.Explain(err)
	return store.IsRefused(explained) || !errors.As(explained, &own)
}
