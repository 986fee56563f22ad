package traffic

import (
	"encoding/json"
	"maps"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Counts holds numbers of events of messages in one period.
type Counts struct {
	Sent           int64 `json:"sent"`
	Delivered      int64 `json:"delivered"`
	Read           int64 `json:"read"`
	AttemptsFailed int64 `json:"attempts_failed"`
	Failed         int64 `json:"failed"`
	Expired        int64 `json:"expired"`
	Cancelled      int64 `json:"cancelled"`
	// Wrote counts messages sent by the agent itself: one for each recipient, and one for the thread of a post.
	Wrote int64 `json:"wrote"`
}

func (c *Counts) add(o *Counts) {
	c.Sent += o.Sent
	c.Delivered += o.Delivered
	c.Read += o.Read
	c.AttemptsFailed += o.AttemptsFailed
	c.Failed += o.Failed
	c.Expired += o.Expired
	c.Cancelled += o.Cancelled
	c.Wrote += o.Wrote
}

// row holds the contents of one row of the table traffic.
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

type key struct{ span, at, recipient string } // a sender is the recipient of the row that counts what it wrote

// fold holds counts that are not stored yet.
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
	status        orchestrator.Status // status of the message after the event
}

// life is what is known about a message before an event.
type life struct {
	sender    string
	recipient string // "" for a message that is not counted, such as a test message
	notBefore string
	due       string // when its first delivery was due, since it was sent or replayed
	attempted string // when the first attempt since then began; "" if there was none
	delivered string
}

// foldAfter counts the events in the rows of message_trace after from, up to upTo and at most limit of them. to is
// the id of the last row counted.
func foldAfter(c *store.Conn, from, upTo, limit int64) (f fold, to int64, err error) {
	f = fold{}
	lives, gone := map[string]*life{}, false
	events, err := store.List(c, func(r store.Row) event {
		e := event{r.Int(0), r.Text(1), r.Text(2), tracing.EventName(r.Text(3)), orchestrator.Status(r.Text(4))}
		if r[5] == nil {
			gone = true
		} else if lives[e.messageID] == nil {
			lives[e.messageID] = lifeOf(r[5:])
		}
		return e
	}, `SELECT e.id, e.message_id, e.at, e.event, e.new_status, m.sender, m.recipient, m.message_type, m.created_at,
		       m.not_before, m.delivered_at
		  FROM message_trace AS e LEFT JOIN agent_message AS m ON m.message_id = e.message_id
		 WHERE e.id > ?1 AND e.id <= ?2 ORDER BY e.id LIMIT +?3`, from, upTo, limit)
	if err != nil || len(events) == 0 {
		return f, from, err
	}
	to = events[len(events)-1].id
	if gone {
		err = addGone(c, lives, from, to)
	}
	if err == nil && !isKnown(events, lives) {
		err = addBefore(c, lives, from, to)
	}
	if err != nil {
		return f, from, err
	}
	var in moment
	for i := range events {
		l := lives[events[i].messageID]
		l.add(&events[i])
		f.count(&events[i], l, &in)
	}
	return f, to, nil
}

// addGone adds the lives of messages that are no longer in agent_message. The rows of message_trace after from, up to
// and including to, name the messages. Their lives come from the archive, or from the traces of their deletion.
func addGone(c *store.Conn, lives map[string]*life, from, to int64) error {
	return c.Query(`
		SELECT a.sender, a.recipient, a.message_type, a.created_at, a.not_before, a.delivered_at,
		       CASE WHEN a.message_id IS NULL THEN (SELECT d.detail FROM message_trace AS d WHERE d.message_id = of.message_id AND d.event = 'deleted' LIMIT 1) END,
		       of.message_id
		  FROM (SELECT DISTINCT message_id FROM message_trace WHERE id > ?1 AND id <= ?2) AS of
		       LEFT JOIN agent_message AS m ON m.message_id = of.message_id
		       LEFT JOIN agent_message_archive AS a ON a.message_id = of.message_id
		 WHERE m.message_id IS NULL`, func(r store.Row) error {
		l := lifeOf(r)
		if detail := r.Text(6); detail != "" {
			var m struct {
				Sender, Recipient string
				Type              string `json:"message_type"`
			}
			if json.Unmarshal([]byte(detail), &m) == nil { // otherwise another program wrote the row
				l.sender, l.recipient = who(m.Sender, m.Recipient, m.Type)
			}
		}
		lives[r.Text(7)] = l
		return nil
	}, from, to)
}

// isKnown reports whether the counting needs no earlier events: it needs to know when a delivered message was sent,
// and when a read message was delivered.
func isKnown(events []event, lives map[string]*life) bool {
	begun, delivered := map[string]bool{}, map[string]bool{}
	for i := range events {
		switch e := &events[i]; e.name {
		case tracing.Created, tracing.Replayed:
			begun[e.messageID] = true
		case tracing.Delivered:
			if !begun[e.messageID] {
				return false
			}
			delivered[e.messageID] = true
		case tracing.Read:
			if lives[e.messageID].delivered == "" && !delivered[e.messageID] {
				return false
			}
		}
	}
	return true
}

// addBefore adds the earlier events of the messages that are delivered or read in the rows to be counted. A message
// with many retries has many earlier events, and they are read only once.
//
// The outer join is for PostgreSQL: with it, the plan begins with the batch, whatever the table statistics are. The
// expression e.id + 0 keeps PostgreSQL from walking through all ids for each message.
func addBefore(c *store.Conn, lives map[string]*life, from, to int64) error {
	return c.Query(`
		SELECT of.message_id, e.at, e.event
		  FROM (SELECT DISTINCT message_id FROM message_trace WHERE id > ?1 AND id <= ?2 AND event IN ('delivered','read')) AS of
		       LEFT JOIN message_trace AS e ON e.message_id = of.message_id AND e.id + 0 <= ?1
		 ORDER BY e.id`, func(r store.Row) error {
		lives[r.Text(0)].add(&event{at: r.Text(1), name: tracing.EventName(r.Text(2))})
		return nil
	}, from, to)
}

// lifeOf makes a life from the columns sender, recipient, message_type, created_at, not_before and delivered_at.
func lifeOf(r store.Row) *life {
	l := &life{due: max(r.Text(3), r.Text(4)), notBefore: r.Text(4), delivered: r.Text(5)}
	l.sender, l.recipient = who(r.Text(0), r.Text(1), r.Text(2))
	return l
}

// who returns the names under which a message is counted. The recipient is "" for a message that is not counted.
func who(sender, recipient, kind string) (string, string) {
	if kind == orchestrator.TestMessage {
		recipient = ""
	}
	return bounded(sender), bounded(recipient)
}

// maxName is the maximum length, in bytes, of a name under which events are counted. Adoption limits hand-written
// names to the same length. The index of the table in PostgreSQL accepts a few thousand bytes at most, and would refuse
// all counts of a batch because of one longer name.
const maxName = 255

// bounded shortens a name that was written by hand after adoption, or into the trace.
func bounded(name string) string {
	if len(name) > maxName {
		return strings.ToValidUTF8(name[:maxName], "")
	}
	return name
}

// add updates the life of a message by an event.
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

// spans lists the periods by which events are counted.
var spans = [...]struct {
	name   string
	length time.Duration
}{{minute, time.Minute}, {hour, time.Hour}}

// moment is a time, and the beginnings of the spans that contain it. Many events share a minute.
type moment struct {
	time.Time
	minute time.Time
	begin  [len(spans)]string // for each element of spans
}

// set sets m to the time of stamp. It reports whether stamp is a time.
func (m *moment) set(stamp string) bool {
	m.Time = orchestrator.ParseStamp(stamp)
	if minute := m.Truncate(time.Minute); minute != m.minute {
		m.minute = minute
		for i, span := range spans {
			m.begin[i] = orchestrator.Stamp(m.Truncate(span.length))
		}
	}
	return !m.IsZero()
}

// count counts an event of a message. It sets in to the time of the event.
func (f fold) count(e *event, l *life, in *moment) {
	if l.recipient == "" || !in.set(e.at) {
		return // or the time is invalid, because it was written by hand
	}
	for i, span := range spans {
		k := key{span.name, in.begin[i], l.recipient}
		if e.name == tracing.Created && l.sender != "" {
			f.row(key{k.span, k.at, l.sender}).Wrote++
		}
		if strings.HasPrefix(l.recipient, orchestrator.ThreadPrefix) {
			continue // a thread's own row of a post
		}
		switch e.name {
		case tracing.Created:
			f.row(k).Sent++
			if e.status == orchestrator.Failed { // no agent has the recipient's name
				f.row(k).Failed++
			}
		case tracing.Delivered:
			r := f.row(k)
			r.Delivered++
			began := in.Time
			if l.attempted != "" {
				began = orchestrator.ParseStamp(l.attempted)
			}
			due := orchestrator.ParseStamp(l.due)
			took(&r.queued, due, began)
			took(&r.delivered, due, in.Time)
		case tracing.Read:
			r := f.row(k)
			r.Read++
			if l.delivered <= e.at { // the message may have been delivered again since
				took(&r.read, orchestrator.ParseStamp(l.delivered), in.Time)
			}
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

// took adds the time from one point to another to a histogram. It does nothing if one of them is zero.
func took(h *histogram, from, to time.Time) {
	if !from.IsZero() && !to.IsZero() {
		h.add(bucketOf(to.Sub(from)), 1)
	}
}

// save adds the counts to the table.
func (f fold) save(t *ledger.Tx) error {
	stored, err := f.stored(t.Conn)
	if err != nil {
		return err
	}
	for k, r := range f {
		sum := *r
		if s := stored[k]; s != nil {
			sum.add(s)
		}
		if err := t.Run(`
			INSERT INTO traffic (span, at, recipient, sent, delivered, read, attempts_failed, failed, expired,
				cancelled, wrote, queued_ms, delivered_ms, read_ms)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
			ON CONFLICT (span, at, recipient) DO UPDATE SET sent = excluded.sent, delivered = excluded.delivered,
				read = excluded.read,
			    attempts_failed = excluded.attempts_failed, failed = excluded.failed, expired = excluded.expired,
			    	cancelled = excluded.cancelled, wrote = excluded.wrote,
			    queued_ms = excluded.queued_ms, delivered_ms = excluded.delivered_ms, read_ms = excluded.read_ms`,
			k.span, k.at, k.recipient, sum.Sent, sum.Delivered, sum.Read, sum.AttemptsFailed, sum.Failed, sum.Expired,
			sum.Cancelled, sum.Wrote,
			sum.queued.text(), sum.delivered.text(), sum.read.text()); err != nil {
			return err
		}
	}
	return nil
}

// stored reads the rows to which the counts are added, all rows of an interval at once.
func (f fold) stored(c *store.Conn) (fold, error) {
	all, asked := fold{}, map[key]bool{}
	for k := range f {
		of := key{span: k.span, at: k.at}
		if asked[of] {
			continue
		}
		asked[of] = true
		rows, err := rowsOf(c, `WHERE span = ?1 AND at = ?2`, k.span, k.at)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, rows)
	}
	return all, nil
}

// mostCounted is the largest number that is accepted from a row, because a row may have been changed by hand. Sums of
// such numbers neither overflow nor have more digits than JavaScript can represent.
const mostCounted = 1 << 40

// rowsOf reads rows of the table.
func rowsOf(c *store.Conn, where string, args ...any) (fold, error) {
	f := fold{}
	err := c.Query(`
		SELECT span, at, recipient, sent, delivered, read, attempts_failed, failed, expired, cancelled, wrote,
			queued_ms, delivered_ms, read_ms
		FROM traffic `+where, func(r store.Row) error {
		n := func(column int) int64 { return min(max(r.Int(column), 0), mostCounted) }
		f[key{r.Text(0), r.Text(1), r.Text(2)}] = &row{
			Counts: Counts{Sent: n(3), Delivered: n(4), Read: n(5), AttemptsFailed: n(6), Failed: n(7), Expired: n(8),
				Cancelled: n(9), Wrote: n(10)},
			queued: parse(r.Text(11)), delivered: parse(r.Text(12)), read: parse(r.Text(13)),
		}
		return nil
	}, args...)
	return f, err
}
