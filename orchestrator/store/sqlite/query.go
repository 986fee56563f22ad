package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// credentials holds the tables that audit queries cannot read.
var credentials = map[string]bool{
	"tokens": true, "agent_secrets": true, "signal_subscriptions": true, "signal_keys": true, "signal_pairings": true,
}

// queryTimeout is the maximum duration of an audit query.
const queryTimeout = 60 * time.Second

// Memory limits of an audit query, in bytes: for one value, for all values that SQLite has at a time, and for all
// values of a row, which the driver copies.
const maxValue, maxMade, maxRow = 8 << 20, 192 << 20, 64 << 20

// sortMemory is the memory for all sorters of a query together, in KiB. Each sorter has at least 1 MB. A sorter
// writes more data to a file in parts of that size, and at the end holds one value of each part in memory. With
// SQLite's default of 2 MB, these values can be half of all the sorted data.
const sortMemory = 32 << 10

// maxSorters is the maximum number of places where a query sorts, groups or looks for distinct rows.
const maxSorters = 32

// Query runs one SELECT for an audit and returns at most as many rows as bound allows. It runs on a separate
// connection that cannot write. The authorizer of that connection allows only reading tables and calling functions,
// so that no statement can attach, create or change a file, or read credentials. Parameters are bound to ?1, ?2, ...
// The error is invalid_params if the statement is wrong or not allowed, or produces values that are too long. It is
// unavailable if the query runs for more than a minute.
func (s *Store) Query(ctx context.Context, statement string, bound store.Bound, params ...any) (store.Table, error) {
	if strings.ContainsRune(statement, 0) || !utf8.ValidString(statement) {
		return store.Table{},
			orchestrator.Errorf(orchestrator.InvalidParams, "the query must be valid UTF-8 without NUL characters")
	}
	// A pooled reader makes sure that the file exists and has the tables of this version.
	if err := admit(ctx, s); err != nil {
		return store.Table{}, err
	}
	c, _, err := s.tryAnyReader()
	if err != nil {
		return store.Table{}, databaseError(s.path, err)
	}
	defer c.close()
	s.mu.Lock()
	watch := s.watch
	s.mu.Unlock()
	authorizer := func(op int, arg1, arg2, _ string) int { return authorizeAudit(op, arg1, arg2, watch) }
	c.raw.RegisterAuthorizer(authorizer)
	ctx, cancel := context.WithTimeoutCause(ctx, queryTimeout, store.TooSlow(queryTimeout))
	defer cancel()
	w, err := c.weigh(ctx, statement)
	if err != nil {
		return store.Table{}, databaseError(s.path, c.queryError(ctx, err))
	}
	if w.sorters > maxSorters {
		return store.Table{},
			orchestrator.Errorf(orchestrator.InvalidParams,
				"the query sorts, groups, or looks for distinct rows in %d places, but at most %d are allowed", w.sorters,
				maxSorters).
				WithHint("Split the query into several shorter ones")
	}
	c.raw.RegisterAuthorizer(nil)
	if err := c.Script(fmt.Sprint("PRAGMA cache_size = -", sortMemory/max(1, w.sorters))); err != nil {
		return store.Table{}, databaseError(s.path, err)
	}
	c.raw.RegisterAuthorizer(authorizer)
	table, err := c.audit(ctx, statement, w, bound, params)
	return table, databaseError(s.path, err)
}

// authorizeAudit allows the operations of audit queries and denies all others.
func authorizeAudit(op int, arg1, arg2 string, watch observer) int {
	switch op {
	case sqlite3.SQLITE_SELECT, sqliteRecursive:
		return sqlite3.SQLITE_OK
	case sqlite3.SQLITE_READ:
		if credentials[strings.ToLower(arg1)] {
			return sqlite3.SQLITE_DENY
		}
		if watch != nil && !strings.HasPrefix(arg1, "pragma_") {
			watch("read", arg1)
		}
		return sqlite3.SQLITE_OK
	case sqlite3.SQLITE_FUNCTION:
		if strings.EqualFold(arg2, "load_extension") {
			return sqlite3.SQLITE_DENY
		}
		return sqlite3.SQLITE_OK
	}
	return sqlite3.SQLITE_DENY
}

// sqliteRecursive is SQLITE_RECURSIVE, for which the driver has no constant.
const sqliteRecursive = 33

func (c *conn) audit(ctx context.Context, statement string, w weight, bound store.Bound, params []any) (store.Table,
	error) {
	s, err := c.raw.Prepare(statement)
	if err != nil {
		return store.Table{}, c.queryError(ctx, err)
	}
	defer s.Close()
	stmt := s.(*sqlite3.SQLiteStmt)
	if !stmt.Readonly() {
		return store.Table{}, orchestrator.Errorf(orchestrator.InvalidParams, "the query must be read-only").
			WithHint("Use one SELECT")
	}
	if !c.single(statement) {
		return store.Table{}, orchestrator.Errorf(orchestrator.InvalidParams, "the query must be a single statement").
			WithHint("Use one SELECT")
	}
	if want := stmt.NumInput(); want != len(params) {
		return store.Table{},
			orchestrator.Errorf(orchestrator.InvalidParams, "the query has %d parameters, but %d values were given",
				want, len(params))
	}
	rows, err := stmt.QueryContext(ctx, c.Bind(params))
	if err != nil {
		return store.Table{}, c.queryError(ctx, err)
	}
	defer rows.Close()
	table := store.NewTable(rows.Columns(), bound)
	row := make(store.Row, len(table.Columns))
	// The statement has not started yet, so the limit applies to all of it.
	c.raw.SetLimit(sqlite3.SQLITE_LIMIT_LENGTH, min(maxValue, maxMade/w.values, maxRow/max(1, len(row))))
	for more := true; more; {
		err := rows.Next(row)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return store.Table{}, c.queryError(ctx, err)
		}
		if more, err = table.Add(row); err != nil {
			return store.Table{}, err
		}
	}
	return *table, nil
}

const (
	besides = 8      // values that SQLite's functions may need while they run
	unknown = 10_000 // values of an EXPLAIN, which EXPLAIN cannot count; its lines are short
)

// weight is an upper limit for what a query keeps in memory.
type weight struct {
	values  int // values at a time: one for each SQLite instruction
	sorters int // places where it sorts, groups or looks for distinct rows
}

// weigh counts the instructions of the compiled query. If the query cannot be explained, it may be an EXPLAIN
// itself.
func (c *conn) weigh(ctx context.Context, statement string) (w weight, err error) {
	explain, err := c.raw.Prepare("EXPLAIN " + statement)
	if err != nil {
		return weight{values: unknown}, nil
	}
	defer explain.Close()
	rows, err := explain.(*sqlite3.SQLiteStmt).QueryContext(ctx, nil)
	if err != nil {
		return w, err
	}
	defer rows.Close()
	row := make(store.Row, len(rows.Columns()))
	for w.values = besides; ; w.values++ {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return w, nil
		case err != nil:
			return w, err
		}
		switch row.Text(1) {
		case "SorterOpen", "OpenEphemeral", "OpenAutoindex":
			w.sorters++
		}
	}
}

// single reports whether a query that could be prepared is one statement. The driver prepares the first statement
// and ignores the rest; as a subquery, several statements are a syntax error.
func (c *conn) single(statement string) bool {
	if _, rest, _ := strings.Cut(statement, ";"); strings.TrimSpace(rest) == "" {
		return true
	}
	s, err := c.raw.Prepare("SELECT * FROM (" + strings.TrimRight(statement, "; \t\r\n") + "\n)")
	if err != nil {
		return false
	}
	s.Close()
	return true
}

func (c *conn) queryError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	code := sqliteCode(err)
	if code == sqlite3.ErrAuth {
		return &orchestrator.Error{Code: orchestrator.InvalidParams,
			Message: "only queries that read are allowed", Err: err,
			Hint: "Use one SELECT over the tables of this database"}
	}
	if code == sqlite3.ErrTooBig {
		return orchestrator.Errorf(orchestrator.InvalidParams, "the query produces a value that is larger than %d bytes",
			c.raw.GetLimit(sqlite3.SQLITE_LIMIT_LENGTH)).
			WithHint("Select fewer columns at a time. The more columns and functions a query has, the shorter each of its values must be")
	}
	if code == sqlite3.ErrError || code == sqlite3.ErrRange || code == 0 {
		return store.InvalidQuery(err, "SELECT name FROM sqlite_schema")
	}
	return err
}
