package orchestrator

import (
	"database/sql/driver"
	"errors"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// The number of a row, seq, is given by SQLite: one more than the largest there ever was. Somebody may write any other by hand.
// After the largest that there can be, SQLite gives none any more, and nobody could send. One that an archived message has
// would keep its message, and all that are archived with it, out of the archive.
const (
	maxNumber     = 1 << 53 // the largest that is believed
	alarmedNumber = 1 << 62 // from here on rows are numbered anew
)

// outOfNumbers reports whether a transaction was undone because SQLite had no number left, which it calls a full disk. Then the
// next run of the batch begins with giving it some, once.
func (w *writer) outOfNumbers(failure error) bool {
	var own sqlite3.Error
	if w.renumber || !errors.As(failure, &own) || own.Code != sqlite3.ErrFull {
		return false
	}
	last, err := w.c.number(`SELECT ` + lastNumber)
	w.renumber = err == nil && last >= alarmedNumber
	return w.renumber
}

// lastNumber is the largest number that SQLite goes on from, as an expression.
const lastNumber = `max(coalesce((SELECT max(seq) FROM agent_message), 0), coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'agent_message'), 0))`

// newest is the largest number that is believed of all messages that there are; 0 when there is none.
func (c *conn) newest() (int64, error) {
	return c.number(`SELECT max(coalesce((SELECT max(seq) FROM agent_message WHERE seq <= ?1), 0),
		coalesce((SELECT max(seq) FROM agent_message_archive WHERE seq <= ?1), 0))`, maxNumber)
}

// renumber gives rows whose numbers are beyond belief the numbers that come next, in their order. A row that cannot be changed
// keeps its own.
func (t *transaction) renumber() error {
	next, err := t.newest()
	if err != nil {
		return err
	}
	var beyond []int64
	err = t.query(`SELECT seq FROM agent_message WHERE seq > ? ORDER BY seq`, func(row []driver.Value) error {
		beyond = append(beyond, asInt(row[0]))
		return nil
	}, maxNumber)
	if err != nil {
		return err
	}
	for _, seq := range beyond {
		next++
		if _, err := t.Exec(`UPDATE agent_message SET seq = ? WHERE seq = ?`, next, seq); err != nil {
			if t.raw.AutoCommit() {
				return err
			}
		}
	}
	_, err = t.Exec(`UPDATE sqlite_sequence SET seq = ? WHERE name = 'agent_message'`, next)
	return err
}

// renumberArchived gives the rows of temp.batch whose number an archived message has the numbers that come next.
func (t *tx) renumberArchived() error {
	var taken []int64
	err := t.query(`SELECT b.seq FROM temp.batch b JOIN agent_message_archive a ON a.seq = b.seq ORDER BY b.seq`, func(row []driver.Value) error {
		taken = append(taken, asInt(row[0]))
		return nil
	})
	if err != nil || len(taken) == 0 {
		return err
	}
	next, err := t.number(`SELECT max(` + lastNumber + `, (SELECT max(seq) FROM agent_message_archive))`)
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
