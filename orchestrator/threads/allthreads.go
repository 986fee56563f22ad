package threads

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// AllOptions selects threads of all agents: first the threads with recent posts, in the order of their last post, the
// newest first, and then all others, newest first.
type AllOptions struct {
	Status Status // "" is any
	Search string // part of the name, ignoring case; "" is any
	After  string // where the previous call ended, its next; "" is the beginning
	Limit  int
}

const (
	lately    = 5000 // the newest messages, which are searched for the last posts
	maxLooked = 2000 // the other threads that one call of All examines
)

// postedLately selects the threads of the posts after the seq ?1, the thread with the last post first.
const postedLately = `SELECT t.thread_id, t.status, t.name, m.seq FROM agent_message AS m CROSS
	JOIN threads AS t ON t.thread_id = substr(m.recipient, 8)
	WHERE m.seq > ?1 AND m.recipient LIKE '` + orchestrator.ThreadPrefix + `%' ORDER BY m.seq DESC`

// allThreads selects threads that were created before ?1, newest first. An id contains the time when its thread was
// created.
const allThreads = `SELECT thread_id, status, name FROM threads WHERE thread_id < ?1 ORDER BY thread_id DESC LIMIT +?2`

// place is the position of a thread in the list of all threads.
type place struct{ id, status, name, after string }

// placesAfter returns the threads after a position, in the order of All. next is the position after which there are
// more threads, or "" at the end.
func placesAfter(c *store.Conn, after string) (list []place, next string, err error) {
	text, isLate := strings.CutPrefix(after, "@")
	before := int64(math.MaxInt64)
	if isLate {
		if before, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, "", orchestrator.Errorf(orchestrator.InvalidParams, "cannot continue at %q: use a value from a previous answer",
				orchestrator.Clip(after))
		}
	}
	last, err := c.Number(`SELECT coalesce(max(seq), 0) FROM agent_message`)
	if err != nil {
		return nil, "", err
	}
	posted := map[string]bool{}
	err = c.Query(postedLately, func(row store.Row) error {
		id, seq := row.Text(0), row.Int(3)
		if posted[id] {
			return nil
		}
		posted[id] = true
		if seq < before && (after == "" || isLate) {
			list = append(list, place{id, row.Text(1), row.Text(2), fmt.Sprint("@", seq)})
		}
		return nil
	}, last-lately)
	if err != nil {
		return nil, "", err
	}
	if after == "" || isLate {
		after = "~" // after every id
	}
	others, err := store.List(c,
		func(row store.Row) place { return place{row.Text(0), row.Text(1), row.Text(2), row.Text(0)} }, allThreads,
		after, maxLooked)
	if len(others) == maxLooked {
		next = others[maxLooked-1].id
	}
	others = slices.DeleteFunc(others, func(p place) bool { return posted[p.id] })
	return append(list, others...), next, err
}

// All returns threads for the administrator, at most limit of them. next is the position at which the next call
// continues, or "" at the end. One call examines a limited number of threads, so it may return fewer than limit
// although there are more. No thread is unread for the administrator. Error: invalid_params for a position that no
// call returned.
func All(ctx context.Context, l *ledger.Ledger, o AllOptions) (list []Overview, next string, err error) {
	search := strings.ToLower(o.Search)
	err = l.Read(ctx, func(c *store.Conn) error {
		places, behind, err := placesAfter(c, o.After)
		if err != nil {
			return err
		}
		list, next = nil, ""
		for i, p := range places {
			if len(list) == o.Limit {
				next = places[i-1].after
				return nil
			}
			if o.Status != "" && Status(p.status) != o.Status || !strings.Contains(strings.ToLower(p.name), search) {
				continue
			}
			one, err := fromOutside(c, p.id)
			if err != nil {
				return err
			}
			list = append(list, one)
		}
		next = behind
		return nil
	})
	return list, next, err
}

// fromOutside returns a thread with its last post, as the administrator sees it in a list.
func fromOutside(c *store.Conn, id string) (o Overview, err error) {
	if o.Thread, _, err = thread(c, id); err != nil {
		return o, err
	}
	o.Last, _, err = ledger.Fetch(c, newestPosts, 1, ledger.MaxRead, id, int64(math.MaxInt64), 1)
	return o, err
}
