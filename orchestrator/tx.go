package orchestrator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// transaction is what the requests of one write transaction share. There is one clock reading for all of it, taken once
// the write lock is held.
type transaction struct {
	*conn

	// clock is the reading itself: leases and rungs are measured with it, so that a clock set forward and back strands
	// nothing. now is what is stored: never earlier than what was stored last, so that a clock set back reorders nothing.
	clock     time.Time
	clockText string
	now       string
	idTime    uint64 // now, as ids have it

	conf *config

	created created

	careful bool // failures are undone with savepoints
	spoiled bool // a failure has left something behind: all of it must be rolled back
	lost    bool // SQLite has rolled it back, or there was no number left for a row
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
	w   *writer
	ctx context.Context

	// sends says that the request does nothing but send. Then the events of its new rows are written later, together
	// with those of the requests beside it.
	sends bool

	// quiet is set by requests whose caller learns nothing if nothing changed; a batch of such requests skips the sync.
	quiet bool

	actor  string // lease owner and trace actor
	spanID string
	traced bool     // something was written for which the command's span must be there
	ring   ring     // the bell after the commit
	after  []func() // run after the commit

	asUser bool // the request speaks for the user: an answer goes back

	heartbeats []string // agents with a limit to their silence that did something, each once

	removed map[Status]int64 // by retention, for its report
}

// ring is whom to wake after a commit.
type ring struct {
	all   bool
	names []string // recipients, each once
}

// maxNames bounds the recipients that a ring names; with more of them it wakes everybody.
const maxNames = 16

func (r *ring) add(recipients []string) {
	for _, recipient := range recipients {
		if r.all || slices.Contains(r.names, recipient) {
			continue
		}
		if len(r.names) >= maxNames {
			r.all = true
			return
		}
		r.names = append(r.names, recipient)
	}
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

// newTransaction reads the clock, the last time stored, and whether the configuration, and with it the version of the
// tables, is still the one that is known.
func (w *writer) newTransaction(careful bool) (*transaction, error) {
	t := &transaction{conn: w.c, clock: w.r.now(), careful: careful}
	t.clockText = stamp(t.clock)
	t.now, t.idTime = t.clockText, ulid.Timestamp(t.clock)
	var last, version string
	err := w.c.query(`
		SELECT (SELECT at FROM message_trace ORDER BY id DESC LIMIT 1),
		       (SELECT value FROM settings WHERE key = '`+configVersion+`')`, func(row store.Row) error {
		last, version = row.Text(0), row.Text(1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if t.conf = w.r.config.known(version); t.conf == nil {
		if err := w.r.config.admitAt(w.c, version); err != nil {
			return nil, err
		}
	}
	if w.renumber {
		if err := t.renumber(); err != nil {
			return nil, err
		}
	}
	if last <= t.now {
		return t, nil
	}
	if at := parseStamp(last); !at.IsZero() && at.Before(t.clock.Add(maxAhead)) {
		t.now, t.idTime = last, ulid.Timestamp(at)
	}
	return t, nil
}

// forRequest returns the transaction as one request sees it.
func (t *transaction) forRequest(w *writer, q *request) *tx {
	own := &tx{transaction: t, r: w.r, w: w, ctx: q.ctx, sends: q.sends, actor: w.r.instance}
	if instance, ok := q.ctx.Value(instanceKey{}).(string); ok {
		own.actor = instance
	}
	if span := tracing.FromContext(q.ctx); span != nil {
		own.spanID = span.SpanID
		span.Begin(t.clock)
	}
	return own
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
	id, err := ulid.New(t.idTime, t.w.entropy)
	if err != nil {
		t.w.entropy = newEntropy() // the counter of this millisecond ran over
		if id, err = ulid.New(t.idTime, t.w.entropy); err != nil {
			return "", err
		}
	}
	return prefix + id.String(), nil
}

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

// errSpoiled ends a request whose transaction is about to be run again.
var errSpoiled = errors.New("to be run again with savepoints")

// apart runs fn so that its failure undoes what fn has done and nothing else. err ends the request. A transaction's first
// run has no savepoints and hopes for the best, see writer.transaction.
func (t *tx) apart(fn func() error) (failure, err error) {
	if !t.careful {
		before := t.writes
		if failure = fn(); failure != nil && t.writes != before {
			t.spoiled = true
			return failure, errSpoiled
		}
		return failure, nil
	}
	if _, err := t.Exec("SAVEPOINT apart"); err != nil {
		return nil, err
	}
	untraced := t.created
	if failure = fn(); failure != nil {
		if t.raw.AutoCommit() {
			return failure, failure
		}
		t.conf, t.created = nil, untraced // fn may have changed the one and written the events of the other
		if _, err := t.Exec("ROLLBACK TO apart"); err != nil {
			return failure, err
		}
	}
	_, err = t.Exec("RELEASE apart")
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
	if t.raw.AutoCommit() || isBusy(err) {
		return false
	}
	var own *Error
	return !errors.As(databaseError(t.r.path, err), &own)
}
