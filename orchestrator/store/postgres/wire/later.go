package wire

import (
	"context"
	"database/sql/driver"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom/orchestrator/store"
)

// maxLater is the maximum number of statements that are put off.
const maxLater = 256

// RunLater puts a statement off, to run together with the next one or with the commit, which saves a round trip.
func (c *Conn) RunLater(text string, args []driver.NamedValue) error {
	c.opening.here = false
	if inBatch().MatchString(text) || c.Raw.TxStatus() != 'T' {
		_, err := c.ExecBound(text, args)
		return err
	}
	next, err := c.bind(text, args)
	if err != nil {
		return err
	}
	if c.later = append(c.later, next); len(c.later) > maxLater {
		return c.RunRest()
	}
	return nil
}

// InsertLater puts off an INSERT of one row. It fails if the row was discarded, see store.ErrDropped.
func (c *Conn) InsertLater(text string, args []driver.NamedValue) error {
	return c.RunLater(text+counting, args)
}

// counting is appended to an INSERT that must fail if a row was discarded, see counted.
const counting = " RETURNING 1"

// counted returns a statement that runs an INSERT and fails with the code invalidLogarithm unless the number of its
// rows is rows. The server must check the number, because the same round trip may commit.
func counted(insert, rows string) string {
	return "WITH kept AS (" + insert + counting + ") SELECT ln((count(*) = " + rows + ")::int) FROM kept"
}

// invalidLogarithm is the server's error code for ln(0), which the engine uses nowhere else.
const invalidLogarithm = "2201E"

// RunRest runs the statements that were put off.
func (c *Conn) RunRest() error {
	if len(c.later) == 0 {
		return nil
	}
	_, err := c.runAll(context.Background(), func(*pgconn.Pipeline) {})
	return err
}

// returning is appended to an INSERT to get the number of the row. lastval could return the number of a row that a
// trigger inserts.
const returning = " RETURNING seq"

// InsertBound runs an INSERT of one row into a table that is numbered by seq, and returns the number of the row. It
// fails if the row was discarded, see store.ErrDropped.
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

// runAll runs the statements that were put off and then those that last sends, in one round trip, and returns all
// results. The error is a store.Later if a statement that was put off failed; the statements after the failed one
// have not run.
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
			break // all results have been read
		}
		if is {
			result := reader.Read()
			results, failure = append(results, result), result.Err
		}
		err = failure
		if own, is := errors.AsType[*pgconn.PgError](err); is && left > 0 {
			if own.Code == invalidLogarithm {
				err = store.Refused(store.ErrDropped)
			}
			err = &store.Later{Err: err}
		}
		left--
	}
	if ended := p.Close(); err == nil {
		err = ended
	}
	return results, c.noted(err)
}
