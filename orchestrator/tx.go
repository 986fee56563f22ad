package orchestrator

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/oklog/ulid/v2"

	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// transaction is what the requests of one write transaction share. There is one clock reading for all of it, taken once
// the write lock is held.
type transaction struct {
	*Transaction

	// clock is the reading itself: leases and rungs are measured with it, so that a clock set forward and back strands
	// nothing. now is what is stored: never earlier than what was stored last, so that a clock set back reorders nothing.
	clock     time.Time
	clockText string
	now       string
	idTime    uint64 // now, as ids have it

	conf *config

	created created
}

// created are the new rows whose first events are not written yet.
type created struct {
	first int64          // seq of the first of them, 0 when there is none
	by    string         // actor that made them
	only  *tracing.Event // of the first, if it is the only one
}

// tx is one request within a write transaction.
type tx struct {
	*transaction
	r   *Router
	ctx context.Context

	// sends says that the request does nothing but send. Then the events of its new rows are written later, together
	// with those of the requests beside it.
	sends bool

	// quiet is set by requests whose caller learns nothing if nothing changed; a batch of such requests skips the sync.
	quiet bool

	actor  string // lease owner and trace actor
	spanID string
	traced bool     // something was written for which the command's span must be there
	ring   Ring     // the bell after the commit
	after  []func() // run after the commit

	asUser bool // the request speaks for the user: an answer goes back

	heartbeats []string // agents with a limit to their silence that did something, each once

	removed map[Status]int64 // by retention, for its report
}

type instanceKey struct{}

// WithInstance returns a context whose commands appear under another name than the process's own as lease owner and
// trace actor: the ORCHESTRATOR_INSTANCE_ID of one call. "" changes nothing.
func WithInstance(ctx context.Context, instance string) context.Context {
	if instance == "" {
		return ctx
	}
	return context.WithValue(ctx, instanceKey{}, instance)
}

// maxAhead is how far the last time stored may lie ahead of the clock to be believed. Anybody can write a trace row.
const maxAhead = 3650 * day

// Begin begins a write transaction: it reads the clock, the last time stored, and whether the configuration, and with it the version of the tables, is still
// the one that is known.
func (r *Router) Begin(under *Transaction) error {
	t := &transaction{Transaction: under, clock: r.now()}
	under.Shared = t
	t.clockText = stamp(t.clock)
	t.now, t.idTime = t.clockText, ulid.Timestamp(t.clock)
	var last, version string
	err := t.query(`
		SELECT (SELECT at FROM message_trace ORDER BY id DESC LIMIT 1),
		       (SELECT value FROM settings WHERE key = '`+configVersion+`')`, func(row store.Row) error {
		last, version = row.Text(0), row.Text(1)
		return nil
	})
	if err != nil {
		return err
	}
	if t.conf = r.config.known(version); t.conf == nil {
		if err := r.config.admitAt(t.Conn, version); err != nil {
			return err
		}
	}
	if last <= t.now {
		return nil
	}
	if at := parseStamp(last); !at.IsZero() && at.Before(t.clock.Add(maxAhead)) {
		t.now, t.idTime = last, ulid.Timestamp(at)
	}
	return nil
}

// End writes the events of new rows that are not written yet, before the transaction is committed.
func (r *Router) End(under *Transaction) error { return under.Shared.(*transaction).traceCreated() }

// request is one call of write.
type request struct {
	Request
	r     *Router
	fn    func(*tx) error
	sends bool
	tx    tx // of the present run
}

// write runs fn in a write transaction and returns when that is on disk. It may share the transaction with other
// requests: an error of fn undoes what fn did and nothing else. fn may run more than once, so it must set, not add to,
// what it hands out. A context that ends before the request is taken withdraws it, with code busy; afterwards the
// outcome is awaited. An error of fn is returned as it is.
func (r *Router) write(ctx context.Context, fn func(*tx) error) error {
	return r.submit(ctx, &request{r: r, fn: fn})
}

// writeSends is write for a request that does nothing but send messages.
func (r *Router) writeSends(ctx context.Context, fn func(*tx) error) error {
	return r.submit(ctx, &request{r: r, fn: fn, sends: true})
}

func (r *Router) submit(ctx context.Context, q *request) error {
	q.Ctx, q.Work = ctx, q
	return r.store.Write(&q.Request)
}

// Prepare writes the events of rows that the requests before this one have made, unless it does nothing but send itself.
func (q *request) Prepare(under *Transaction) error {
	if q.sends {
		return nil
	}
	return q.r.End(under)
}

// Run runs fn, and writes who was heard of, and the command's span if the request changed anything.
func (q *request) Run(under *Transaction) error {
	t := &q.tx
	*t = tx{transaction: under.Shared.(*transaction), r: q.r, ctx: q.Ctx, sends: q.sends, actor: q.r.instance}
	if instance, ok := q.Ctx.Value(instanceKey{}).(string); ok {
		t.actor = instance
	}
	if span := tracing.FromContext(q.Ctx); span != nil {
		t.spanID = span.SpanID
		span.Begin(t.clock)
	}
	untraced, done := t.created, false
	defer func() {
		if !done {
			t.conf, t.created = nil, untraced // what fn did is about to be undone
		}
	}()
	err := q.fn(t)
	if err == nil {
		err = t.finish()
	}
	done = err == nil
	return err
}

// Quiet reports whether the caller learns nothing if nothing changed.
func (q *request) Quiet() bool { return q.tx.quiet }

// Rings returns whom to wake.
func (q *request) Rings() *Ring { return &q.tx.ring }

// Durable runs what waited for the commit.
func (q *request) Durable() {
	for _, f := range q.tx.after {
		f()
	}
}

// finish writes who was heard of, and the command's span if the request changed anything. It is part of the request.
func (t *tx) finish() error {
	if err := t.storeHeartbeats(); err != nil {
		return err
	}
	span := tracing.FromContext(t.ctx)
	if span == nil || !t.traced {
		return nil
	}
	t.after = append(t.after, span.MarkSaved)
	return span.Save(t, t.clock, t.actor, "")
}

// newID makes an id: the prefix and a ULID that is greater than all made before by this process, also when the clock was
// set back. The write lock is held, so that ids sort in the order of sending.
func (t *tx) newID(prefix string) (string, error) {
	id, err := ulid.New(t.idTime, t.r.entropy)
	if err != nil {
		t.r.entropy = newEntropy() // the counter of this millisecond ran over
		if id, err = ulid.New(t.idTime, t.r.entropy); err != nil {
			return "", err
		}
	}
	return prefix + id.String(), nil
}

func newEntropy() *ulid.MonotonicEntropy { return ulid.Monotonic(rand.Reader, 0) }

// event fills in what all events of this request share.
func (t *tx) event(name tracing.EventName, failure string) tracing.Event {
	t.traced = true
	return tracing.Event{Name: name, At: t.now, Actor: t.actor, SpanID: t.spanID, Error: failure}
}

// selection is a set of rows of agent_message: a condition, in which ?8 stands for arg if there is one.
type selection struct {
	where string
	args  []any
}

// inBatch selects the rows whose seq stands in the temporary table batch.
var inBatch = selection{where: "seq IN (SELECT seq FROM temp.batch)"}

// bySeq selects one row.
func bySeq(seq int64) selection { return selection{"seq = ?8", []any{seq}} }

// note records an event that leaves the status of the rows as it is.
func (t *tx) note(rows selection, name tracing.EventName, failure string) error {
	return t.noteEvent(rows, t.event(name, failure))
}

// noteEvent is note for an event that has more to say.
func (t *tx) noteEvent(rows selection, e tracing.Event) error {
	return tracing.RecordSet(t, "agent_message WHERE "+rows.where, "", e, rows.args...)
}

// change is one change of status.
type change struct {
	to      Status
	event   tracing.EventName
	failure string // goes into the trace, and into error_message if it is not empty
	detail  string // goes into the trace
	// next is when a retry is due.
	next string
	// attempted says that a delivery attempt ends with this change; if it was a retry, it counts.
	attempted bool
	// read says that the recipient has it already, final that nobody reads it in the table: it cannot expire unread.
	read, final bool
}

// changeStatus makes every change of status there is, and writes the trace rows that tell of it, in this transaction.
// It ends a lease, and keeps the columns that only mean something in a certain status. It returns how many rows there
// were. Source: contract, "One function makes every change of status".
func (t *tx) changeStatus(rows selection, c change) (int64, error) {
	event := t.event(c.event, c.failure)
	event.Detail = c.detail
	if err := tracing.RecordSet(t, "agent_message WHERE "+rows.where, string(c.to), event, rows.args...); err != nil {
		return 0, err
	}
	retries := "retry_count"
	if c.attempted {
		retries = "retry_count + CASE status WHEN 'retry' THEN 1 ELSE 0 END"
	}
	var set string
	switch c.to {
	case Delivered:
		set = `delivered_at = ?1, ended_at = ?1, retry_count = ` + retries + `,
		       review_at = CASE WHEN ttl_seconds IS NULL THEN '' ELSE expires_at END`
		if c.final {
			set = `delivered_at = ?1, ended_at = ?1, retry_count = ` + retries + `, review_at = ''`
		}
		if c.read {
			set = `delivered_at = ?1, ended_at = ?1, read_at = ?1, review_at = '', retry_count = ` + retries
		}
	case Retry:
		set = `retry_count = ` + retries
	case Pending:
		set = `ended_at = '', delivered_at = NULL, retry_count = 0, crashes = 0, held = 0,
		       read_at = '', review_at = ?1`
	case Failed:
		set = `ended_at = ?1, review_at = '', retry_count = ` + retries
	default:
		set = `ended_at = ?1, review_at = ''`
	}
	args := []any{t.now, c.to, c.failure, c.next}
	if len(rows.args) > 0 {
		args = append(append(args, nil, nil, nil), rows.args...) // those of the condition begin at ?8
	}
	return t.Exec(`
		UPDATE agent_message SET status = ?2, traced_status = ?2, `+noLease+`,
		       next_attempt_at = ?4, error_message = CASE WHEN ?2 IN ('delivered','pending') THEN NULL
		                                                  WHEN ?3 = '' THEN error_message ELSE ?3 END, `+set+`
		WHERE `+rows.where, args...)
}

// apart runs fn so that its failure undoes what fn has done and nothing else. err ends the request.
func (t *tx) apart(fn func() error) (failure, err error) {
	untraced := t.created
	if failure, err = t.Transaction.apart(fn); failure != nil {
		t.conf, t.created = nil, untraced // fn may have changed the one and written the events of the other
	}
	return failure, err
}

// ended is why the request need not go on, since nobody waits for it any more; nil as long as somebody does.
func (t *tx) ended() error { return context.Cause(t.ctx) }

// alone runs fn for one row. A failure that is the row's own fault (a trigger that aborts, a value that is too big)
// undoes what fn did and is logged: it must not hold back other rows. failed reports that.
func (t *tx) alone(what, id string, fn func() error) (failed bool, err error) {
	cause, err := t.changeRows(fn)
	if err != nil || cause == nil {
		return false, err
	}
	t.r.log.Error("a message cannot be changed and is left as it is", "doing", what, "message_id", id, "error", cause)
	return true, nil
}

// setBatch fills the temporary table batch.
func (t *tx) setBatch(seqs ...int64) error {
	if _, err := t.Exec(`DELETE FROM temp.batch`); err != nil {
		return err
	}
	for _, seq := range seqs {
		if _, err := t.Exec(`INSERT INTO temp.batch (seq) VALUES (?)`, seq); err != nil {
			return err
		}
	}
	return nil
}

// changeRows is apart for fn that changes rows: fault is a failure that lies in them. Any other ends the request.
func (t *tx) changeRows(fn func() error) (fault, err error) {
	isFault := false
	failure, err := t.apart(func() error {
		err := fn()
		isFault = err != nil && t.rowsFault(err)
		return err
	})
	if err == nil && !isFault {
		return nil, failure
	}
	return failure, err
}

// rowsFault reports whether a set-based delivery failed because of its rows, and not because of the disk or a lock.
func (t *tx) rowsFault(err error) bool {
	if t.Broken() {
		return false
	}
	var own *Error
	return !errors.As(t.r.store.Explain(err), &own)
}
