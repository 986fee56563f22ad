package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"

	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/sqlite/tables"
)

// conn is one connection with its prepared statements. It uses the driver directly, without database/sql, because
// the statements run often and only one transaction at a time owns the connection. It is not safe for concurrent
// use.
type conn struct {
	tables.Keeper
	raw   *sqlite3.SQLiteConn
	stmts map[string]*statement

	immutable bool // reads the file without locks; must not be kept in the pool

	place // zero if Store.openFile did not open the connection
}

// statement is a prepared statement and whether it changes the database. It must not have a bare parameter after
// LIMIT or OFFSET, as in LIMIT ?3. SQLite uses the value of such a parameter in the plan, and so parses and plans
// the statement again whenever the parameter is bound, which takes longer than running the statement. LIMIT +?3 is
// planned once. Source: sqlite3ExprIsInteger and sqlite3VdbeSetVarmask in SQLite 3.50.
type statement struct {
	*sqlite3.SQLiteStmt
	readonly bool
	columns  int // 0 until the statement has returned rows; asking costs more than many queries
}

func openConn(dsn string) (*conn, error) {
	c, err := (&sqlite3.SQLiteDriver{}).Open(dsn)
	if err != nil {
		return nil, err
	}
	opened := &conn{raw: c.(*sqlite3.SQLiteConn), stmts: map[string]*statement{}}
	opened.Keeper = tables.Keeper{Conn: &store.Conn{Driver: opened}}
	// Views and triggers may have been written by somebody else. They must not call functions that act outside the
	// database.
	if err := opened.Script("PRAGMA trusted_schema = OFF"); err != nil {
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

func (c *conn) Broken() bool { return c.raw.AutoCommit() }

func (c *conn) Script(text string) error {
	_, err := c.raw.Exec(text, nil)
	return err
}

// maxStatements is the number of prepared statements that a connection keeps. The engine has fewer; only ad hoc
// statements accumulate.
const maxStatements = 256

// scratch reports whether a statement that SQLite does not report as read-only changes nothing that could be lost or
// undone: it takes the write lock, or writes to a temporary table.
func scratch(query string) bool {
	query = strings.TrimSpace(query)
	return query == "BEGIN IMMEDIATE" || strings.HasPrefix(query, "INSERT INTO temp.") ||
		strings.HasPrefix(query, "DELETE FROM temp.")
}

// prepare returns a statement that is about to run.
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
		c.Writes++
	}
	return s, nil
}

// trim closes all prepared statements when ad hoc ones have accumulated. No statement may be in use.
func (c *conn) trim() {
	if len(c.stmts) < maxStatements {
		return
	}
	for q, s := range c.stmts {
		s.Close()
		delete(c.stmts, q)
	}
}

func (c *conn) ExecBound(query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(context.Background(), args)
}

func (c *conn) QueryBound(query string, args []driver.NamedValue) (rows driver.Rows, columns int, err error) {
	s, err := c.prepare(query)
	if err != nil {
		return nil, 0, err
	}
	if rows, err = s.QueryContext(context.Background(), args); err != nil {
		return nil, 0, err
	}
	if s.columns == 0 {
		s.columns = len(rows.Columns())
	}
	return rows, s.columns, nil
}
