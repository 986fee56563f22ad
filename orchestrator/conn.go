package orchestrator

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator/store"
)

// conn is one connection with its prepared statements. The engine talks to the driver directly, without database/sql
// between them: the statements are hot, and one transaction at a time owns the connection anyway. Not safe for
// concurrent use.
type conn struct {
	raw   *sqlite3.SQLiteConn
	stmts map[string]*statement
	args  []driver.NamedValue

	writes int // statements run that may have changed something; script's do not count

	immutable bool // reads the file as it stands; not to be kept

	place // zero if Router.openFile did not open it
}

// statement is a prepared statement. It must not have a bare parameter behind LIMIT or OFFSET, as in LIMIT ?3: SQLite
// plans with its value, and so parses and plans the statement anew whenever it is bound again, which takes longer than to
// run it. LIMIT +?3 is planned once. Source: sqlite3ExprIsInteger and sqlite3VdbeSetVarmask in SQLite 3.50.
//
// It knows whether it leaves the database as it is.
type statement struct {
	*sqlite3.SQLiteStmt
	readonly bool
	columns  int // known once it has returned rows: to ask costs more than many a query
}

func openConn(dsn string) (*conn, error) {
	c, err := (&sqlite3.SQLiteDriver{}).Open(dsn)
	if err != nil {
		return nil, err
	}
	opened := &conn{raw: c.(*sqlite3.SQLiteConn), stmts: map[string]*statement{}}
	// What somebody has put into views and triggers may call no function with effects outside of the database.
	if err := opened.script("PRAGMA trusted_schema = OFF"); err != nil {
		opened.close()
		return nil, err
	}
	return opened, nil
}

func (c *conn) close() error {
	for _, s := range c.stmts {
		s.Close()
	}
	return c.raw.Close()
}

// script runs statements that are separated by semicolons and take no arguments.
func (c *conn) script(text string) error {
	_, err := c.raw.Exec(text, nil)
	return err
}

// maxStatements bounds the prepared statements that a connection keeps; the engine has fewer, only ad hoc ones pile up.
const maxStatements = 256

// scratch reports whether a statement that SQLite does not call read-only changes nothing that could be lost or undone:
// it takes the write lock, or writes into a temporary table.
func scratch(query string) bool {
	query = strings.TrimSpace(query)
	return query == "BEGIN IMMEDIATE" || strings.HasPrefix(query, "INSERT INTO temp.") || strings.HasPrefix(query, "DELETE FROM temp.")
}

// prepare returns a statement that is about to be run.
func (c *conn) prepare(query string) (*statement, error) {
	s := c.stmts[query]
	if s == nil {
		prepared, err := c.raw.Prepare(query)
		if err != nil {
			return nil, fmt.Errorf("%w in %s", err, query)
		}
		raw := prepared.(*sqlite3.SQLiteStmt)
		if store.Prepared != nil {
			store.Prepared(query)
		}
		s = &statement{SQLiteStmt: raw, readonly: raw.Readonly() || scratch(query)}
		c.stmts[query] = s
	}
	if !s.readonly {
		c.writes++
	}
	return s, nil
}

// trim forgets prepared statements when ad hoc ones have piled up. No statement may be in use.
func (c *conn) trim() {
	if len(c.stmts) < maxStatements {
		return
	}
	for q, s := range c.stmts {
		s.Close()
		delete(c.stmts, q)
	}
}

// bind turns arguments into what the driver takes. Never bind a time.Time: the driver would write it its own way.
func (c *conn) bind(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		switch v := a.(type) {
		case int:
			a = int64(v)
		case Status:
			a = string(v)
		case *int64:
			if a = nil; v != nil {
				a = *v
			}
		}
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}

// Exec runs one statement and returns how many rows it changed. It has the shape that package tracing writes through.
func (c *conn) Exec(query string, args ...any) (int64, error) {
	res, err := c.exec(query, args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// run is Exec for a statement of which nothing but its failure counts. It has the shape that a SetTransport writes through.
func (c *conn) run(query string, args ...any) error {
	_, err := c.exec(query, args)
	return err
}

// insertRow runs an INSERT of one row and returns its rowid.
func (c *conn) insertRow(query string, args ...any) (int64, error) {
	res, err := c.exec(query, args)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func (c *conn) exec(query string, args []any) (driver.Result, error) {
	s, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(context.Background(), c.bind(args))
}

// query runs one statement and calls each with every row. The values are only valid during the call, but strings may be
// kept. each may run other statements, not the same one.
func (c *conn) query(query string, each func(row store.Row) error, args ...any) (err error) {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), c.bind(args))
	if err != nil {
		return err
	}
	defer func() {
		if cerr := rows.Close(); err == nil {
			err = cerr
		}
	}()
	if s.columns == 0 {
		s.columns = len(rows.Columns())
	}
	row := make(store.Row, s.columns)
	for {
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := each(row); err != nil {
			return err
		}
	}
}

// text returns the first column of the first row as text; found is false when there is no row.
func (c *conn) text(query string, args ...any) (value string, found bool, err error) {
	err = c.query(query, func(row store.Row) error {
		if !found {
			value, found = row.Text(0), true
		}
		return nil
	}, args...)
	return value, found, err
}

// number returns the first column of the first row as an integer, 0 when there is no row.
func (c *conn) number(query string, args ...any) (n int64, err error) {
	err = c.query(query, func(row store.Row) error {
		n = row.Int(0)
		return nil
	}, args...)
	return n, err
}

// texts returns the first column of every row.
func (c *conn) texts(query string, args ...any) (values []string, err error) {
	err = c.query(query, func(row store.Row) error {
		values = append(values, row.Text(0))
		return nil
	}, args...)
	return values, err
}
