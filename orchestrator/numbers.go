package orchestrator

import (
	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator/store"
)

// The number of a row is given by SQLite: one more than the largest there ever was. Somebody may write any other by hand. After
// the largest that there can be, SQLite gives none any more, and nobody could send, or do anything else that is traced. One that
// an archived message has would keep its message, and all that are archived with it, out of the archive.
const (
	maxNumber     = 1 << 53 // the largest that is believed
	alarmedNumber = 1 << 62 // from here on rows are numbered anew
)

// numbered are the tables whose rows have such numbers, and the column that has them.
var numbered = []struct{ table, column string }{{"agent_message", "seq"}, {"message_trace", "id"}, {"command_trace", "id"}}

// outOfNumbers reports whether a statement failed because SQLite had no number left, which it calls a full disk. Then the
// transaction is to be undone, and the next run of the batch begins with giving it some, once.
func (w *writer) outOfNumbers(failure error) bool {
	if w.renumber || sqliteCode(failure) != sqlite3.ErrFull {
		return false
	}
	for _, n := range numbered {
		last, err := w.c.number(`SELECT ` + lastNumber(n.table, n.column))
		w.renumber = w.renumber || err == nil && last >= alarmedNumber
	}
	return w.renumber
}

// lastNumber is the largest number that SQLite goes on from, as an expression.
func lastNumber(table, column string) string {
	return `max(coalesce((SELECT max(` + column + `) FROM ` + table + `), 0),
		coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '` + table + `'), 0))`
}

// newest is the largest number that is believed of all messages that there are; 0 when there is none.
func (c *conn) newest() (int64, error) {
	return c.number(`SELECT coalesce(max(seq), 0) FROM (SELECT max(seq) AS seq FROM agent_message WHERE seq <= ?1
		UNION ALL SELECT max(seq) FROM agent_message_archive WHERE seq <= ?1) AS n`, maxNumber)
}

// renumber gives rows whose numbers are beyond belief the numbers that come next, in their order. A row that cannot be changed
// keeps its own.
func (t *transaction) renumber() error {
	for _, n := range numbered {
		if err := t.renumberTable(n.table, n.column); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) renumberTable(table, column string) error {
	next, err := t.number(`SELECT max(`+column+`) FROM `+table+` WHERE `+column+` <= ?`, maxNumber)
	if err != nil {
		return err
	}
	if table == "agent_message" {
		if next, err = t.newest(); err != nil {
			return err
		}
	}
	var beyond []int64
	err = t.query(`SELECT `+column+` FROM `+table+` WHERE `+column+` > ?1 ORDER BY 1`, func(row store.Row) error {
		beyond = append(beyond, row.Int(0))
		return nil
	}, maxNumber)
	if err != nil {
		return err
	}
	next = max(next, 0)
	for _, number := range beyond {
		next++
		if _, err := t.Exec(`UPDATE `+table+` SET `+column+` = ? WHERE `+column+` = ?`, next, number); err != nil && t.raw.AutoCommit() {
			return err
		}
	}
	_, err = t.Exec(`UPDATE sqlite_sequence SET seq = ? WHERE name = ?`, next, table)
	return err
}

// renumberArchived gives the rows of temp.batch whose number an archived message has the numbers that come next.
func (t *tx) renumberArchived() error {
	var taken []int64
	err := t.query(`SELECT b.seq FROM temp.batch b JOIN agent_message_archive a ON a.seq = b.seq ORDER BY b.seq`, func(row store.Row) error {
		taken = append(taken, row.Int(0))
		return nil
	})
	if err != nil || len(taken) == 0 {
		return err
	}
	next, err := t.number(`SELECT max(` + lastNumber("agent_message", "seq") + `, (SELECT max(seq) FROM agent_message_archive))`)
	if err != nil {
		return err
	}
	for _, seq := range taken {
		next++
		for _, statement := range []string{`UPDATE agent_message SET seq = ? WHERE seq = ?`, `UPDATE temp.batch SET seq = ? WHERE seq = ?`} {
			if _, err := t.Exec(statement, next, seq); err != nil {
				return err
			}
		}
	}
	_, err = t.Exec(`UPDATE sqlite_sequence SET seq = ? WHERE name = 'agent_message'`, next)
	return err
}
