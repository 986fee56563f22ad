package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// credentials are tables that audit queries cannot read.
var credentials = map[string]bool{
	"tokens": true, "agent_secrets": true, "signal_subscriptions": true, "signal_keys": true, "signal_pairings": true,
}

// queryTimeout ends an audit query that runs for too long.
const queryTimeout = 60 * time.Second

// maxCell is the largest value that an audit query may make, and maxAnswer the most of its answer that is kept, in bytes.
const maxCell, maxAnswer = 32 << 20, 64 << 20

// Query runs one SELECT for an audit and returns at most limit rows. It runs on a connection of its own that cannot
// write and whose authorizer allows nothing but reading tables and calling functions, so that no statement can attach,
// create or change a file, or read credentials. Parameters are bound to ?1, ?2, ... Errors: invalid_params for a
// statement that is wrong or not allowed, timeout of a minute as unavailable.
func (s *Store) Query(ctx context.Context, statement string, limit int, params ...any) (store.Table, error) {
	if strings.ContainsRune(statement, 0) || !utf8.ValidString(statement) {
		return store.Table{}, orchestrator.Errorf(orchestrator.InvalidParams, "the query holds a NUL or is not valid UTF-8")
	}
	// A pooled reader makes sure that the file exists and has this version's tables.
	if err := admit(ctx, s); err != nil {
		return store.Table{}, err
	}
	c, _, err := s.tryAnyReader()
	if err != nil {
		return store.Table{}, databaseError(s.path, err)
	}
	defer c.close()
	c.raw.SetLimit(sqlite3.SQLITE_LIMIT_LENGTH, maxCell)
	s.mu.Lock()
	watch := s.watch
	s.mu.Unlock()
	c.raw.RegisterAuthorizer(func(op int, arg1, arg2, _ string) int {
		return authorizeAudit(op, arg1, arg2, watch)
	})
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	table, err := c.audit(ctx, statement, limit, params)
	return table, databaseError(s.path, err)
}

// authorizeAudit is the allow-list of Query.
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

// sqliteRecursive is SQLITE_RECURSIVE, which the driver does not name.
const sqliteRecursive = 33

func (c *conn) audit(ctx context.Context, statement string, limit int, params []any) (store.Table, error) {
	s, err := c.raw.Prepare(statement)
	if err != nil {
		return store.Table{}, queryError(ctx, err)
	}
	defer s.Close()
	stmt := s.(*sqlite3.SQLiteStmt)
	if !stmt.Readonly() {
		return store.Table{}, orchestrator.Errorf(orchestrator.InvalidParams, "the query is not read-only").WithHint("sql takes one SELECT")
	}
	if !c.single(statement) {
		return store.Table{}, orchestrator.Errorf(orchestrator.InvalidParams, "the query is more than one statement").WithHint("sql takes one SELECT")
	}
	if want := stmt.NumInput(); want != len(params) {
		return store.Table{}, orchestrator.Errorf(orchestrator.InvalidParams, "the query has %d parameters, and %d values were given", want, len(params))
	}
	rows, err := stmt.QueryContext(ctx, c.Bind(params))
	if err != nil {
		return store.Table{}, queryError(ctx, err)
	}
	defer rows.Close()
	table := store.Table{Columns: store.UniqueColumns(rows.Columns()), Rows: []store.Record{}}
	dest := make(store.Row, len(table.Columns))
	kept := 0
	for {
		err := rows.Next(dest)
		if errors.Is(err, io.EOF) {
			return table, nil
		}
		if err != nil {
			return store.Table{}, queryError(ctx, err)
		}
		if len(table.Rows) == limit || kept > maxAnswer {
			table.Truncated = true
			return table, nil
		}
		values := make([]any, len(dest))
		for i, v := range dest {
			values[i] = auditValue(v)
			if s, ok := values[i].(string); ok {
				kept += len(s)
			}
		}
		table.Rows = append(table.Rows, store.Record{Columns: table.Columns, Values: values})
	}
}

// single reports whether a query that could be prepared is one statement. The driver prepares the first and says nothing
// of what follows; as a subquery, several are a syntax error.
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

// auditValue turns a column into what JSON can show.
func auditValue(v any) any {
	switch v := v.(type) {
	case []byte:
		return strings.ToValidUTF8(string(v), "\uFFFD")
	case time.Time:
		return orchestrator.Stamp(v)
	case string:
		return strings.ToValidUTF8(v, "\uFFFD")
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return fmt.Sprint(v) // JSON has no number for it
		}
	}
	return v
}

func queryError(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return orchestrator.Errorf(orchestrator.Unavailable, "the query ran for more than %s and was ended", orchestrator.FormatDuration(queryTimeout)).
			WithHint("Narrow it down, for example by message_id or by time")
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	code := sqliteCode(err)
	if code == sqlite3.ErrAuth {
		return &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "the query does something other than reading", Err: err,
			Hint: "sql takes one SELECT over the tables of this database"}
	}
	if code == sqlite3.ErrTooBig {
		return orchestrator.Errorf(orchestrator.InvalidParams, "the query makes a value of more than %d bytes", maxCell)
	}
	if code == sqlite3.ErrError || code == sqlite3.ErrRange || code == 0 {
		return &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "the query is not valid", Err: err,
			Hint: "`mailroom sql \"SELECT name FROM sqlite_schema\"` lists the tables; schema.sql explains them"}
	}
	return err
}
