package sqlite

import (
	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator/store"
)

// The number of a row is given by SQLite: one more than the largest there ever was. Somebody may write any other by
// hand. After the largest that there can be, SQLite gives none any more, and nobody could send, or do anything else
// that is traced. One that an archived message has would keep its message, and all that are archived with it, out of
// the archive.

// Again reports whether a statement failed because SQLite had no number left, which it calls a full disk. Then the
// transaction is to be undone, and the next run of the batch begins with giving it some, once.
func (w *backend) Again(failure error) bool {
	if w.renumber || sqliteCode(failure) != sqlite3.ErrFull {
		return false
	}
	for _, n := range store.Numbered {
		last, err := w.c.Number(`SELECT ` + lastNumber(n.Table, n.Column))
		w.renumber = w.renumber || err == nil && last >= store.AlarmedNumber
	}
	return w.renumber
}

// lastNumber is the largest number that SQLite goes on from, as an expression.
func lastNumber(table, column string) string {
	return `max(coalesce((SELECT max(` + column + `) FROM ` + table + `), 0),
		coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '` + table + `'), 0))`
}

// Renumber gives rows whose numbers are out of range the numbers that come next, in their order. A row that cannot be
// changed keeps its own.
func (c *conn) Renumber() error {
	for _, n := range store.Numbered {
		if err := c.renumberTable(n.Table, n.Column); err != nil {
			return err
		}
	}
	return nil
}

// RenumberMessages is Renumber for messages alone, and for those in the archive.
func (c *conn) RenumberMessages() error {
	const archived = `coalesce((SELECT max(seq) FROM agent_message_archive), 0)`
	last, err := c.Number(`SELECT max(` + archived + `, ` + lastNumber("agent_message", "seq") + `)`)
	if err != nil || last <= store.MaxNumber {
		return err
	}
	for _, table := range []string{"agent_message_archive", "agent_message"} {
		if err := c.renumberTable(table, "seq"); err != nil {
			return err
		}
	}
	_, err = c.Exec(`UPDATE sqlite_sequence SET seq = max(seq, ` + archived + `) WHERE name = 'agent_message'`)
	return err
}

func (c *conn) renumberTable(table, column string) error {
	used := []string{`SELECT max(` + column + `) FROM ` + table + ` WHERE ` + column + ` <= ?`}
	if column == "seq" { // rows of the one table are moved into the other, and counted up to a number
		used = append(used, `SELECT max(seq) FROM agent_message WHERE seq <= ?`,
			`SELECT max(seq) FROM agent_message_archive WHERE seq <= ?`,
			`SELECT max(n) FROM message_count WHERE recipient = '' AND state = 'counted' AND n <= ?`,
			// and an agent owns what is behind it
			`SELECT max(CAST(value AS INTEGER)) FROM settings WHERE key LIKE 'former.%'
				AND CAST(value AS INTEGER) <= ?`)
	}
	next := int64(0)
	for _, query := range used {
		last, err := c.Number(query, store.MaxNumber)
		if err != nil {
			return err
		}
		next = max(next, last)
	}
	var beyond []int64
	err := c.Query(`SELECT `+column+` FROM `+table+` WHERE `+column+` > ?1 ORDER BY 1`, func(row store.Row) error {
		beyond = append(beyond, row.Int(0))
		return nil
	}, store.MaxNumber)
	if err != nil {
		return err
	}
	for _, number := range beyond {
		next++
		if _, err := c.Exec(`UPDATE `+table+` SET `+column+` = ? WHERE `+column+` = ?`, next, number); err != nil &&
			c.Broken() {
			return err
		}
	}
	_, err = c.Exec(`UPDATE sqlite_sequence SET seq = ? WHERE name = ?`, next, table)
	return err
}

// RenumberArchived gives the rows of temp.batch whose number an archived message has the numbers that come next.
func (c *conn) RenumberArchived() error {
	var taken []int64
	err := c.Query(`SELECT b.seq FROM temp.batch b JOIN agent_message_archive a ON a.seq = b.seq ORDER BY b.seq`,
		func(row store.Row) error {
			taken = append(taken, row.Int(0))
			return nil
		})
	if err != nil || len(taken) == 0 {
		return err
	}
	next, err := c.Number(`SELECT max(` + lastNumber("agent_message", "seq") +
		`, (SELECT max(seq) FROM agent_message_archive))`)
	if err != nil {
		return err
	}
	for _, seq := range taken {
		next++
		for _, statement := range []string{`UPDATE agent_message SET seq = ? WHERE seq = ?`,
			`UPDATE temp.batch SET seq = ? WHERE seq = ?`} {
			if _, err := c.Exec(statement, next, seq); err != nil {
				return err
			}
		}
	}
	_, err = c.Exec(`UPDATE sqlite_sequence SET seq = ? WHERE name = 'agent_message'`, next)
	return err
}
