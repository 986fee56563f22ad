package traffic

import (
	"cmp"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/store"
)

// Waiting holds the number of messages to a recipient that were undelivered, or unread in its inbox, at the end of
// each interval of a report.
type Waiting struct {
	Recipient string  `json:"recipient"`
	Messages  []int64 `json:"messages"`
}

// mostWaiting bounds the recipients in Report.Waiting: those with the most waiting messages, now or in the past.
const mostWaiting = 10

// waiting works back from the number of messages that wait now, by the events counted since.
func (r *Report) waiting(c *store.Conn, f fold, q Query, conf *ledger.Config,
	counts map[string]map[orchestrator.Status]int64) ([]Waiting, error) {
	again, err := replays(c, r.Since)
	if err != nil {
		return nil, err
	}
	// changes holds, for each recipient and interval, how many more messages wait at its end than at its beginning.
	changes := map[string][]int64{}
	add := func(recipient, at string, n int64) {
		if changes[recipient] == nil {
			changes[recipient] = make([]int64, len(r.Intervals))
		}
		i := int(orchestrator.ParseStamp(at).Sub(orchestrator.ParseStamp(r.Since)) / q.Every)
		changes[recipient][min(max(i, 0), len(r.Intervals)-1)] += n
	}
	for k, one := range f {
		if k.at < r.Since || k.span != r.spanOf(q) || q.Recipient != "" && k.recipient != q.Recipient {
			continue
		}
		left := one.Delivered
		if hasInbox(conf, k.recipient) {
			left = one.Read
		}
		add(k.recipient, k.at, one.Sent-left-one.Failed-one.Expired-one.Cancelled)
	}
	for _, one := range again {
		if changes[one.recipient] != nil {
			add(one.recipient, one.at, 1)
		}
	}
	list := []Waiting{}
	for recipient, of := range counts {
		if recipient == "" || !push.IsMailbox(recipient) || q.Recipient != "" && recipient != q.Recipient {
			continue
		}
		now, series, any := of[orchestrator.Pending]+of[orchestrator.Retry]+of[ledger.Unread],
			make([]int64, len(r.Intervals)), false
		for i := len(series) - 1; i >= 0; i-- {
			series[i] = max(0, now)
			any = any || now > 0
			if changes[recipient] != nil {
				now -= changes[recipient][i]
			}
		}
		if any {
			list = append(list, Waiting{recipient, series})
		}
	}
	slices.SortFunc(list, func(a, b Waiting) int {
		last := len(r.Intervals) - 1
		return cmp.Or(cmp.Compare(b.Messages[last], a.Messages[last]),
			cmp.Compare(slices.Max(b.Messages), slices.Max(a.Messages)), cmp.Compare(a.Recipient, b.Recipient))
	})
	return list[:min(len(list), mostWaiting)], nil
}

// spanOf returns the span of the rows from which the report is made.
func (r *Report) spanOf(q Query) string {
	span, _ := q.span()
	return span
}

// hasInbox reports whether messages delivered to a recipient wait in an inbox until they are read.
func hasInbox(conf *ledger.Config, recipient string) bool {
	a := conf.Agents[recipient]
	return a == nil || a.Deliver == "inbox"
}

// replay is the time when a dead letter was sent to a recipient again. No counter includes replays.
type replay struct{ recipient, at string }

// maxFailures bounds the newest failures, failed attempts included, that are searched for replayed messages.
const maxFailures = 2000

// replays finds the replays since a time, through the traces of the failures before them.
func replays(c *store.Conn, since string) (list []replay, err error) {
	seen := map[int64]bool{}
	err = c.Query(`
		SELECT r.id, r.at, m.recipient
		  FROM (SELECT message_id, event FROM message_trace WHERE event IN ('attempt_failed','failed','expired')
		  	ORDER BY at DESC LIMIT +?1) AS f
		  CROSS JOIN message_trace AS r ON r.message_id = f.message_id AND r.event = 'replayed' AND r.at >= ?2
		  CROSS JOIN agent_message AS m ON m.message_id = f.message_id
		 WHERE f.event <> 'attempt_failed'`, func(row store.Row) error {
		if id := row.Int(0); !seen[id] {
			seen[id] = true
			list = append(list, replay{row.Text(2), row.Text(1)})
		}
		return nil
	}, maxFailures, since)
	return list, err
}
