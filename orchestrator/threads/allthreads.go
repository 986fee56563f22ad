package threads

import (
	"context"
	"math"
	"strings"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// AllOptions select threads of all agents, newest first.
type AllOptions struct {
	Status Status // "" is any
	Search string // part of the name, in whatever letters; "" is any
	Before string // only those that were created before this one, by its id; "" is from the newest on
	Limit  int
}

// maxLooked bounds the threads that one call of All looks at.
const maxLooked = 2000

// allThreads selects threads that were created before ?1, newest first. An id tells when its thread was created.
const allThreads = `SELECT thread_id, status, name FROM threads WHERE thread_id < ?1 ORDER BY thread_id DESC LIMIT +?2`

// All returns threads for the administrator, the newest first, at most limit of them. Next is where the next call goes on, "" at the
// end: it looks at so many threads only, and may have found fewer. None is unread for the administrator.
func All(ctx context.Context, l *ledger.Ledger, o AllOptions) (list []Overview, next string, err error) {
	type place struct {
		id, status, name string
	}
	search, before := strings.ToLower(o.Search), o.Before
	if before == "" {
		before = "~" // behind every id
	}
	err = l.Read(ctx, func(c *store.Conn) error {
		looked := maxLooked
		if o.Search == "" && o.Status == "" {
			looked = o.Limit + 1
		}
		places, err := store.List(c, func(row store.Row) place { return place{row.Text(0), row.Text(1), row.Text(2)} }, allThreads, before, looked)
		if err != nil {
			return err
		}
		list, next = nil, ""
		for i, p := range places {
			if len(list) == o.Limit {
				next = places[i-1].id
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
		if len(places) == looked {
			next = places[looked-1].id
		}
		return nil
	})
	return list, next, err
}

// fromOutside returns a thread as the administrator sees it in a list, with its last post.
func fromOutside(c *store.Conn, id string) (o Overview, err error) {
	if o.Thread, _, err = thread(c, id); err != nil {
		return o, err
	}
	o.Last, _, err = ledger.Fetch(c, newestPosts, 1, ledger.MaxRead, id, int64(math.MaxInt64), 1)
	return o, err
}
