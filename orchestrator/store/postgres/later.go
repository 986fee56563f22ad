package postgres

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom/orchestrator/store"
)

// A call is a statement with the values of its parameters.
type call struct {
	*statement
	values [][]byte
}

// call prepares a statement and its values.
func (c *conn) call(text string, args []driver.NamedValue) (call, error) {
	s, err := c.prepare(text)
	if err != nil {
		return call{}, err
	}
	values := make([][]byte, len(s.arguments))
	for i, n := range s.arguments {
		switch {
		case n == batchArgument:
			values[i] = array(c.batch)
		case n > len(args):
			return call{}, fmt.Errorf("argument %d is missing for %s", n, text)
		default:
			values[i] = encode(s.ParamOIDs[i], args[n-1].Value)
		}
	}
	return call{s, values}, nil
}

// run runs a statement, after those that are still to be run, and reads all of its answer: nothing else can be run on a connection
// before.
func (c *conn) run(text string, args []driver.NamedValue) (*pgconn.Result, *statement, error) {
	if result, s := c.ahead(text, args); result != nil {
		return result, s, nil
	}
	next, err := c.call(text, args)
	if err != nil {
		return nil, nil, err
	}
	if len(c.later) == 0 && !c.setsFirst() {
		var result *pgconn.Result
		if next.Name == "" {
			result = c.raw.ExecParams(context.Background(), next.SQL, next.values, next.ParamOIDs, nil, nil).Read()
		} else {
			result = c.raw.ExecPrepared(context.Background(), next.Name, next.values, nil, nil).Read()
		}
		return result, next.statement, result.Err
	}
	results, err := c.runAll(context.Background(), func(p *pgconn.Pipeline) {
		if c.setsFirst() {
			p.SendQueryParams(c.settings, nil, nil, nil, nil)
		}
		next.send(p)
	})
	if err != nil {
		return nil, nil, err
	}
	return results[len(results)-1], next.statement, nil
}

// opening is the query with which a transaction began: the ledger begins each with the same. It is sent together with the BEGIN of the
// next one, which saves a round trip.
type opening struct {
	text   string         // "" is none
	here   bool           // nothing was asked for in this transaction yet
	answer *pgconn.Result // in this transaction, until that
}

// sendOpening sends it.
func (c *conn) sendOpening(p *pgconn.Pipeline) {
	c.opening.here, c.opening.answer = false, nil
	if s := c.stmts[c.opening.text]; s != nil && s.Name != "" && s.does == leaves && !s.writes {
		p.SendQueryPrepared(s.Name, nil, nil, nil)
	}
}

// ahead returns the answer to the first query of a transaction, if it was sent ahead, and notes what to send ahead the next time.
func (c *conn) ahead(text string, args []driver.NamedValue) (*pgconn.Result, *statement) {
	if !c.opening.here {
		return nil, nil
	}
	answer := c.opening.answer
	c.opening.here, c.opening.answer = false, nil
	if text == c.opening.text {
		return answer, c.stmts[text]
	}
	if c.opening.text = ""; len(args) == 0 {
		c.opening.text = text
	}
	return nil, nil
}

// send sends it in a pipeline.
func (c call) send(p *pgconn.Pipeline) {
	if c.Name == "" {
		p.SendQueryParams(c.SQL, c.values, c.ParamOIDs, nil, nil)
	} else {
		p.SendQueryPrepared(c.Name, c.values, nil, nil)
	}
}

// maxLater bounds the statements that are still to be run.
const maxLater = 256

// RunLater runs a statement together with the next one, or with the commit: that saves a round trip.
func (c *conn) RunLater(text string, args []driver.NamedValue) error {
	c.opening.here = false
	if inBatch().MatchString(text) || len(c.later) >= maxLater || c.raw.TxStatus() != 'T' {
		_, err := c.ExecBound(text, args)
		return err
	}
	next, err := c.call(text, args)
	if err == nil {
		c.later = append(c.later, next)
	}
	return err
}

// RunRest runs what is still to be run.
func (c *conn) RunRest() error {
	if len(c.later) == 0 {
		return nil
	}
	_, err := c.runAll(context.Background(), func(*pgconn.Pipeline) {})
	return err
}

// returning is added to an INSERT whose number is asked for. lastval would tell that of a row which a trigger inserts.
const returning = " RETURNING seq"

// InsertBound runs an INSERT of one row into a table whose rows are numbered by seq, and returns the number that it got.
func (c *conn) InsertBound(text string, args []driver.NamedValue) (int64, error) {
	result, _, err := c.run(text+returning, args)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(result.Rows[0][0]), 10, 64)
}

// runAll runs what is still to be run, and then what last sends, in one round trip. It returns the results of all. Error: store.Later
// for the failure of an earlier one; none of those behind it was run then.
func (c *conn) runAll(ctx context.Context, last func(p *pgconn.Pipeline)) (results []*pgconn.Result, err error) {
	later := c.later
	c.later = c.later[:0]
	for i := range later { // before the pipeline begins
		if i > 0 && later[i].statement == later[i-1].statement {
			if err := c.prepareBulk(later[i].statement); err != nil {
				return nil, err
			}
		}
	}
	p := c.raw.StartPipeline(ctx)
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
		if err = failure; err != nil && left > 0 && codeOf(err) != "" {
			err = &store.Later{Err: err}
		}
		left--
	}
	if ended := p.Close(); err == nil {
		err = ended
	}
	return results, err
}
