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

// transaction is what the requests of one write transaction share. There is one clock reading for all of it, taken once
// its locks are held; those that Hold takes later have it read anew.
type transaction struct {
	*store.Transaction

	// Clock is the reading itself: leases and rungs are measured with it, so that a clock set forward and back strands
	// nothing. Now is what is stored: never earlier than what was stored last, so that a clock set back reorders
	// nothing.
	Clock     time.Time
	ClockText string
	Now       string
	idTime    uint64 // Now, as ids have it

	conf *Config

	created created
}

// created are the new rows whose first events are not written yet.
type created struct {
	n      int             // how many there are
	first  int64           // seq of the first of them
	by     string          // actor that made them
	events []tracing.Event // of the first; of all, where others may insert rows at the same time
	full   int64           // seq of the last of them with which it is time to count; 0: it is not
}

// Tx is one request within a write transaction.
type Tx struct {
	*transaction
	Ledger *Ledger
	Ctx    context.Context

	// sends says that the request does nothing but send. Then the events of its new rows are written later, together
	// with those of the requests beside it.
	sends bool

	// Quiet is set by requests whose caller learns nothing if nothing changed; a batch of such requests skips the sync.
	Quiet bool

	Actor  string // lease owner and trace actor
	SpanID string

	AsUser bool // the request speaks for the user: an answer goes back

	ring       store.Ring
	after      []func() // run once the commit is on the disk
	spanned    bool     // see KeepSpan
	wantsAlone bool     // see MustBeAlone
	heartbeats []string // agents with a limit to their silence that did something, each once
}

// maxAhead is how far the last time stored may lie ahead of the clock to be believed. Anybody can write a trace row.
const maxAhead = 3650 * orchestrator.Day

// Begin is called by the store when it begins a write transaction. It reads the clock, the last time stored, and
// whether the configuration or the version of the tables has changed.
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

// ReadClock takes a reading of the clock over.
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

// request is one call of write.
type request struct {
	store.Request
	ledger *Ledger
	fn     func(*Tx) error
	sends  bool
	lazy   bool
	tx     Tx // of the present run
}

// Write runs fn in a write transaction and returns when that is on disk. It may share the transaction with other
// requests: an error of fn undoes what fn did and nothing else. fn may run more than once, so it must set, not add to,
// what it hands out. A context that ends before the request is taken withdraws it, with code busy; afterwards the
// outcome is awaited. An error of fn is returned as it is.
//
// The scope says what nobody else changes while fn runs. What changes the configuration needs more than most scopes,
// and so does what adopts or tidies up: all that fn did is then undone, and it is run again with store.Alone, see
// MustBeAlone.
func (l *Ledger) Write(ctx context.Context, scope store.Scope, fn func(*Tx) error) error {
	return submit(ctx, scope, request{ledger: l, fn: fn})
}

// WriteLazily is Write for a change that a power cut, or a failing server, may undo: it returns without waiting for the
// disk, unless it shares its transaction with requests that do.
func (l *Ledger) WriteLazily(ctx context.Context, scope store.Scope, fn func(*Tx) error) error {
	return submit(ctx, scope, request{ledger: l, fn: fn, lazy: true})
}

// WriteSends is Write for a request that only sends messages. The first events of all sends of a transaction are then
// written with one statement.
func (l *Ledger) WriteSends(ctx context.Context, scope store.Scope, fn func(*Tx) error) error {
	return submit(ctx, scope, request{ledger: l, fn: fn, sends: true})
}

// errNotAlone ends a request that must be alone and is not.
var errNotAlone = errors.New("to be run again alone")

// MustBeAlone returns an error unless nobody else writes until the transaction ends. After that the request ends,
// whatever it returns, is undone, and is run again alone. Call it before a change that only some requests of a wider
// scope come to.
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

// Prepare writes the events of rows that the requests before this one have made, unless it does nothing but send
// itself.
func (q *request) Prepare(under *store.Transaction) error {
	if q.sends {
		return nil
	}
	return q.ledger.End(under)
}

// Run runs fn, and writes who was heard of, and the command's span if the request changed anything.
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
			t.conf, t.created = conf, untraced // what fn did is about to be undone
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

// Lazy reports whether the disk need not be waited for.
func (q *request) Lazy() bool { return q.lazy }

// Rings returns whom to wake.
func (q *request) Rings() *store.Ring { return &q.tx.ring }

// Durable runs what waited for the commit.
func (q *request) Durable() {
	for _, f := range q.tx.after {
		f()
	}
}

// finish writes who was heard of, and the command's span if the request changed anything. It is part of the request.
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

// NewID returns a new id: the prefix and a ULID. Ids are in the order in which they were made, even if the clock was
// set back.
func (t *Tx) NewID(prefix string) (string, error) {
	id, err := ulid.New(t.idTime, t.Ledger.entropy)
	if err != nil {
		t.Ledger.entropy = newEntropy() // the counter of this millisecond ran over
		if id, err = ulid.New(t.idTime, t.Ledger.entropy); err != nil {
			return "", err
		}
	}
	return prefix + id.String(), nil
}

// Wake wakes those who listen for these recipients, once the transaction is committed.
func (t *Tx) Wake(recipients ...string) { t.ring.Add(recipients) }

// WakeAll wakes everybody who listens, once the transaction is committed.
func (t *Tx) WakeAll() { t.ring.All = true }

// AfterCommit calls f once the transaction is on the disk.
func (t *Tx) AfterCommit(f func()) { t.after = append(t.after, f) }

// KeepSpan writes the span of the command with what it has changed. What is traced does so by itself.
func (t *Tx) KeepSpan() { t.spanned = true }

func newEntropy() *ulid.MonotonicEntropy { return ulid.Monotonic(rand.Reader, 0) }

// Event returns an event for the trace, with what all events of this request have in common.
func (t *Tx) Event(name tracing.EventName, failure string) tracing.Event {
	t.KeepSpan()
	return tracing.Event{Name: name, At: t.Now, Actor: t.Actor, SpanID: t.SpanID, Error: failure}
}

// Selection is a set of rows of agent_message: a condition, in which ?1 stands for Arg.
type Selection struct {
	Where string
	Arg   any // nil where the condition has none
}

// InBatch selects the rows whose seq stands in the temporary table batch.
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

// inOrder has the trace tell of rows in the order of sending: a server selects them in any order.
const inOrder = " ORDER BY seq"

// NoteEvent is Note for an event with more details.
func (t *Tx) NoteEvent(rows Selection, e tracing.Event) error {
	return tracing.RecordSet(t, "agent_message WHERE "+rows.Where+inOrder, rows.Arg, "", e)
}

// Change is one change of status.
type Change struct {
	To      orchestrator.Status
	Event   tracing.EventName
	Failure string // goes into the trace, and into error_message if it is not empty
	Detail  string // goes into the trace
	// Next is when a retry is due.
	Next string
	// Attempted says that a delivery attempt ends with this change; if it was a retry, it counts.
	Attempted bool
	// Read says that the recipient has it already, Final that nobody reads it in the table: it cannot expire unread.
	Read, Final bool
}

// ChangeStatus changes the status of messages, writes the events that tell of it into the trace, and ends their leases.
// Every change of status goes through it. It returns the number of rows that it changed. Source: contract, "One
// function makes every change of status".
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

// Savepoint runs fn so that a failure of fn undoes only what fn has done. With err, the whole request must end.
func (t *Tx) Savepoint(fn func() error) (failure, err error) {
	untraced, conf, heartbeats, after := t.created, t.conf, t.heartbeats, t.after
	if failure, err = t.Transaction.Savepoint(fn); failure != nil {
		t.conf, t.created = conf, untraced // fn may have changed the one and written the events of the other
		t.heartbeats, t.after = heartbeats, after
	}
	return failure, err
}

// Ended returns an error if nobody waits for the request any more, so that it need not go on.
func (t *Tx) Ended() error { return context.Cause(t.Ctx) }

// RowSavepoint runs fn, which changes the row of one message. If it fails because of that row (a trigger aborts, a
// value is too big), what fn did is undone and logged, and failed is true: other rows must not wait for it.
func (t *Tx) RowSavepoint(what, id string, fn func() error) (failed bool, err error) {
	cause, err := t.ChangeRows(fn)
	if err != nil || cause == nil {
		return false, err
	}
	t.Ledger.Log.Error("cannot change a message; it stays unchanged", "doing", what, "message_id", id, "error",
		cause)
	return true, nil
}

// ChangeRows is Savepoint for an fn that changes rows. fault is a failure for which the rows are to blame; with any
// other, err, the whole request must end.
func (t *Tx) ChangeRows(fn func() error) (fault, err error) {
	failure, err := t.Savepoint(fn) // until then an error has ended a server's whole transaction, whatever is to blame
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
