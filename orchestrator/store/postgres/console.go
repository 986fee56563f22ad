package postgres

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/wire"
)

// auditRole is the user of the server as which queries that somebody has written are run. It reads all tables but those with
// credentials, and nothing else: what a query can do is what that user can.
const auditRole = "mailroom_audit"

// queryTimeout ends an audit query that runs for too long.
const queryTimeout = 60 * time.Second

// maxAnswer is the most of an answer that is kept, in bytes.
const maxAnswer = 64 << 20

// grants lets the user of audits read, if there is one.
const grants = `
DO $$
BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '` + auditRole + `') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO ` + auditRole + `', current_schema());
        EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO ` + auditRole + `', current_schema());
        EXECUTE format('REVOKE ALL ON ` + credentials + ` FROM ` + auditRole + `');
    END IF;
END
$$`

var (
	// reads matches how a query begins.
	reads = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)^(\s|--[^\n]*\n|/\*([^*]|\*[^/])*\*/|\()*(SELECT|WITH|VALUES|TABLE|EXPLAIN|SHOW)\b`)
	})
	// holdsUp matches the functions with which one that only reads could keep others from writing, or wake them.
	holdsUp = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)\bpg_(try_)?(advisory|notify)`) })
)

// Query runs one SELECT for an audit, as another user and in a transaction that cannot write, and returns at most limit rows.
// Parameters are bound to ?1, ?2, ... Errors: invalid_params for a statement that is wrong or not allowed, timeout of a minute as
// unavailable; unavailable where there is no such user.
func (s *Store) Query(ctx context.Context, statement string, limit int, params ...any) (store.Table, error) {
	if strings.ContainsRune(statement, 0) || !utf8.ValidString(statement) {
		return store.Table{}, orchestrator.Errorf(orchestrator.InvalidParams, "the query holds a NUL or is not valid UTF-8")
	}
	if !reads().MatchString(statement) || holdsUp().MatchString(statement) {
		return store.Table{}, orchestrator.Errorf(orchestrator.InvalidParams, "the query does something other than reading").WithHint("sql takes one SELECT over the tables of this database")
	}
	if err := s.Look(ctx, func(*store.Conn) error { return nil }); err != nil {
		return store.Table{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	raw, err := enterAsAuditor(s, ctx)
	if err != nil {
		return store.Table{}, &orchestrator.Error{Code: orchestrator.Unavailable, Err: err, Message: "queries are run as the user " + auditRole + " of the server, which cannot enter",
			Hint: "Run there: CREATE ROLE " + auditRole + " LOGIN NOINHERIT; then `mailroom init` again, which lets it read. If it needs a password, put that into ~/.pgpass"}
	}
	defer raw.Close()
	stop := context.AfterFunc(ctx, raw.Cancel)
	defer stop()
	if err := raw.Do(ctx, fmt.Sprintf("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = %d", queryTimeout.Milliseconds())); err != nil {
		return store.Table{}, s.Explain(err)
	}
	answer, err := raw.Stream(statement, (&store.Conn{Driver: raw}).Bind(params))
	if err != nil {
		return store.Table{}, queryError(ctx, err)
	}
	table, err := table(answer, limit)
	if table.Truncated || err != nil {
		raw.Drop() // which leaves the rest of the answer where it is
	}
	if err != nil {
		return store.Table{}, queryError(ctx, err)
	}
	return table, nil
}

// table reads an answer row by row, up to the limit, or to what can be kept.
func table(answer *wire.Stream, limit int) (store.Table, error) {
	table := store.Table{Columns: store.UniqueColumns(answer.Columns()), Rows: []store.Record{}}
	row := make([]driver.Value, len(table.Columns))
	for answer.Next() {
		if len(table.Rows) == limit || answer.Size() > maxAnswer {
			table.Truncated = true
			return table, nil
		}
		if err := answer.Row(row); err != nil {
			return store.Table{}, err
		}
		record := store.Record{Columns: table.Columns, Values: make([]any, len(row))}
		for i, value := range row {
			record.Values[i] = value
		}
		table.Rows = append(table.Rows, record)
	}
	return table, answer.Close()
}

// enterAsAuditor connects as the user of audits, whose password is that of no other.
func enterAsAuditor(s *Store, ctx context.Context) (*conn, error) {
	address, err := url.Parse(s.dsn)
	if err != nil {
		return nil, err
	}
	query := address.Query()
	query.Del("user")
	query.Del("password")
	address.User, address.RawQuery = url.User(auditRole), query.Encode()
	config, err := configOf(address.String())
	if err != nil {
		return nil, err
	}
	config.Password = "" // PGPASSWORD is another's
	c, _, err := s.reach(ctx, config)
	return c, err
}

func queryError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return orchestrator.Errorf(orchestrator.Unavailable, "the query ran for more than %s and was ended", orchestrator.FormatDuration(queryTimeout)).
			WithHint("Narrow it down, for example by message_id or by time")
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case codeOf(err) == readOnlyTransaction, codeOf(err) == noRight:
		return &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "the query does something other than reading", Err: err,
			Hint: "sql takes one SELECT over the tables of this database"}
	}
	if codeOf(err) == protocolViolation {
		return &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "the query has other parameters than those that came with it", Err: err, Hint: "Write them as ?1, ?2 and so on"}
	}
	return &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "the query is not valid", Err: err,
		Hint: "`mailroom sql \"SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()\"` lists the tables; schema.sql explains them"}
}
