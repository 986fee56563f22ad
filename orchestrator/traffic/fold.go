package traffic

import (
	"encoding/json"
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

// event is a row of message_trace, and what it takes of its message to count it.
type event struct {
	id           int64
	messageID    string
	at           string
	name         tracing.EventName
	known        bool // it is of a message
	recipient    string
	due          string // when that was to be delivered first
	deliveredAt  string
	firstAttempt string // when the first attempt began, "" if that was the delivery
}

// foldAfter counts the events of the rows of message_trace after one, at most limit. to is the last of them.
func foldAfter(c *store.Conn, from, limit int64) (f fold, to int64, err error) {
	f, to = fold{}, from
	var events []event
	err = c.Query(`
		SELECT e.id, e.message_id, e.at, e.event, coalesce(m.recipient, a.recipient), coalesce(m.created_at, a.created_at, ''),
		       coalesce(m.not_before, a.not_before, ''), coalesce(m.delivered_at, a.delivered_at, ''),
		       CASE e.event WHEN 'delivered' THEN (SELECT min(c.at) FROM message_trace c WHERE c.message_id = e.message_id
		            AND c.event IN ('claimed','attempt_failed') AND c.id < e.id) END
		FROM message_trace e LEFT JOIN agent_message m ON m.message_id = e.message_id
		LEFT JOIN agent_message_archive a ON a.message_id = e.message_id AND m.message_id IS NULL
		WHERE e.id > ?1 ORDER BY e.id LIMIT +?2`, func(r store.Row) error {
		e := event{
			id: r.Int(0), messageID: r.Text(1), at: r.Text(2), name: tracing.EventName(r.Text(3)), known: r[4] != nil, recipient: r.Text(4),
			due: max(r.Text(5), r.Text(6)), deliveredAt: r.Text(7), firstAttempt: r.Text(8),
		}
		if e.id != to { // an id that was used again by hand is twice in the archive
			events = append(events, e)
		}
		to = e.id
		return nil
	}, from, limit)
	if err != nil {
		return nil, from, err
	}
	for i := range events {
		e := &events[i]
		if !e.known {
			if err := e.look(c); err != nil {
				return nil, from, err
			}
		}
		if e.known {
			f.count(e)
		}
	}
	return f, to, nil
}

// look finds out from its trace what is known of a message that was deleted. What is no message, such as a question, stays
// unknown.
func (e *event) look(c *store.Conn) error {
	return c.Query(`SELECT event, at, detail FROM message_trace WHERE message_id = ?1 AND event IN ('created','delivered','deleted') ORDER BY id`, func(r store.Row) error {
		switch tracing.EventName(r.Text(0)) {
		case tracing.Created:
			e.due = r.Text(1)
		case tracing.Delivered:
			e.deliveredAt = r.Text(1)
		case tracing.Deleted:
			var of struct{ Recipient string }
			if json.Unmarshal([]byte(r.Text(2)), &of) == nil && of.Recipient != "" {
				e.recipient, e.known = of.Recipient, true
			}
		}
		return nil
	}, e.messageID)
}

// count counts one event.
func (f fold) count(e *event) {
	at := orchestrator.ParseStamp(e.at)
	if at.IsZero() || strings.HasPrefix(e.recipient, orchestrator.ThreadPrefix) {
		return // a time written by hand, or a thread's own row of a post
	}
	for span, d := range map[string]time.Duration{minute: time.Minute, hour: time.Hour} {
		k := key{span, orchestrator.Stamp(at.Truncate(d)), e.recipient}
		switch e.name {
		case tracing.Created:
			f.row(k).Sent++
		case tracing.Delivered:
			r := f.row(k)
			r.Delivered++
			first := e.at
			if e.firstAttempt != "" {
				first = e.firstAttempt
			}
			took(&r.queued, e.due, first)
			took(&r.delivered, e.due, e.at)
		case tracing.Read:
			r := f.row(k)
			r.Read++
			took(&r.read, e.deliveredAt, e.at)
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
