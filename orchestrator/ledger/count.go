package ledger

import (
	"cmp"
	"fmt"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// States in message_count that are not statuses: unread messages in inboxes, and archived messages. The archive is
// counted under the recipient "".
const (
	Unread   orchestrator.Status = "unread"
	Archived orchestrator.Status = "archived"
)

// known is the SQL condition for rows that are counted: rows whose status the engine has set. Others may write any
// status by hand, including the name of a state.
const known = `traced_status IN ('pending','retry','delivered','failed','expired','cancelled')`

// countedSeq is the seq up to which rows are counted by their status. It advances once per Options.CountEvery rows,
// so that a send need not write a count. Rows beyond it are counted when the counts are read. It is itself a row of
// message_count. An invalid value written by hand is treated as if all rows were counted; Recount repairs it.
const countedSeq = `(SELECT coalesce(max(CASE WHEN n BETWEEN 0 AND 9007199254740992 THEN n ELSE 9007199254740992 END), 0) FROM message_count WHERE recipient = '' AND state = 'counted')`

// maxCounted is the number of rows that one transaction counts at most, in case another program has written a
// million.
const maxCounted = 20_000

// countUpTo counts the rows up to last that are not yet counted, at most the first maxCounted of them.
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

// CountBehind counts adopted rows, which other programs wrote, once Options.CountEvery rows are uncounted. last is
// the seq of one of the newest of them.
func CountBehind(t *Tx, last int64) error {
	counted, err := t.Number(`SELECT ` + countedSeq)
	if err != nil || last-counted < t.Ledger.countEvery {
		return err
	}
	return countUpTo(t.transaction, last)
}

// Uncounted returns the SQL condition that many rows are uncounted, and its two arguments. Such rows arise because a
// send does not count while others insert rows at the same time. The parameter ?number is the threshold, and the next
// parameter is the largest seq that is accepted.
func Uncounted(l *Ledger, number int) (condition string, args []any) {
	return fmt.Sprintf(`EXISTS (SELECT 1 FROM agent_message WHERE seq >= %s + ?%d AND seq <= ?%d)`, countedSeq, number,
			number+1),
		[]any{2 * l.countEvery, store.MaxNumber}
}

// CountNew counts the rows that are not yet counted, if there are many.
func CountNew(t *Tx) error {
	last, err := t.Number(`SELECT coalesce(max(seq), 0) FROM agent_message WHERE seq <= ?1`, store.MaxNumber)
	if err != nil {
		return err
	}
	return CountBehind(t, last)
}

// CountAdopted updates the counts for a row whose status is about to become to. from is the last status that the
// engine recorded for the row, or "". recipient must be the row's recipient.
func CountAdopted(t *Tx, seq int64, recipient string, from, to orchestrator.Status) error {
	counted, err := t.Number(`SELECT `+countedSeq+` >= ?1`, seq)
	if err != nil || counted == 0 {
		return err
	}
	return countMoved(t, recipient, from, to, 1)
}

// countMoved moves n rows of a recipient from one status to another in the counts. If from is not one of the engine's
// statuses, the rows were not counted before.
func countMoved(t *Tx, recipient string, from, to orchestrator.Status, n int64) error {
	if slices.Contains(orchestrator.Statuses, from) {
		if err := t.Run(store.AddCount, recipient, from, -n); err != nil {
			return err
		}
	}
	return t.Run(store.AddCount, recipient, to, n)
}

// countChanges updates the counts for rows whose status is about to become to.
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

// countUnread counts the unread messages of all inboxes.
const countUnread = `
	INSERT INTO message_count (recipient, state, n)
	SELECT recipient, 'unread', count(*) FROM agent_inbox WHERE read_at = '' GROUP BY recipient`

// CountArchived adds n rows to the count of the archive. A trigger counts the rows that leave the archive.
func CountArchived(t *Tx, n int64) error { return t.Run(store.AddCount, "", Archived, n) }

// notInInbox reports whether an inbox lacks a message of temp.batch.
const notInInbox = `
	SELECT EXISTS (SELECT 1 FROM agent_message m WHERE seq IN (SELECT seq FROM temp.batch)
	    AND NOT EXISTS (SELECT 1 FROM agent_inbox i WHERE i.message_id = m.message_id AND i.recipient = m.recipient))`

// DeliverBatch delivers the rows of temp.batch through a table and updates the counts of unread messages. recipients
// holds the number of rows per recipient. It fails if a trigger kept a row out of the inbox, see store.ErrDropped. A
// transport other than the inbox may have put messages into any inbox; all unread messages are then counted again.
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
	if inserted != 0 {
		if missing, err := t.Number(notInInbox); err != nil || missing != 0 {
			return cmp.Or(err, store.Refused(store.ErrDropped))
		}
	}
	for recipient, n := range recipients {
		if inserted == 0 {
			err = t.Run(store.AddCount, recipient, Unread, n)
		} else { // some messages were already in the inbox
			err = recountUnread(t, recipient)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recountUnread counts the unread messages of an inbox again.
func recountUnread(t *Tx, recipient string) error {
	return t.Run(`
		INSERT INTO message_count (recipient, state, n)
		SELECT ?1, 'unread', count(*) FROM agent_inbox WHERE recipient = ?1 AND read_at = ''
		ON CONFLICT (recipient, state) DO UPDATE SET n = excluded.n`, recipient)
}

// Counts returns the number of messages in each state, by recipient. A row that others wrote or changed is counted
// under the status that the engine last recorded for it.
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

// Miscounted describes each count that differs from the rows. A difference arises from a change by hand that neither
// the engine nor a trigger notices. Miscounted reads all rows.
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

// Recount counts all messages again. The triggers and the engine normally keep the counts; Recount repairs them after
// a change by hand that neither notices, such as INSERT OR REPLACE.
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
