package messages

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// ListFilter selects messages for List. Limit is required. Without other fields, the filter selects all messages that
// are not archived.
type ListFilter struct {
	Agent       string    // sent or received by this agent
	Sender      string    // sent by this agent
	Recipient   string    // sent to this agent or group
	Pair        [2]string // sent by one of these agents to the other
	Type        string
	Statuses    []orchestrator.Status // one of these; at most two
	ThreadID    string
	Since       string // created at or after; see HistoryFilter
	Until       string // created at or before
	Archived    bool   // include archived messages
	Before      int64  // only with a lower seq; 0 means no bound
	After       int64  // only with a higher seq; 0 means no bound
	OldestFirst bool
	Limit       int

	// Says reports whether the content of a message matches; nil accepts all. It is called outside of any
	// transaction.
	Says func(*orchestrator.Message) bool

	fewLive bool // the live messages are few enough to be sorted
}

// mostLive is the largest number of live messages that List sorts to select some of them.
const mostLive = 5000

// Listed is the result of one call of List.
type Listed struct {
	Messages []orchestrator.Message
	Complete bool   // no messages are left; otherwise see Next and At
	Next     int64  // value of Before, or with OldestFirst of After, for the next call
	At       string // creation time of the last message examined
}

// List returns messages of all agents, newest first unless OldestFirst is set. One call examines a bounded number of
// messages, whether they match or not: if Complete is false, call List again from Next. List does not mark messages
// as read. Error: invalid_params for a time that cannot be read.
func List(ctx context.Context, l *ledger.Ledger, f ListFilter) (listed Listed, err error) {
	for _, name := range []*string{&f.Agent, &f.Sender, &f.Recipient, &f.Pair[0], &f.Pair[1]} {
		*name = orchestrator.FoldName(*name)
	}
	if f.Since, err = boundary(l, "since", f.Since); err != nil {
		return listed, err
	}
	if f.Until, err = boundary(l, "until", f.Until); err != nil {
		return listed, err
	}
	listed.Messages = []orchestrator.Message{}
	f.Before, f.After = cmp.Or(f.Before, math.MaxInt64), cmp.Or(f.After, math.MinInt64)
	size := 0
	for range searchSteps {
		var step searched
		err := l.View(ctx, func(c *store.Conn, _ *ledger.Config) (err error) {
			step, err = f.step(c, f.Limit-len(listed.Messages))
			return err
		})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return listed, err
		}
		for i := range step.candidates {
			m := &step.candidates[i]
			if f.Says != nil && !f.Says(m) {
				continue
			}
			if size += len(m.Payload); len(listed.Messages) > 0 && size > ledger.MaxRead {
				return listed, nil
			}
			listed.Messages = append(listed.Messages, *m)
			listed.Next, listed.At = m.Seq, m.CreatedAt
			if len(listed.Messages) == f.Limit {
				return listed, nil
			}
		}
		if listed.Complete = step.last; step.last {
			return listed, nil
		}
		listed.Next, listed.At = step.floor, step.backTo
		if f.OldestFirst {
			f.After = step.floor
		} else {
			f.Before = step.floor
		}
	}
	return listed, nil
}

// sources returns the tables that a list walks through in the order of seq. It uses an index where one contains the
// wanted rows and few others.
func (f *ListFilter) sources() (list []searchSource) {
	list = []searchSource{{`agent_message m NOT INDEXED`, `true`}, {`agent_message_archive m NOT INDEXED`, `true`}}
	switch {
	case f.ThreadID != "":
		list = []searchSource{
			{`agent_message m INDEXED BY agent_message_thread`, `thread_id = ?3`},
			{`agent_message_archive m INDEXED BY agent_message_archive_thread`, `thread_id = ?3`},
		}
	case f.only(orchestrator.Failed, orchestrator.Expired): // which are never archived
		return []searchSource{{`agent_message m INDEXED BY agent_message_dead`, `status IN ('failed','expired')`}}
	case f.fewLive && f.only(orchestrator.Pending, orchestrator.Retry):
		return []searchSource{{`agent_message m INDEXED BY agent_message_live`, ledger.Live}}
	}
	if !f.Archived {
		list = list[:1]
	}
	return list
}

// only reports whether the filter selects none but the given statuses.
func (f *ListFilter) only(statuses ...orchestrator.Status) bool {
	return len(f.Statuses) > 0 &&
		!slices.ContainsFunc(f.Statuses, func(s orchestrator.Status) bool { return !slices.Contains(statuses, s) })
}

// step examines searchStep rows of each source, or fewer if their payloads are large or enough of them match.
func (f *ListFilter) step(c *store.Conn, enough int) (step searched, err error) {
	statuses := [2]string{}
	for i, status := range f.Statuses {
		statuses[i] = string(status)
	}
	if f.only(orchestrator.Pending, orchestrator.Retry) {
		live, err := c.Number(`SELECT coalesce(sum(n), 0) FROM message_count WHERE state IN ('pending','retry')`)
		if err != nil {
			return step, err
		}
		f.fewLive = live <= mostLive
	}
	args := []any{f.After, f.Before, f.ThreadID, f.Agent, f.Sender, f.Recipient, f.Pair[0], f.Pair[1], f.Type,
		statuses[0], statuses[1], f.Since, f.Until}
	sources := f.sources()
	for _, from := range sources {
		err := c.Query(f.end(from), func(row store.Row) error {
			if seq := row.Int(0); step.floor == 0 || f.OldestFirst == (seq < step.floor) {
				step.floor, step.backTo = seq, row.Text(1)
			}
			return nil
		}, append(slices.Clone(args[:3]), searchStep-1)...)
		if err != nil {
			return step, err
		}
	}
	if step.last = step.floor == 0; !step.last && f.OldestFirst {
		args[1] = step.floor + 1
	} else if !step.last {
		args[0] = step.floor - 1
	}
	if f.Says != nil {
		enough = searchStep
	}
	var more bool
	step.candidates, more, err = ledger.Fetch(c, f.fitting(sources), enough, ledger.MaxRead,
		append(slices.Clone(args), enough+1)...)
	if err != nil {
		return step, err
	}
	if more {
		end := &step.candidates[len(step.candidates)-1]
		step.floor, step.backTo, step.last = end.Seq, end.CreatedAt, false
		return step, nil
	}
	if bound := f.bound(); bound != "" && !step.last {
		step.last, err = f.allBeyond(c, bound, sources, args)
	}
	return step, err
}

// end returns a SELECT of the last row of a step through a source. The SELECT yields no row if fewer rows are left.
func (f *ListFilter) end(from searchSource) string {
	return `SELECT seq, created_at FROM ` + from.from + ` WHERE ` + from.where +
		` AND seq > ?1 AND seq < ?2 ORDER BY seq ` + f.order() + ` LIMIT 1 OFFSET +?4`
}

// fitting returns a SELECT of the places of the matching messages, in the requested order.
func (f *ListFilter) fitting(sources []searchSource) string {
	const fits = ` AND seq > ?1 AND seq < ?2 AND (?3 = '' OR +thread_id = ?3)
		AND (?4 = '' OR +sender = ?4 OR +recipient = ?4) AND (?5 = '' OR +sender = ?5)
		AND (?6 = '' OR +recipient = ?6 OR +multicast_target = ?6)
		AND (?7 = '' OR +sender = ?7 AND +recipient = ?8 OR +sender = ?8 AND +recipient = ?7)
			AND (?9 = '' OR message_type = ?9)
		AND (?10 = '' OR +status = ?10 OR +status = ?11) AND (?12 = '' OR created_at >= ?12)
			AND (?13 = '' OR created_at <= ?13)`
	var parts []string
	for i, from := range sources {
		archived := []string{`0`, `1`}[i]
		parts = append(parts, `SELECT `+archived+`, seq FROM `+from.from+` WHERE `+from.where+fits)
	}
	return strings.Join(parts, "\nUNION ALL\n") + ` ORDER BY 2 ` + f.order() + ` LIMIT +?14`
}

func (f *ListFilter) order() string {
	if f.OldestFirst {
		return "ASC"
	}
	return "DESC"
}

// bound returns the time beyond which no message matches in the direction of the list; "" means no bound.
func (f *ListFilter) bound() string {
	if f.OldestFirst {
		return f.Until
	}
	return f.Since
}

// allBeyond reports whether a step examined only messages beyond the time bound. No later row matches then, because
// times ascend, except in single rows written by hand.
func (f *ListFilter) allBeyond(c *store.Conn, bound string, sources []searchSource, args []any) (bool, error) {
	within := `created_at >= ?4`
	if f.OldestFirst {
		within = `created_at <= ?4`
	}
	for _, from := range sources {
		n, err := c.Number(`SELECT EXISTS (SELECT 1 FROM `+from.from+` WHERE `+from.where+
			` AND seq > ?1 AND seq < ?2 AND `+within+`)`,
			append(slices.Clone(args[:3]), bound)...)
		if err != nil || n > 0 {
			return false, err
		}
	}
	return true, nil
}

// Named returns the current state of the messages with the given ids, including archived ones. For a send to several
// agents, it returns only the messages that have ids of their own. It omits messages that do not exist.
func Named(ctx context.Context, l *ledger.Ledger, ids []string) ([]orchestrator.Message, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (ms []orchestrator.Message, err error) {
		for _, id := range ids {
			found, err := ledger.Messages(c, `SELECT `+ledger.MessageColumns+` FROM agent_message WHERE message_id = ?`,
				id)
			if err == nil && len(found) == 0 {
				found, err = ledger.Messages(c,
					`SELECT `+ledger.ArchivedColumns+` FROM agent_message_archive WHERE message_id = ?`, id)
			}
			if err != nil {
				return nil, err
			}
			ms = append(ms, found...)
		}
		return ms, nil
	})
}
