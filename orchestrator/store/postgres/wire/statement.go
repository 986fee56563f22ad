package wire

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom/orchestrator/pattern"
	"mailroom/orchestrator/store"
)

// statement is a prepared statement.
type statement struct {
	*pgconn.StatementDescription
	arguments []int // the caller's argument for each parameter, counted from 1; batchArgument: the current rows
	does      batchWork
	writes    bool
	insert    string // for a statement of InsertLater, its INSERT
	bulk      *bulk  // form for many calls at once; set if bulked is set
	bulked    bool
}

// batchWork is how a statement changes the current rows.
type batchWork int

const (
	leaves  batchWork = iota
	adds              // adds its rows to the current rows
	removes           // removes its rows from the current rows
)

// inBatch matches the beginning of statements that change the current rows, up to the part that selects the rows.
var inBatch = pattern.New(`^\s*(INSERT INTO temp\.batch \(seq\)|DELETE FROM temp\.batch)`)

// reading returns the query that selects the rows, for a statement that changes the current rows.
func reading(text string) (query string, does batchWork) {
	switch found := inBatch().FindString(text); {
	case found == "":
		return text, leaves
	case strings.Contains(found, "INSERT"):
		return text[len(found):], adds
	}
	return strings.Replace(text, "DELETE FROM", "SELECT seq FROM", 1), removes
}

// maxStatements is the number of prepared statements that a connection keeps. The engine has fewer; only ad hoc
// statements accumulate.
const maxStatements = 1000

// prepare returns a statement that is about to run.
func (c *Conn) prepare(text string) (*statement, error) {
	s := c.statements[text]
	if s == nil {
		if len(c.statements) >= maxStatements {
			if c.Settings == "" {
				if err := c.Do(context.Background(), "DEALLOCATE ALL"); err != nil {
					return nil, err
				}
			}
			clear(c.statements)
			clear(c.own)
		}
		query, does := reading(text)
		sql, arguments := rewrite(query)
		insert := ""
		if bare, is := strings.CutSuffix(sql, counting); is {
			insert, sql = bare, counted(bare, "1")
		}
		description, err := c.describe("s"+strconv.Itoa(len(c.statements)), sql)
		if err = c.noted(err); err != nil {
			return nil, fmt.Errorf("%w in %s", err, sql)
		}
		if store.Prepared != nil {
			store.Prepared(strings.TrimSuffix(strings.TrimSuffix(text, returning), counting))
		}
		s = &statement{StatementDescription: description, arguments: arguments, does: does, insert: insert,
			writes: does == leaves && writes().MatchString(text)}
		c.statements[text] = s
	}
	if s.writes {
		return s, c.mayWrite()
	}
	return s, nil
}

// writes matches statements that may change something.
var writes = pattern.New(`(?i)^\s*(INSERT|UPDATE|DELETE|WITH\b[^;]*\b(INSERT INTO|UPDATE|DELETE FROM)\b|CREATE|DROP|ALTER)\b`)

// ExecBound runs a statement. Its result contains the number of rows that it changed.
func (c *Conn) ExecBound(text string, args []driver.NamedValue) (driver.Result, error) {
	result, s, err := c.run(text, args)
	if err != nil {
		return nil, err
	}
	if s.does == leaves {
		return driver.RowsAffected(result.CommandTag.RowsAffected()), nil
	}
	for _, row := range result.Rows {
		seq, err := strconv.ParseInt(string(row[0]), 10, 64)
		if err != nil {
			return nil, err
		}
		if s.does == adds {
			c.Batch = append(c.Batch, seq)
		} else {
			c.Batch = slices.DeleteFunc(c.Batch, func(other int64) bool { return other == seq })
		}
	}
	return driver.RowsAffected(len(result.Rows)), nil
}

// QueryBound runs a statement and returns its rows, of type *Rows, and the number of columns.
func (c *Conn) QueryBound(text string, args []driver.NamedValue) (driver.Rows, int, error) {
	result, s, err := c.run(text, args)
	if err != nil {
		return nil, 0, err
	}
	return &Rows{s.Fields, result.Rows}, len(s.Fields), nil
}

// SetBatch sets the current rows.
func (c *Conn) SetBatch(seqs []int64) { c.Batch = append(c.Batch[:0], seqs...) }

// bound is a statement with the values of its parameters.
type bound struct {
	*statement
	values [][]byte
}

// bind prepares a statement and encodes its arguments.
func (c *Conn) bind(text string, args []driver.NamedValue) (bound, error) {
	s, err := c.prepare(text)
	if err != nil {
		return bound{}, err
	}
	values := make([][]byte, len(s.arguments))
	for i, n := range s.arguments {
		switch {
		case n == batchArgument:
			values[i] = array(c.Batch)
		case n > len(args):
			return bound{}, fmt.Errorf("argument %d is missing for %s", n, text)
		default:
			values[i] = encode(s.ParamOIDs[i], args[n-1].Value)
		}
	}
	return bound{s, values}, nil
}

// run runs a statement after those that were put off, and reads the whole result, since nothing else can run on the
// connection before.
func (c *Conn) run(text string, args []driver.NamedValue) (*pgconn.Result, *statement, error) {
	if result, s := c.ahead(text, args); result != nil {
		return result, s, nil
	}
	next, err := c.bind(text, args)
	if err != nil {
		return nil, nil, err
	}
	if len(c.later) == 0 && !c.setsFirst() {
		result := next.start(c).Read()
		return result, next.statement, c.noted(result.Err)
	}
	results, err := c.runAll(context.Background(), func(p *pgconn.Pipeline) {
		if c.setsFirst() {
			p.SendQueryParams(c.Settings, nil, nil, nil, nil)
		}
		next.send(p)
	})
	if err != nil {
		return nil, nil, err
	}
	return results[len(results)-1], next.statement, nil
}

// send sends the statement in a pipeline.
func (b bound) send(p *pgconn.Pipeline) {
	if b.Name == "" {
		p.SendQueryParams(b.SQL, b.values, b.ParamOIDs, nil, nil)
	} else {
		p.SendQueryPrepared(b.Name, b.values, nil, nil)
	}
}

// start runs the statement alone, with nothing before it.
func (b bound) start(c *Conn) *pgconn.ResultReader {
	if b.Name == "" {
		return c.Raw.ExecParams(context.Background(), b.SQL, b.values, b.ParamOIDs, nil, nil)
	}
	return c.Raw.ExecPrepared(context.Background(), b.Name, b.values, nil, nil)
}
