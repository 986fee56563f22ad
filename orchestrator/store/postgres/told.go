package postgres

import (
	"database/sql/driver"
	"slices"

	"mailroom/orchestrator/store/postgres/wire"
)

// answer is what a reader was told by a statement, so that another connection can be asked whether it says the same.
type answer struct {
	text  string
	args  []driver.NamedValue
	batch []int64 // the rows at hand
	sum   uint64  // of the rows
}

// mostTold bounds the answers that a reader remembers; the engine's have fewer statements. Whoever was told more is not
// told the rest by another connection.
const mostTold = 200

// QueryBound runs a statement, on another connection if this one is lost. Where all statements are to see one state,
// that one is asked first what was told before: callers have made something of it already, and cannot begin anew.
func (r *reader) QueryBound(text string, args []driver.NamedValue) (driver.Rows, int, error) {
	args = slices.Clone(args) // which are only valid until the next statement
	found, columns, err := r.conn.QueryBound(text, args)
	for tries := 0; isLost(err) && tries < maxTries && r.ctx.Err() == nil; tries++ {
		lost := err
		if err = r.renew(); err != nil {
			continue
		}
		same, asked := r.same()
		if err = asked; err == nil && !same {
			return nil, 0, lost
		}
		if err == nil {
			found, columns, err = r.conn.QueryBound(text, args)
		}
	}
	if r.snapshot && err == nil && len(r.told) <= mostTold {
		r.told = append(r.told, answer{text, args, slices.Clone(r.Batch), found.(*wire.Rows).Sum()})
	}
	return found, columns, err
}

// same reports whether the connection says what was told before.
func (r *reader) same() (bool, error) {
	batch := r.Batch
	defer func() { r.Batch = batch }()
	for _, a := range r.told {
		r.Batch = a.batch
		found, _, err := r.conn.QueryBound(a.text, a.args)
		if err != nil || found.(*wire.Rows).Sum() != a.sum {
			return false, err
		}
	}
	return len(r.told) <= mostTold, nil
}
