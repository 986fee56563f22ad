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

// mark identifies the last commit of a process if the server did not answer that commit. The id of the transaction
// is not enough: a server that crashed, or another that took its place, may reuse the id of a transaction of which
// nothing was written to disk, and pg_xact_status may then report the status of a different transaction. The mark is
// a row of the table commits, which the same transaction changes just before its COMMIT.
type mark struct {
	process string // random
	n       int64  // of the last transaction that was to be committed
}

func newMark() mark { return mark{process: rand.Text()} }

const (
	// markFreshness is the maximum age of the time in a mark. The time is indexed, so it is not changed with every
	// commit.
	markFreshness = "10 minutes"
	// markAge is the age at which a mark is removed, by a process that writes for the first time. A process asks for
	// its own mark for at most askFor.
	markAge = "1 hour"
)

// next returns the calls that write the next mark at the end of a transaction.
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

// errUndone means that a transaction was not committed, and never will be.
var errUndone = errors.New("the server aborted the transaction; nothing was written")

// askFor is how long a server is asked about the outcome of a transaction.
const askFor = time.Minute

// fate finds out the outcome of a transaction whose COMMIT was not answered. It returns nil if the transaction was
// committed, and errUndone, so that the transaction runs again, if it was not.
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

// outcome reports whether a transaction of another connection is over, and if so, whether it was committed.
//
// A transaction id that is not smaller than the next id of this server was lost in a crash, or never reached this
// server. The mark is read in a separate statement, because a single statement could read the table before it finds
// that the transaction is over. A standby may not have confirmed the visible commit yet, if the session ended while
// it waited for that confirmation. The second statement is therefore an UPDATE: its own commit is confirmed only
// after all earlier ones.
func outcome(c *conn, ctx context.Context, xid string, m *mark) (over, done bool, err error) {
	ask := func(text string) (answer string, err error) {
		results, err := c.Ask(ctx, text)
		for _, result := range results {
			for _, row := range result.Rows {
				answer = string(row[0])
			}
		}
		return answer, cmp.Or(err, ctx.Err()) // a cancelled query may look successful
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

// endAbandoned ends the session of our transaction whose connection was lost, if the session waits for its client.
// It would otherwise hold its locks until the server notices. A session that is working, or waits for the disk or a
// standby, is not ended.
func endAbandoned(c *conn, ctx context.Context, xid string) error {
	return c.Do(ctx,
		fmt.Sprintf(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_xid = '%s'::xid8::xid
			AND state LIKE 'idle in transaction%%'`, xid))
}
