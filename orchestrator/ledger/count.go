package ledger

import (
	"fmt"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// The states in message_count that are no statuses: what is in an inbox and was not read, and what is in the archive.
// The archive is counted under the recipient "".
const (
	Unread   orchestrator.Status = "unread"
	Archived orchestrator.Status = "archived"
)

// known is the condition for rows that are counted: the engine has set their status. Anything may stand there by hand,
// also the name of another state.
const known = `traced_status IN ('pending','retry','delivered','failed','expired','cancelled')`

// countedSeq is the seq up to which rows are counted by their status. It moves on once in Options.CountEvery rows, so
// that a send need not write a count; what is behind it is counted when it is asked for. It is a row of message_count
// itself. What else somebody has written there counts as everything: Recount mends that.
const countedSeq = `(SELECT coalesce(max(CASE WHEN n BETWEEN 0 AND 9007199254740992 THEN n ELSE 9007199254740992 END), 0) FROM message_count WHERE recipient = '' AND state = 'counted')`

// maxCounted is how many rows one transaction counts, in case another program has written a million.
const maxCounted = 20_000

// countUpTo counts rows that are not counted yet: those up to last, of which the first maxCounted.
func countUpTo(t *transaction, last int64) error {
	step, err := t.Number(`SELECT max(seq) FROM (SELECT seq FROM agent_message WHERE seq > `+countedSeq+
		` AND seq <= ?1 ORDER BY seq LIMIT +?2) AS s`,
		min(last, store.MaxNumber), maxCounted)
	if err != nil || step == 0 {
		return err
	}
	if err := t.Run(`
		INSERT INTO message_count (recipient, state, n)
		SELECT recipient, traced_status, count(*) FROM agent_message
		WHERE seq > `+countedSeq+` AND seq <= ?1 AND `+known+` GROUP BY recipient, traced_status
		`+store.AddToCount, step); err != nil {
		return err
	}
	return t.Run(`INSERT INTO message_count (recipient, state, n) VALUES ('', 'counted', ?1)
		ON CONFLICT (recipient, state) DO UPDATE SET n = excluded.n`, step)
}

// CountBehind counts rows that other programs wrote and that were adopted, once there are Options.CountEvery rows that
// are not counted. last is the seq of one of the last of them.
func CountBehind(t *Tx, last int64) error {
	counted, err := t.Number(`SELECT ` + countedSeq)
	if err != nil || last-counted < t.Ledger.countEvery {
		return err
	}
	return countUpTo(t.transaction, last)
}

// Uncounted is the condition under which many rows are not counted: where others insert rows at the same time, a send
// does not count. ?N, with N for number, is how many are many, and ?N+1 the largest seq that is believed.
func Uncounted(l *Ledger, number int) (condition string, args []any) {
	return fmt.Sprintf(`EXISTS (SELECT 1 FROM agent_message WHERE seq >= %s + ?%d AND seq <= ?%d)`, countedSeq, number,
			number+1),
		[]any{2 * l.countEvery, store.MaxNumber}
}

// CountNew counts rows that are not counted yet, if they are many.
func CountNew(t *Tx) error {
	last, err := t.Number(`SELECT coalesce(max(seq), 0) FROM agent_message WHERE seq <= ?1`, store.MaxNumber)
	if err != nil {
		return err
	}
	return CountBehind(t, last)
}

// CountAdopted counts a row whose status is about to become to. from is the status under which it was known, "" for
// none; recipient is to be the one that the row has.
func CountAdopted(t *Tx, seq int64, recipient string, from, to orchestrator.Status) error {
	counted, err := t.Number(`SELECT `+countedSeq+` >= ?1`, seq)
	if err != nil || counted == 0 {
		return err
	}
	return countMoved(t, recipient, from, to, 1)
}

// countMoved counts n rows of a recipient under another status. Under from, if that is none of ours, they were not
// counted.
func countMoved(t *Tx, recipient string, from, to orchestrator.Status, n int64) error {
	if slices.Contains(orchestrator.Statuses, from) {
		if err := t.Run(store.AddCount, recipient, from, -n); err != nil {
			return err
		}
	}
	return t.Run(store.AddCount, recipient, to, n)
}

// countChanges counts rows whose status is about to become to.
func countChanges(t *Tx, rows Selection, to orchestrator.Status) error {
	type group struct {
		recipient string
		from      orchestrator.Status
		n         int64
	}
	var args []any
	if rows.Arg != nil {
		args = append(args, rows.Arg)
	}
	groups, err := store.List(t.Conn, func(row store.Row) group {
		return group{row.Text(0), orchestrator.Status(row.Text(1)), row.Int(2)}
	}, `SELECT recipient, traced_status, count(*) FROM agent_message WHERE `+rows.Where+` AND seq <= `+countedSeq+
		` GROUP BY recipient, traced_status`, args...)
	for _, g := range groups {
		if err := countMoved(t, g.recipient, g.from, to, g.n); err != nil {
			return err
		}
	}
	return err
}

// countUnread counts what is unread in all inboxes.
const countUnread = `
	INSERT INTO message_count (recipient, state, n)
	SELECT recipient, 'unread', count(*) FROM agent_inbox WHERE read_at = '' GROUP BY recipient`

// CountArchived counts n more rows of the archive. Those that leave it are counted by a trigger.
func CountArchived(t *Tx, n int64) error { return t.Run(store.AddCount, "", Archived, n) }

// DeliverBatch delivers the rows of temp.batch, so many to each recipient, through a table, and counts what is unread
// now. A transport other than that into inboxes may have put them into any inbox: then all are counted anew.
func DeliverBatch(t *Tx, set orchestrator.SetTransport, recipients map[string]int) error {
	var inserted int64
	err := set.DeliverSet(func(query string, args ...any) error {
		n, err := t.Exec(query, args...)
		inserted += n
		return err
	}, t.Now)
	if err != nil {
		return err
	}
	if set != t.Ledger.Inbox() {
		if err := t.Run(`DELETE FROM message_count WHERE state = 'unread'`); err != nil {
			return err
		}
		return t.Run(countUnread)
	}
	for _, n := range recipients {
		inserted -= int64(n)
	}
	for recipient, n := range recipients {
		if inserted == 0 {
			err = t.Run(store.AddCount, recipient, Unread, n)
		} else { // some stood there already
			err = recountUnread(t, recipient)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recountUnread counts anew what stands unread in an inbox.
func recountUnread(t *Tx, recipient string) error {
	return t.Run(`
		INSERT INTO message_count (recipient, state, n)
		SELECT ?1, 'unread', count(*) FROM agent_inbox WHERE recipient = ?1 AND read_at = ''
		ON CONFLICT (recipient, state) DO UPDATE SET n = excluded.n`, recipient)
}

// Counts returns how many messages there are in each state, by recipient. A row that others wrote or changed counts as
// the engine last knew it.
func Counts(c *store.Conn) (counts map[string]map[orchestrator.Status]int64, err error) {
	counts = map[string]map[orchestrator.Status]int64{}
	err = c.Query(`
		SELECT recipient, state, n FROM message_count WHERE state <> 'counted'
		UNION ALL
		SELECT recipient, traced_status, count(*) FROM agent_message
		WHERE seq > `+countedSeq+` AND `+known+` GROUP BY recipient, traced_status`, func(row store.Row) error {
		of := counts[row.Text(0)]
		if of == nil {
			of = map[orchestrator.Status]int64{}
			counts[row.Text(0)] = of
		}
		of[orchestrator.Status(row.Text(1))] += row.Int(2)
		return nil
	})
	return counts, err
}

// Miscounted describes each count that is not what the rows say: somebody changed them by hand in a way that neither
// the engine nor a trigger sees. It reads all rows.
func Miscounted(c *store.Conn) ([]string, error) {
	return store.List(c, func(row store.Row) string {
		return fmt.Sprintf("%s of %q: %+d", row.Text(1), row.Text(0), row.Int(2))
	}, `
		SELECT recipient, state, sum(n) FROM (
		    SELECT recipient, state, CASE WHEN n `+store.Believed+` THEN n ELSE 9007199254740992 END AS n
		    FROM message_count WHERE state <> 'counted'
		    UNION ALL
		    SELECT recipient, traced_status, -count(*) FROM agent_message
		    WHERE seq <= `+countedSeq+` AND `+known+` GROUP BY recipient, traced_status
		    UNION ALL
		    SELECT recipient, 'unread', -count(*) FROM agent_inbox WHERE read_at = '' GROUP BY recipient
		    UNION ALL
		    SELECT '', 'archived', -count(*) FROM agent_message_archive) AS c
		GROUP BY recipient, state HAVING sum(n) <> 0 ORDER BY recipient, state`)
}

// Recount counts all messages anew. The triggers and the engine keep the counts; this is for what somebody did by hand
// that neither sees, such as INSERT OR REPLACE.
func Recount(t *Tx) error {
	if err := t.Run(`DELETE FROM message_count WHERE true`); err != nil {
		return err
	}
	if err := t.Run(`INSERT INTO message_count (recipient, state, n)
		SELECT '', 'counted', coalesce(max(seq), 0) FROM agent_message WHERE seq <= ?1`, store.MaxNumber); err != nil {
		return err
	}
	for _, statement := range []string{
		`INSERT INTO message_count (recipient, state, n)
		 SELECT recipient, traced_status, count(*) FROM agent_message
		 WHERE seq <= ` + countedSeq + ` AND ` + known + ` GROUP BY recipient, traced_status`,
		countUnread,
		`INSERT INTO message_count (recipient, state, n) SELECT '', 'archived', count(*) FROM agent_message_archive`,
	} {
		if err := t.Run(statement); err != nil {
			return err
		}
	}
	return nil
}
