package traffic

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Query specifies a report.
type Query struct {
	Since     time.Duration // how far back the report goes; at most KeepHours
	Every     time.Duration // length of an interval: whole hours, or minutes if Since is at most KeepMinutes
	Recipient string        // "" is all recipients
	Waiting   bool          // also report Waiting
}

// Line holds the counts and durations of one period. A field is nil if nothing was measured.
type Line struct {
	Recipient string `json:"recipient,omitempty"` // "" in the line of an interval
	At        string `json:"at,omitempty"`        // beginning of the interval
	Counts
	Queued         *Percentiles `json:"queued,omitempty"`          // from when it was due until its first attempt
	DeliveredAfter *Percentiles `json:"delivered_after,omitempty"` // from when it was due until its delivery
	ReadAfter      *Percentiles `json:"read_after,omitempty"`      // from the delivery of a message until it was read
	Pending        *int64       `json:"pending,omitempty"`         // of a recipient: waiting now, for a retry too
	Unread         *int64       `json:"unread,omitempty"`
}

// Report is the answer to a Query.
type Report struct {
	Since      string `json:"since"` // beginning of the first interval
	Every      string `json:"every"`
	Total      Line   `json:"total"`
	Recipients []Line `json:"recipients"`
	Intervals  []Line `json:"intervals"`

	Waiting []Waiting `json:"waiting,omitempty"` // by recipient, the one with the most waiting messages first
}

// tail bounds the uncounted events that a report counts while its caller waits.
const tail = 10 * batch

// Of reports the traffic up to the last event. It counts the events that are not counted yet, in one snapshot. Error:
// invalid_params for a time for which no counts are kept.
func Of(ctx context.Context, l *ledger.Ledger, q Query) (Report, error) {
	span, err := q.span()
	if err != nil {
		return Report{}, err
	}
	if err := countMany(ctx, l); err != nil {
		return Report{}, err
	}
	now := l.Now()
	since := now.Add(-q.Since).Truncate(q.Every)
	r := Report{Since: orchestrator.Stamp(since), Every: orchestrator.FormatDuration(q.Every)}
	err = l.Read(ctx, func(c *store.Conn) error {
		f, err := rowsOf(c, `WHERE span = ?1 AND at >= ?2 AND ?3 IN ('', recipient)`, span, r.Since, q.Recipient)
		if err != nil {
			return err
		}
		from, err := countedOf(c)
		for err == nil {
			more, to, failed := foldAfter(c, from, math.MaxInt64, batch)
			if err = failed; err != nil || to == from {
				break
			}
			f.addAll(more)
			from = to
		}
		if err != nil {
			return err
		}
		counts, err := ledger.Counts(c)
		if err != nil {
			return err
		}
		r.fill(f, span, since, now, q, counts)
		if !q.Waiting {
			return nil
		}
		conf, err := l.Config.Load(c)
		if err == nil {
			r.Waiting, err = r.waiting(c, f, q, conf, counts)
		}
		return err
	})
	return r, err
}

// countMany counts and stores the events if so many are uncounted that a report would take long, so that the next
// report need not count them.
func countMany(ctx context.Context, l *ledger.Ledger) error {
	left, err := ledger.ReadValue(ctx, l, func(c *store.Conn) (int64, error) {
		from, err := countedOf(c)
		if err != nil {
			return 0, err
		}
		last, err := c.Number(`SELECT coalesce(max(id), 0) FROM message_trace`)
		return last - from, err
	})
	if err != nil || left < tail {
		return err
	}
	return Count(ctx, l)
}

// span returns the span of the rows from which the report is made.
func (q *Query) span() (string, error) {
	switch {
	case q.Every < time.Minute || q.Every%time.Minute != 0:
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "`every` must be a whole number of minutes, at least 1")
	case q.Since > KeepHours:
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "`since` must be at most 90 days, because Mailroom deletes older traffic").
			WithHint("For the longest report, run `mailroom stats --since 90d`")
	case q.Every%time.Hour == 0:
		return hour, nil
	case q.Since > KeepMinutes:
		return "", orchestrator.Errorf(orchestrator.InvalidParams,
			"`every` must be a whole number of hours if `since` is more than 48 hours").
			WithHint("To count by the hour, run `mailroom stats --since 7d --every 1h`")
	}
	return minute, nil
}

// fill fills in the lines of a report.
func (r *Report) fill(f fold, span string, since, now time.Time, q Query,
	counts map[string]map[orchestrator.Status]int64) {
	var total row
	recipients, intervals := map[string]*row{}, map[string]*row{}
	for k, one := range f {
		if k.span != span || k.at < r.Since || q.Recipient != "" && k.recipient != q.Recipient {
			continue
		}
		total.add(one)
		addTo(recipients, k.recipient, one)
		addTo(intervals, orchestrator.Stamp(orchestrator.ParseStamp(k.at).Truncate(q.Every)), one)
	}
	for recipient := range counts {
		if recipient != "" && !strings.HasPrefix(recipient, orchestrator.ThreadPrefix) &&
			(q.Recipient == "" || recipient == q.Recipient) {
			addTo(recipients, recipient, &row{})
		}
	}
	r.Total, r.Recipients, r.Intervals = total.line(), []Line{}, []Line{}
	for recipient, one := range recipients {
		line := one.line()
		of := counts[recipient]
		pending, unread := of[orchestrator.Pending]+of[orchestrator.Retry], of[ledger.Unread]
		line.Recipient, line.Pending, line.Unread = recipient, &pending, &unread
		if got := line.Counts; got != (Counts{Wrote: got.Wrote}) || pending+unread > 0 {
			r.Recipients = append(r.Recipients, line)
		}
	}
	slices.SortFunc(r.Recipients, func(a, b Line) int { return cmp.Compare(a.Recipient, b.Recipient) })
	for at := since; !at.After(now); at = at.Add(q.Every) {
		line := Line{}
		if one := intervals[orchestrator.Stamp(at)]; one != nil {
			line = one.line()
		}
		line.At = orchestrator.Stamp(at)
		r.Intervals = append(r.Intervals, line)
	}
}

func addTo(m map[string]*row, name string, r *row) {
	if m[name] == nil {
		m[name] = &row{}
	}
	m[name].add(r)
}

func (r *row) line() Line {
	return Line{Counts: r.Counts, Queued: r.queued.percentiles(), DeliveredAfter: r.delivered.percentiles(),
		ReadAfter: r.read.percentiles()}
}
