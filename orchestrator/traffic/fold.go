package traffic

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Counts are of what happened to messages in some time.
type Counts struct {
	Sent           int64 `json:"sent"`
	Delivered      int64 `json:"delivered"`
	Read           int64 `json:"read"`
	AttemptsFailed int64 `json:"attempts_failed"`
	Failed         int64 `json:"failed"`
	Expired        int64 `json:"expired"`
	Cancelled      int64 `json:"cancelled"`
}

func (c *Counts) add(o *Counts) {
	c.Sent += o.Sent
	c.Delivered += o.Delivered
	c.Read += o.Read
	c.AttemptsFailed += o.AttemptsFailed
	c.Failed += o.Failed
	c.Expired += o.Expired
	c.Cancelled += o.Cancelled
}

// row is what a row of the table traffic counts.
type row struct {
	Counts
	queued, delivered, read histogram
}

func (r *row) add(o *row) {
	r.Counts.add(&o.Counts)
	r.queued.addAll(o.queued)
	r.delivered.addAll(o.delivered)
	r.read.addAll(o.read)
}

type key struct{ span, at, recipient string }

// fold is counts that are not stored yet.
type fold map[key]*row

func (f fold) row(k key) *row {
	r := f[k]
	if r == nil {
		r = &row{}
		f[k] = r
	}
	return r
}

func (f fold) addAll(o fold) {
	for k, r := range o {
		f.row(k).add(r)
	}
}

// event is a row of message_trace.
type event struct {
	id            int64
	messageID, at string
	name          tracing.EventName
	status        orchestrator.Status // from then on
	message       *message            // nil for one that is not in agent_message any more
}

// message is what counts of a message, beside its events.
type message struct {
	recipient, kind, createdAt, notBefore string
}

// life begins what is known of a message.
func (m *message) life() *life {
	l := &life{due: max(m.createdAt, m.notBefore), notBefore: m.notBefore}
	if m.kind != orchestrator.TestMessage {
		l.recipient = m.recipient
	}
	return l
}

// life is what is known of a message before an event.
type life struct {
	recipient string // "" says that it is none to count: a question, or a test message
	notBefore string
	due       string // when it was to be delivered first, since it was sent or replayed
	attempted string // when the first attempt since then began; "" is none
	delivered string
}

// foldAfter counts the events of the rows of message_trace after one, up to another and at most limit. to is the last of them.
func foldAfter(c *store.Conn, from, upTo, limit int64) (f fold, to int64, err error) {
	events, err := store.List(c, func(r store.Row) event {
		e := event{id: r.Int(0), messageID: r.Text(1), at: r.Text(2), name: tracing.EventName(r.Text(3)), status: orchestrator.Status(r.Text(4))}
		if r[5] != nil {
			e.message = &message{r.Text(5), r.Text(6), r.Text(7), r.Text(8)}
		}
		return e
	}, `
		SELECT e.id, e.message_id, e.at, e.event, e.new_status, m.recipient, m.message_type, m.created_at, m.not_before
		FROM message_trace e LEFT JOIN agent_message m ON m.message_id = e.message_id
		WHERE e.id > ?1 AND e.id <= ?2 ORDER BY e.id LIMIT +?3`, from, upTo, limit)
	f, to = fold{}, from
	lives := map[string]*life{}
	for i := range events {
		e := &events[i]
		l := lives[e.messageID]
		if l == nil {
			if l, err = lifeBefore(c, e); err != nil {
				return nil, from, err
			}
			lives[e.messageID] = l
		}
		l.add(e)
		f.count(e, l)
		to = e.id
	}
	return f, to, err
}

// maxEvents is how many of the last events of a message are looked at for its deliveries: what one is tried again and again has
// more, and would be read again with each.
const maxEvents = 1000

// lifeBefore finds out what is known of the message of an event, from its row, which may be in the archive, or from the trace of
// its deletion, and from the events before that one.
func lifeBefore(c *store.Conn, e *event) (l *life, err error) {
	m := e.message
	if m == nil {
		if m, err = gone(c, e.messageID); err != nil {
			return nil, err
		}
	}
	if l = m.life(); l.recipient == "" || e.name == tracing.Created {
		return l, nil
	}
	before, err := store.List(c, func(r store.Row) event {
		return event{at: r.Text(0), name: tracing.EventName(r.Text(1))}
	}, `SELECT at, event FROM message_trace WHERE message_id = ?1 AND id < ?2 ORDER BY id DESC LIMIT +?3`, e.messageID, e.id, maxEvents)
	for i := range slices.Backward(before) {
		l.add(&before[i])
	}
	return l, err
}

// gone finds a message in the archive, or what the trace of its deletion says of it.
func gone(c *store.Conn, id string) (*message, error) {
	m := &message{}
	err := c.Query(`
		SELECT recipient, message_type, created_at, not_before, '' FROM agent_message_archive WHERE message_id = ?1
		UNION ALL SELECT '', '', '', '', detail FROM message_trace WHERE message_id = ?1 AND event = 'deleted' LIMIT 1`, func(r store.Row) error {
		*m = message{r.Text(0), r.Text(1), r.Text(2), r.Text(3)}
		told := struct {
			Recipient string
			Type      string `json:"message_type"`
		}{}
		if detail := r.Text(4); detail != "" && json.Unmarshal([]byte(detail), &told) == nil { // otherwise it was written by hand
			m.recipient, m.kind = told.Recipient, told.Type
		}
		return nil
	}, id)
	return m, err
}

// add adds an event to what is known.
func (l *life) add(e *event) {
	switch e.name {
	case tracing.Created, tracing.Replayed:
		l.due, l.attempted = max(e.at, l.notBefore), ""
	case tracing.Claimed, tracing.AttemptFailed:
		if l.attempted == "" {
			l.attempted = e.at
		}
	case tracing.Delivered:
		l.delivered = e.at
	}
}

// count counts an event of a message.
func (f fold) count(e *event, l *life) {
	at := orchestrator.ParseStamp(e.at)
	if at.IsZero() || l.recipient == "" || strings.HasPrefix(l.recipient, orchestrator.ThreadPrefix) {
		return // a time written by hand, or a thread's own row of a post
	}
	for span, d := range map[string]time.Duration{minute: time.Minute, hour: time.Hour} {
		k := key{span, orchestrator.Stamp(at.Truncate(d)), l.recipient}
		switch e.name {
		case tracing.Created:
			f.row(k).Sent++
			if e.status == orchestrator.Failed { // nobody has the name
				f.row(k).Failed++
			}
		case tracing.Delivered:
			r := f.row(k)
			r.Delivered++
			took(&r.queued, l.due, cmp.Or(l.attempted, e.at))
			took(&r.delivered, l.due, e.at)
		case tracing.Read:
			r := f.row(k)
			r.Read++
			took(&r.read, l.delivered, e.at)
		case tracing.AttemptFailed:
			f.row(k).AttemptsFailed++
		case tracing.Failed:
			f.row(k).Failed++
		case tracing.Expired:
			f.row(k).Expired++
		case tracing.Cancelled:
			f.row(k).Cancelled++
		}
	}
}

// took adds the time between two stamps to a histogram; nothing if one is none.
func took(h *histogram, from, to string) {
	a, b := orchestrator.ParseStamp(from), orchestrator.ParseStamp(to)
	if !a.IsZero() && !b.IsZero() {
		h.add(bucketOf(b.Sub(a)), 1)
	}
}

// save adds the counts to the table.
func (f fold) save(t *ledger.Tx) error {
	for k, r := range f {
		stored, err := rowsOf(t.Conn, `WHERE span = ?1 AND at = ?2 AND recipient = ?3`, k.span, k.at, k.recipient)
		if err != nil {
			return err
		}
		sum := *r
		if s := stored[k]; s != nil {
			sum.add(s)
		}
		if err := t.Run(`
			INSERT INTO traffic (span, at, recipient, sent, delivered, read, attempts_failed, failed, expired, cancelled, queued_ms, delivered_ms, read_ms)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
			ON CONFLICT (span, at, recipient) DO UPDATE SET sent = excluded.sent, delivered = excluded.delivered, read = excluded.read,
			    attempts_failed = excluded.attempts_failed, failed = excluded.failed, expired = excluded.expired, cancelled = excluded.cancelled,
			    queued_ms = excluded.queued_ms, delivered_ms = excluded.delivered_ms, read_ms = excluded.read_ms`,
			k.span, k.at, k.recipient, sum.Sent, sum.Delivered, sum.Read, sum.AttemptsFailed, sum.Failed, sum.Expired, sum.Cancelled,
			sum.queued.text(), sum.delivered.text(), sum.read.text()); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf reads rows of the table.
func rowsOf(c *store.Conn, where string, args ...any) (fold, error) {
	f := fold{}
	err := c.Query(`
		SELECT span, at, recipient, sent, delivered, read, attempts_failed, failed, expired, cancelled, queued_ms, delivered_ms, read_ms
		FROM traffic `+where, func(r store.Row) error {
		f[key{r.Text(0), r.Text(1), r.Text(2)}] = &row{
			Counts: Counts{Sent: r.Int(3), Delivered: r.Int(4), Read: r.Int(5), AttemptsFailed: r.Int(6), Failed: r.Int(7), Expired: r.Int(8), Cancelled: r.Int(9)},
			queued: parse(r.Text(10)), delivered: parse(r.Text(11)), read: parse(r.Text(12)),
		}
		return nil
	}, args...)
	return f, err
}
