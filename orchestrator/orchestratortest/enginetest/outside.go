package enginetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"mailroom/orchestrator/store/postgres/wire"
)

// outside opens a database on a server for package sql, as a program without the engine does. It accepts SQLite
// statements, several at a time, and arguments of any type for any column, as SQLite does.
type outside struct{}

func init() { sql.Register("outside", outside{}) }

func (outside) Open(address string) (driver.Conn, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	c, err := pgx.ConnectConfig(context.Background(), config)
	return outsider{c}, err
}

type outsider struct{ *pgx.Conn }

func (o outsider) Close() error { return o.Conn.Close(context.Background()) }

func (outsider) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

func (outsider) Begin() (driver.Tx, error) { return nil, errors.ErrUnsupported }

func (o outsider) ExecContext(ctx context.Context, statement string, args []driver.NamedValue) (driver.Result, error) {
	statement, values := rewritten(statement, args)
	done, err := o.Exec(ctx, statement, values...)
	return driver.RowsAffected(done.RowsAffected()), err
}

func (o outsider) QueryContext(ctx context.Context, statement string, args []driver.NamedValue) (driver.Rows, error) {
	statement, values := rewritten(statement, args)
	rows, err := o.Query(ctx, statement, values...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	read := &outsideRows{}
	for _, field := range rows.FieldDescriptions() {
		read.columns = append(read.columns, field.Name)
	}
	for rows.Next() {
		row := make([]driver.Value, len(read.columns))
		for i, text := range rows.RawValues() {
			row[i] = asSQLite(rows.FieldDescriptions()[i].DataTypeOID, text)
		}
		read.left = append(read.left, row)
	}
	return read, rows.Err()
}

// rewritten returns a statement and its arguments in the form that the server accepts.
func rewritten(statement string, args []driver.NamedValue) (string, []any) {
	statement, order := wire.Rewrite(statement)
	values := make([]any, len(order))
	for i, n := range order {
		values[i] = args[n-1].Value
	}
	return statement, values
}

// asSQLite converts the text of a value from the server to the value that SQLite would return.
func asSQLite(kind uint32, text []byte) driver.Value {
	switch {
	case text == nil:
		return nil
	case kind == pgtype.BoolOID && string(text) == "t":
		return int64(1)
	case kind == pgtype.BoolOID:
		return int64(0)
	}
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil && kind != pgtype.TextOID {
		return n
	}
	return string(text)
}

type outsideRows struct {
	columns []string
	left    [][]driver.Value
}

func (r *outsideRows) Columns() []string { return r.columns }

func (r *outsideRows) Close() error { return nil }

func (r *outsideRows) Next(row []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	copy(row, r.left[0])
	r.left = r.left[1:]
	return nil
}
