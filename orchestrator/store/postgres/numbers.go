package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom/orchestrator/store"
)

// numbered are the tables whose rows the server numbers, and the column that it numbers them in, by the constraint that fails when
// somebody has written the number that comes next by hand.
var numbered = map[string]struct{ table, column string }{
	"agent_message_pkey": {"agent_message", "seq"}, "message_trace_pkey": {"message_trace", "id"}, "command_trace_pkey": {"command_trace", "id"},
}

// isTaken reports whether a row could not be written since its number was taken.
func isTaken(err error) bool {
	var own *pgconn.PgError
	if !errors.As(err, &own) || own.Code != uniqueViolation {
		return false
	}
	_, is := numbered[own.ConstraintName]
	return is
}

// renumber has the server go on behind the largest number that is believed.
func (c *conn) renumber(ctx context.Context) error {
	var script strings.Builder
	for _, n := range numbered {
		fmt.Fprintf(&script, "SELECT setval(s, greatest(nextval(s), (SELECT max(%[2]s) FROM %[1]s WHERE %[2]s <= %[3]d))) FROM pg_get_serial_sequence('%[1]s', '%[2]s') AS s;",
			n.table, n.column, store.MaxNumber)
	}
	return c.script(ctx, script.String())
}
