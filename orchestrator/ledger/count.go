package ledger

import (
	"fmt"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// The states in message_count that are no statuses: what is in an inbox and was not read, and what is in the archive.
const (
	Unread   orchestrator.Status = "unread"
	Archived orchestrator.Status = "archived"
)

// countedBy is the expression for the recipient under which message_count has a row with the status traced_status: only what
// waits is counted for each.
const countedBy = `CASE WHEN traced_status IN ('pending','retry') THEN recipient ELSE '' END`

// count adds n to the number of messages to a recipient in a state.
func count(t *transaction, recipient string, state orchestrator.Status, n int64) error {
	if state != orchestrator.Pending && state != orchestrator.Retry && state != Unread {
		recipient = ""
	}
	return t.Run(store.AddCount, recipient, state, n)
}

// countedSeq is the seq up to which rows are counted by their status. It moves on once in Options.CountEvery rows, so that a send
// need not write a count; what is behind it is counted when it is asked for. It is a row of message_count itself.
const countedSeq = `(SELECT coalesce(max(n), 0) FROM message_count WHERE recipient = '' AND state = 'counted')`

// countUpTo counts the rows that are not counted yet, up to last.
func countUpTo(t *transaction, last int64) error {
	if err := t.Run(`
		INSERT INTO message_count (recipient, state, n)
		SELECT `+countedBy+`, traced_status, count(*) FROM agent_message
		WHERE seq > `+countedSeq+` AND seq <= ?1 AND traced_status <> '' GROUP BY 1, 2
		ON CONFLICT (recipient, state) DO UPDATE SET n = message_count.n + excluded.n`, last); err != nil {
		return err
	}
	return t.Run(`INSERT INTO message_count (recipient, state, n) VALUES ('', 'counted', ?1)
		ON CONFLICT (recipient, state) DO UPDATE SET n = excluded.n`, last)
}

// CountAdopted counts a row whose status and recipient are about to become these. from is the status under which it was known,
// "" for none.
func CountAdopted(t *Tx, seq int64, recipient string, from, to orchestrator.Status) error {
	counted, err := t.Number(`SELECT `+countedSeq+` >= ?1`, seq)
	if err != nil || counted == 0 {
		return err
	}
	if from != "" {
		if err := count(t.transaction, recipient, from, -1); err != nil {
			return err
		}
	}
	return count(t.transaction, recipient, to, 1)
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
	}, `SELECT recipient, traced_status, count(*) FROM agent_message WHERE `+rows.Where+` AND seq <= `+countedSeq+` GROUP BY recipient, traced_status`, args...)
	for _, g := range groups {
		if g.from != "" {
			if err := count(t.transaction, g.recipient, g.from, -g.n); err != nil {
				return err
			}
		}
		if err := count(t.transaction, g.recipient, to, g.n); err != nil {
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
func CountArchived(t *Tx, n int64) error { return count(t.transaction, "", Archived, n) }

// DeliverBatch delivers the rows of temp.batch, so many to each recipient, through a table, and counts what is unread now. A
// transport other than that into inboxes may have put them into any inbox: then all are counted anew.
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
			err = count(t.transaction, recipient, Unread, int64(n))
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

// Counts returns how many messages there are in each state, by recipient; under "" those whose state is counted for all together.
// A row that others wrote or changed counts as the engine last knew it.
func Counts(c *store.Conn) (counts map[string]map[orchestrator.Status]int64, err error) {
	counts = map[string]map[orchestrator.Status]int64{}
	err = c.Query(`
		SELECT recipient, state, n FROM message_count WHERE state <> 'counted'
		UNION ALL
		SELECT `+countedBy+` AS recipient, traced_status, count(*) FROM agent_message
		WHERE seq > `+countedSeq+` AND traced_status <> '' GROUP BY 1, 2`, func(row store.Row) error {
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

// Miscounted describes each count that is not what the rows say: somebody changed them by hand in a way that neither the engine
// nor a trigger sees. It reads all rows.
func Miscounted(c *store.Conn) ([]string, error) {
	return store.List(c, func(row store.Row) string {
		return fmt.Sprintf("%s of %q: %+d", row.Text(1), row.Text(0), row.Int(2))
	}, `
		SELECT recipient, state, sum(n) FROM (
		    SELECT recipient, state, n FROM message_count WHERE state <> 'counted'
		    UNION ALL
		    SELECT `+countedBy+` AS recipient, traced_status, -count(*) FROM agent_message
		    WHERE seq <= `+countedSeq+` AND traced_status <> '' GROUP BY 1, 2
		    UNION ALL
		    SELECT recipient, 'unread', -count(*) FROM agent_inbox WHERE read_at = '' GROUP BY recipient
		    UNION ALL
		    SELECT '', 'archived', -count(*) FROM agent_message_archive) AS c
		GROUP BY recipient, state HAVING sum(n) <> 0 ORDER BY recipient, state`)
}

// Recount counts all messages anew. The triggers and the engine keep the counts; this is for what somebody did by hand that
// neither sees, such as a row moved to another recipient.
func Recount(t *Tx) error {
	for _, statement := range []string{
		`DELETE FROM message_count WHERE true`,
		`INSERT INTO message_count (recipient, state, n)
		 SELECT ` + countedBy + `, traced_status, count(*) FROM agent_message WHERE traced_status <> '' GROUP BY 1, 2`,
		countUnread,
		`INSERT INTO message_count (recipient, state, n) SELECT '', 'archived', count(*) FROM agent_message_archive`,
		`INSERT INTO message_count (recipient, state, n) SELECT '', 'counted', coalesce(max(seq), 0) FROM agent_message`,
	} {
		if err := t.Run(statement); err != nil {
			return err
		}
	}
	return nil
}
