package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/wire"
)

// mark is how a process recognizes its last commit when the server did not answer it. The number of the transaction
// would not do: a server that crashed, or another that took its place, gives a number once more that a transaction had
// of which nothing was written down, so that pg_xact_status may speak of somebody else's. The mark is a row of the
// table commits, which is changed together with the COMMIT.
type mark struct {
	process string // random
	n       int64  // of the last transaction that was to be committed
}

func newMark() mark { return mark{process: rand.Text()} }

const (
	// markFreshness is how old the time in a mark may be. It is an index's, so it is not changed each time.
	markFreshness = "10 minutes"
	// markAge is when a mark is removed, by a process that writes for the first time. Its own asks for at most askFor.
	markAge = "1 hour"
)

// next makes the next mark, at the end of a transaction.
func (m *mark) next() []wire.Call {
	m.n++
	calls := []wire.Call{{Text: `INSERT INTO commits AS c (process, n, at) VALUES ($1, $2, now())
		ON CONFLICT (process) DO UPDATE SET n = excluded.n,
		at = CASE WHEN c.at < now() - interval '` + markFreshness + `' THEN now() ELSE c.at END`,
		Values: [][]byte{[]byte(m.process), strconv.AppendInt(nil, m.n, 10)}}}
	if m.n == 1 {
		calls = append(calls, wire.Call{Text: `DELETE FROM commits WHERE process IN
			(SELECT process FROM commits WHERE at < now() - interval '` + markAge +
			`' ORDER BY at LIMIT 4 FOR UPDATE SKIP LOCKED)`})
	}
	return calls
}

// errUndone says that a transaction was not committed, and never will be.
var errUndone = errors.New("the server aborted the transaction; nothing was written")

// askFor is how long a server is asked what has become of a transaction, at least.
const askFor = time.Minute

// fate finds out what has become of the transaction whose COMMIT was not answered: nil if it was committed, errUndone,
// to be run again, if it was not.
func (w *backend) fate(lost error) error {
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	for ; ctx.Err() == nil; orchestrator.Pause(ctx, 100*time.Millisecond) {
		if err := w.open(ctx); err != nil {
			lost = err
			continue
		}
		stop := w.s.watch(hangsAfter, asksAgain)
		over, done, err := outcome(w.c, ctx, w.xid, &w.mark)
		stop()
		switch {
		case err != nil:
			lost = err
			w.shut()
		case over && !done:
			return &store.Later{Err: errUndone}
		case over:
			return nil
		}
	}
	return &orchestrator.Error{Code: orchestrator.Unavailable, Err: lost,
		Message: "the server of " + w.s.path + " did not answer; the change may or may not have been written",
		Hint:    "Before you try again, check whether the change was written"}
}

// outcome reports whether a transaction of another connection is over, and then whether it was committed.
//
// A number of a transaction that is not smaller than the next one's was lost in a crash, or was never heard of by this
// server. The mark is looked for in a statement of its own: one that asked for both would see the state before it
// learned that the transaction is over. What is seen may not have been confirmed by a standby yet, if its session was
// ended while it waited for that; so a commit of ours comes after it, which is confirmed only when all before it is.
func outcome(c *conn, ctx context.Context, xid string, m *mark) (over, done bool, err error) {
	ask := func(text string) (answer string, err error) {
		results, err := c.Ask(ctx, text)
		for _, result := range results {
			for _, row := range result.Rows {
				answer = string(row[0])
			}
		}
		return answer, cmp.Or(err, ctx.Err()) // what was cancelled may look as if it had succeeded
	}
	status, err := ask(fmt.Sprintf(`SELECT CASE WHEN '%[1]s'::xid8 < pg_current_xact_id() THEN pg_xact_status('%[1]s'::xid8) END`, xid))
	if err != nil || status == "in progress" {
		if err == nil {
			err = endAbandoned(c, ctx, xid)
		}
		return false, false, err
	}
	found, err := ask(fmt.Sprintf(`UPDATE commits SET n = n WHERE process = '%s' AND n = %d RETURNING n`, m.process,
		m.n))
	return err == nil, found != "", err
}

// endAbandoned ends the session of a transaction of ours whose connection was lost, if it waits for its client: it
// would hold its locks until the server notices. One that works, or waits for the disk or for a standby, is let alone.
func endAbandoned(c *conn, ctx context.Context, xid string) error {
	return c.Do(ctx,
		fmt.Sprintf(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_xid = '%s'::xid8::xid
			AND state LIKE 'idle in transaction%%'`, xid))
}
