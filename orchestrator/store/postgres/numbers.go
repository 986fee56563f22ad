package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom/orchestrator/store"
)

// isTaken reports whether a row could not be written because its number was taken: somebody has written a row with
// the next number by hand.
func isTaken(err error) bool {
	var own *pgconn.PgError
	if !errors.As(err, &own) || own.Code != uniqueViolation {
		return false
	}
	table, isPrimary := strings.CutSuffix(own.ConstraintName, "_pkey")
	return isPrimary &&
		slices.ContainsFunc(store.Numbered, func(n struct{ Table, Column string }) bool { return n.Table == table })
}

// RenumberMessages gives new numbers to messages whose numbers are out of range. They get the next numbers, in their
// order.
func (c *conn) RenumberMessages() error {
	for _, table := range []string{"agent_message_archive", "agent_message"} {
		if _, err := (&store.Conn{Driver: c}).Exec(`UPDATE `+table+
			` AS m SET seq = n.next FROM (SELECT seq, nextval('agent_message_seq_seq') AS next
			FROM (SELECT seq FROM `+table+` WHERE seq > ?1 ORDER BY seq) AS beyond) AS n WHERE m.seq = n.seq`,
			store.MaxNumber); err != nil {
			return err
		}
	}
	return nil
}

// RenumberArchived gives the next numbers to the rows of temp.batch whose numbers are used by archived messages.
func (c *conn) RenumberArchived() error {
	conn, taken := &store.Conn{Driver: c}, []int64{}
	err := conn.Query(`SELECT seq FROM agent_message_archive WHERE seq IN (SELECT seq FROM temp.batch)`,
		func(row store.Row) error {
			taken = append(taken, row.Int(0))
			return nil
		})
	for i := 0; i < len(taken) && err == nil; i++ {
		err = conn.Query(`UPDATE agent_message SET seq = nextval('agent_message_seq_seq') WHERE seq = ? RETURNING seq`,
			func(row store.Row) error {
				c.Batch[slices.Index(c.Batch, taken[i])] = row.Int(0)
				return nil
			}, taken[i])
	}
	return err
}

// renumber makes the server continue after the largest accepted number.
func renumber(c *conn, ctx context.Context) error {
	var script strings.Builder
	for _, n := range store.Numbered {
		fmt.Fprintf(&script,
			"SELECT setval(s, greatest(nextval(s), (SELECT max(%[2]s) FROM %[1]s WHERE %[2]s <= %[3]d))) FROM pg_get_serial_sequence('%[1]s', '%[2]s') AS s;",
			n.Table, n.Column, store.MaxNumber)
	}
	return c.Do(ctx, script.String())
}
