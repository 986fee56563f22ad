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

// conn is one connection with its prepared statements. The engine talks to the driver directly, without database/sql
// between them: the statements are hot, and one transaction at a time owns the connection anyway. Not safe for
// concurrent use.
type conn struct {
	tables.Keeper
	raw   *sqlite3.SQLiteConn
	stmts map[string]*statement

	immutable bool // reads the file as it stands; not to be kept

	place // zero if Store.openFile did not open it
}

// statement is a prepared statement. It must not have a bare parameter behind LIMIT or OFFSET, as in LIMIT ?3: SQLite
// plans with its value, and so parses and plans the statement anew whenever it is bound again, which takes longer than
// to run it. LIMIT +?3 is planned once. Source: sqlite3ExprIsInteger and sqlite3VdbeSetVarmask in SQLite 3.50.
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
	opened.Keeper = tables.Keeper{Conn: &store.Conn{Driver: opened}}
	// What somebody has put into views and triggers may call no function with effects outside of the database.
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

// maxStatements bounds the prepared statements that a connection keeps; the engine has fewer, only ad hoc ones pile up.
const maxStatements = 256

// scratch reports whether a statement that SQLite does not call read-only changes nothing that could be lost or undone:
// it takes the write lock, or writes into a temporary table.
func scratch(query string) bool {
	query = strings.TrimSpace(query)
	return query == "BEGIN IMMEDIATE" || strings.HasPrefix(query, "INSERT INTO temp.") ||
		strings.HasPrefix(query, "DELETE FROM temp.")
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
		c.Writes++
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
