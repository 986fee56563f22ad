package wire

import (
	"context"
	"database/sql/driver"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom/orchestrator/store"
)

// maxLater bounds the statements that are still to be run.
const maxLater = 256

// RunLater runs a statement together with the next one, or with the commit: that saves a round trip.
func (c *Conn) RunLater(text string, args []driver.NamedValue) error {
	c.opening.here = false
	if inBatch().MatchString(text) || len(c.later) >= maxLater || c.Raw.TxStatus() != 'T' {
		_, err := c.ExecBound(text, args)
		return err
	}
	next, err := c.bind(text, args)
	if err == nil {
		c.later = append(c.later, next)
	}
	return err
}

// RunRest runs what is still to be run.
func (c *Conn) RunRest() error {
	if len(c.later) == 0 {
		return nil
	}
	_, err := c.runAll(context.Background(), func(*pgconn.Pipeline) {})
	return err
}

// returning is added to an INSERT whose number is asked for. lastval would tell that of a row which a trigger inserts.
const returning = " RETURNING seq"

// InsertBound runs an INSERT of one row into a table whose rows are numbered by seq, and returns the number that it
// got. It fails if the row was dropped, see store.ErrDropped.
func (c *Conn) InsertBound(text string, args []driver.NamedValue) (int64, error) {
	result, _, err := c.run(text+returning, args)
	if err != nil {
		return 0, err
	}
	if len(result.Rows) == 0 {
		return 0, store.Refused(store.ErrDropped)
	}
	return strconv.ParseInt(string(result.Rows[0][0]), 10, 64)
}

// runAll runs what is still to be run, and then what last sends, in one round trip. It returns the results of all.
// Error: store.Later for the failure of an earlier one; none of those behind it was run then.
func (c *Conn) runAll(ctx context.Context, last func(p *pgconn.Pipeline)) (results []*pgconn.Result, err error) {
	later := c.later
	c.later = c.later[:0]
	for i := range later { // before the pipeline begins
		if i > 0 && later[i].statement == later[i-1].statement {
			if err := c.prepareBulk(later[i].statement); err != nil {
				return nil, err
			}
		}
	}
	p := c.Raw.StartPipeline(ctx)
	left := 0
	for len(later) > 0 {
		n := 1
		for n < len(later) && later[n].statement == later[0].statement {
			n++
		}
		left += c.send(p, later[:n])
		later = later[n:]
	}
	last(p)
	if err := p.Sync(); err != nil {
		return nil, err
	}
	for err == nil {
		answer, failure := p.GetResults()
		reader, is := answer.(*pgconn.ResultReader)
		if failure == nil && !is {
			break // all was read
		}
		if is {
			result := reader.Read()
			results, failure = append(results, result), result.Err
		}
		if err = failure; err != nil && left > 0 && errors.As(err, new(*pgconn.PgError)) {
			err = &store.Later{Err: err}
		}
		left--
	}
	if ended := p.Close(); err == nil {
		err = ended
	}
	return results, c.noted(err)
}
