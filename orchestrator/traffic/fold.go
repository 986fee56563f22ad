package traffic

import (
	"cmp"
	"encoding/json"
	"maps"
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
	// sent by the agent itself: one for each recipient, and for the thread of a post
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

type key struct{ span, at, recipient string } // whoever wrote is the recipient of the row that says so

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
}

// life is what is known of a message before an event.
type life struct {
	sender    string
	recipient string // "" says that it is none to count: a question, or a test message
	notBefore string
	due       string // when it was to be delivered first, since it was sent or replayed
	attempted string // when the first attempt since then began; "" is none
	delivered string
}

// foldAfter counts the events of the rows of message_trace after one, up to another and at most limit. to is the last
// of them.
func foldAfter(c *store.Conn, from, upTo, limit int64) (f fold, to int64, err error) {
	events, err := store.List(c, func(r store.Row) event {
		return event{r.Int(0), r.Text(1), r.Text(2), tracing.EventName(r.Text(3)), orchestrator.Status(r.Text(4))}
	}, `SELECT id, message_id, at, event, new_status FROM message_trace WHERE id > ?1 AND id <= ?2 ORDER BY id
		LIMIT +?3`, from, upTo, limit)
	f = fold{}
	if err != nil || len(events) == 0 {
		return f, from, err
	}
	to = events[len(events)-1].id
	lives, err := livesBefore(c, events, from, to)
	if err != nil {
		return f, from, err
	}
	for i := range events {
		l := lives[events[i].messageID]
		l.add(&events[i])
		f.count(&events[i], l)
	}
	return f, to, nil
}

// batchOf is the messages of the rows of message_trace after ?1 up to ?2.
const batchOf = `WITH of AS (SELECT DISTINCT message_id FROM message_trace WHERE id > ?1 AND id <= ?2)`

// livesBefore finds out what is known of the messages of some events, those after one row of message_trace up to
// another: from their rows, which may be in the archive, or from the traces of their deletion, and from the events
// before.
//
// The outer joins and the subqueries are for PostgreSQL: it begins with the batch then, whatever it believes the tables
// to hold.
func livesBefore(c *store.Conn, events []event, from, to int64) (map[string]*life, error) {
	archived := func(column string) string {
		return `coalesce(m.` + column + `, (SELECT a.` + column +
			` FROM agent_message_archive AS a WHERE a.message_id = of.message_id LIMIT 1))`
	}
	lives := map[string]*life{}
	err := c.Query(batchOf+`
		SELECT of.message_id, `+archived("sender")+`, `+archived("recipient")+`, `+archived("message_type")+`, `+
		archived("created_at")+`, `+archived("not_before")+`,
		       CASE WHEN m.message_id IS NULL THEN (SELECT d.detail FROM message_trace AS d WHERE d.message_id = of.message_id AND d.event = 'deleted' LIMIT 1) END
		  FROM of LEFT JOIN agent_message AS m ON m.message_id = of.message_id`, func(r store.Row) error {
		lives[r.Text(0)] = lifeOf(r)
		return nil
	}, from, to)
	if err != nil {
		return nil, err
	}
	begun := map[string]bool{}
	for _, e := range events {
		if begun[e.messageID] = begun[e.messageID] || e.name == tracing.Created; !begun[e.messageID] {
			return lives, addBefore(c, lives, from, to)
		}
	}
	return lives, nil // all began here
}

// lifeOf returns what a row says of a message.
func lifeOf(r store.Row) *life {
	m := struct {
		Sender, Recipient string
		Type              string `json:"message_type"`
	}{r.Text(1), r.Text(2), r.Text(3)}
	if detail := r.Text(6); detail != "" && m.Recipient == "" && json.Unmarshal([]byte(detail), &m) != nil {
		return &life{} // written by hand
	}
	if m.Type == orchestrator.TestMessage {
		m.Recipient = ""
	}
	return &life{sender: bounded(m.Sender), recipient: bounded(m.Recipient), due: max(r.Text(4), r.Text(5)),
		notBefore: r.Text(5)}
}

// maxName is how many bytes of a name are counted under. Adoption keeps as many of one written by hand; PostgreSQL's
// index of the table takes no more than a few thousand, and would refuse to count anything with it.
const maxName = 255

// bounded cuts a name that somebody wrote by hand, after adoption or into the trace.
func bounded(name string) string {
	if len(name) > maxName {
		return strings.ToValidUTF8(name[:maxName], "")
	}
	return name
}

// maxEvents is how many of the last events of a message are looked at for its deliveries: what one is tried again and
// again has more, and would be read again with each.
const maxEvents = 1000

// addBefore adds the events of messages before those that are to be counted. Nothing is asked of the order of ids
// alone, or PostgreSQL might walk through all of them for each message.
func addBefore(c *store.Conn, lives map[string]*life, from, to int64) error {
	return c.Query(batchOf+`, since AS MATERIALIZED (
		SELECT of.message_id, coalesce((
		       SELECT b.id FROM message_trace AS b WHERE b.message_id = of.message_id AND b.id + 0 <= ?1 ORDER BY b.id DESC LIMIT 1 OFFSET +?3), 0) AS id
		  FROM of)
		SELECT since.message_id, e.at, e.event FROM since LEFT JOIN message_trace AS e ON e.message_id = since.message_id
		   AND e.id + 0 <= ?1 AND e.id + 0 > since.id
		 ORDER BY e.id`, func(r store.Row) error {
		lives[r.Text(0)].add(&event{at: r.Text(1), name: tracing.EventName(r.Text(2))})
		return nil
	}, from, to, maxEvents)
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

// spans are the times for which events are counted.
var spans = []struct {
	name   string
	length time.Duration
}{{minute, time.Minute}, {hour, time.Hour}}

// count counts an event of a message.
func (f fold) count(e *event, l *life) {
	at := orchestrator.ParseStamp(e.at)
	if at.IsZero() || l.recipient == "" {
		return // a time written by hand
	}
	for _, span := range spans {
		k := key{span.name, orchestrator.Stamp(at.Truncate(span.length)), l.recipient}
		if e.name == tracing.Created && l.sender != "" {
			f.row(key{k.span, k.at, l.sender}).Wrote++
		}
		if strings.HasPrefix(l.recipient, orchestrator.ThreadPrefix) {
			continue // a thread's own row of a post
		}
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

// stored reads the rows to which the counts are to be added, those of an interval at once.
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

// mostCounted is the largest number of a row that is believed. Somebody may write any by hand; sums of these neither
// overflow nor have more digits than JavaScript keeps.
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
