package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgproto3"

	"mailroom/orchestrator"
	"mailroom/orchestrator/pattern"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/wire"
)

// auditRole is the server's user that runs audit queries. This user can read all tables except those with
// credentials, and can do nothing else. Its rights are the limit of what a query can do.
const auditRole = "mailroom_audit"

// queryTimeout is the maximum duration of an audit query.
const queryTimeout = 60 * time.Second

// grants lets the audit user read the tables, if the user exists.
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

// reads matches the beginning of a query that reads.
var reads = pattern.New(`(?i)^(\s|--[^\n]*\n|/\*([^*]|\*[^/])*\*/|\()*(SELECT|WITH|VALUES|TABLE|EXPLAIN|SHOW)\b`)

// aboutQuery begins the transaction of a query and makes its settings. The server also ends a query when the client
// has disconnected, if the server's operating system can detect that.
var aboutQuery = fmt.Sprintf(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = %d;
	DO $$ BEGIN SET LOCAL client_connection_check_interval = 1000; EXCEPTION WHEN OTHERS THEN END $$; SELECT pg_backend_pid()`, queryTimeout.Milliseconds())

// Query runs one SELECT for an audit, as another user and in a transaction that cannot write, and returns at most as
// many rows as bound allows. Parameters are bound to ?1, ?2, ... The error is invalid_params if the statement is
// wrong or not allowed, takes a lock or produces a row that is too long. It is unavailable if the query runs for
// more than a minute, or if the audit user does not exist.
func (s *Store) Query(ctx context.Context, statement string, bound store.Bound, params ...any) (store.Table, error) {
	if strings.ContainsRune(statement, 0) || !utf8.ValidString(statement) {
		return store.Table{},
			orchestrator.Errorf(orchestrator.InvalidParams, "the query must be valid UTF-8 without NUL characters")
	}
	if !reads().MatchString(statement) {
		return store.Table{},
			orchestrator.Errorf(orchestrator.InvalidParams, "only queries that read are allowed").
				WithHint("Use one SELECT over the tables of this database")
	}
	if err := s.Look(ctx, func(*store.Conn) error { return nil }); err != nil {
		return store.Table{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, queryTimeout, store.TooSlow(queryTimeout))
	defer cancel()
	raw, err := enterAsAuditor(s, ctx, bound.Most())
	if err != nil {
		return store.Table{}, noAuditor(err)
	}
	defer raw.Close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stop := context.AfterFunc(ctx, raw.Cancel)
	defer stop()
	results, err := raw.Ask(ctx, aboutQuery)
	if err != nil {
		return store.Table{}, s.Explain(err)
	}
	pid := string(results[len(results)-1].Rows[0][0])
	defer orchestrator.Background(ctx, "looking for locks of a query", s.log,
		func(ctx context.Context) { s.endWithLock(ctx, pid, end) })()
	answer, err := raw.Stream(statement, (&store.Conn{Driver: raw}).Bind(params))
	if err != nil {
		return store.Table{}, queryError(ctx, err)
	}
	table, err := table(answer, bound)
	if table.Truncated || err != nil {
		raw.Drop() // leaves the rest of the result unread
	}
	if err != nil {
		return store.Table{}, queryError(ctx, err)
	}
	return *table, nil
}

// looksEvery is the interval at which the locks of a query are checked. A query can keep others from writing for
// this long.
const looksEvery = 100 * time.Millisecond

// endWithLock ends a query when its session has an advisory lock or waits for one. Any user who can read can also
// take such locks, in forms that no list of words covers, and can thereby block all writers.
func (s *Store) endWithLock(ctx context.Context, pid string, end context.CancelCauseFunc) {
	for orchestrator.Pause(ctx, looksEvery); ctx.Err() == nil; orchestrator.Pause(ctx, looksEvery) {
		var locks int64
		err := s.Look(ctx, func(c *store.Conn) (err error) {
			locks, err = c.Number(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = ?1::integer`,
				pid)
			return err
		})
		switch {
		case locks > 0:
			end(orchestrator.Errorf(orchestrator.InvalidParams,
				"the query was stopped because it took an advisory lock, which would block other writers").
				WithHint("Use one SELECT that only reads"))
		case err != nil && ctx.Err() == nil: // the locks can no longer be checked
			end(err)
		}
	}
}

// table reads a result row by row, as far as the bound allows.
func table(answer *wire.Stream, bound store.Bound) (*store.Table, error) {
	table := store.NewTable(answer.Columns(), bound)
	row := make(store.Row, len(table.Columns))
	for answer.Next() {
		if err := answer.Row(row); err != nil {
			return table, err
		}
		if more, err := table.Add(row); !more {
			return table, err
		}
	}
	err := answer.Close()
	if long := (*pgproto3.ExceededMaxBodyLenErr)(nil); errors.As(err, &long) && len(table.Rows.Pieces()) > 0 {
		table.Truncated = true // same result as for a row that is read and then rejected
		return table, nil
	}
	return table, err
}

// makeAuditor is the statement that creates the audit user. A server has few connections, and each query takes one.
const makeAuditor = "CREATE ROLE " + auditRole + " LOGIN NOINHERIT CONNECTION LIMIT 20"

// enterAsAuditor connects as the audit user, without the password of the other user. maxRow is the maximum size of a
// row in bytes; 0 means no limit.
func enterAsAuditor(s *Store, ctx context.Context, maxRow int) (*conn, error) {
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
	config.Password = "" // PGPASSWORD belongs to the other user
	config.MaxProtocolMessageBodyLen = maxRow
	c, _, err := s.reach(ctx, config)
	return c, err
}

// noAuditor returns the error of a query if the audit user cannot connect.
func noAuditor(err error) error {
	if codeOf(err) == tooManyConnections {
		return &orchestrator.Error{Code: orchestrator.Busy, Err: err,
			Message: "the server has no free connection for the user " + auditRole + ", which runs the queries",
			Hint:    "Try again when other queries have finished"}
	}
	return &orchestrator.Error{Code: orchestrator.Unavailable, Err: err, Message: "the user " + auditRole +
		", which runs the queries, cannot connect to the server",
		Hint: "On the server, run " + makeAuditor +
			", and then run `mailroom init` again, which lets the user read the tables. If the user needs a password, put it into ~/.pgpass"}
}

func queryError(ctx context.Context, err error) error {
	var own *orchestrator.Error
	var long *pgproto3.ExceededMaxBodyLenErr
	switch code := codeOf(err); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &own):
		return own
	case errors.As(err, &long):
		return store.TooLong(long.MaxExpectedBodyLen)
	case code == readOnlyTransaction, code == noRight:
		return &orchestrator.Error{Code: orchestrator.InvalidParams,
			Message: "only queries that read are allowed", Err: err,
			Hint: "Use one SELECT over the tables of this database"}
	case code == protocolViolation:
		return &orchestrator.Error{Code: orchestrator.InvalidParams,
			Message: "the parameters in the query do not match the given values", Err: err,
			Hint: "Write the parameters as ?1, ?2, and so on"}
	}
	return store.InvalidQuery(err, "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()")
}
