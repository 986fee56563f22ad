package store

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"mailroom/orchestrator"
)

// Conn is one connection to the database. It takes the same statements for every kind of database. It is not safe
// for concurrent use.
//
// Arguments are nil, bool, int, int64, *int, *int64, float64, string, []byte or Status. A time.Time is not allowed,
// because each driver would write it differently.
type Conn struct {
	Driver Driver
	args   []driver.NamedValue

	Writes int // statements that may have changed something that could be lost or undone; counted by the driver
}

// Driver is a connection of one kind of database. Arguments are valid only during the call. Operations that only
// some databases support are additional methods, such as those of remote; callers use a type assertion to find them.
type Driver interface {
	// ExecBound runs one statement.
	ExecBound(query string, args []driver.NamedValue) (driver.Result, error)
	// QueryBound runs one statement that returns rows, and returns the number of columns.
	QueryBound(query string, args []driver.NamedValue) (rows driver.Rows, columns int, err error)
	// Script runs statements that are separated by semicolons and take no arguments.
	Script(text string) error
	// Broken reports whether no transaction is open, or an error has ended it.
	Broken() bool
	// RenumberMessages gives new numbers to messages, including archived ones, whose numbers are out of range. They
	// get the next numbers, in their order.
	RenumberMessages() error
	// Admit refuses tables that a newer program has made unusable for this one, and a database of another program.
	Admit() error
	// CheckConfigured refuses configuration tables without the constraints of schema.sql, and rows that violate
	// these constraints: somebody else made such a file. On a server, any user who can change the tables can do the
	// same.
	CheckConfigured() error
}

// remote is a Driver of a database on a server, where each statement costs a round trip.
type remote interface {
	// RunLater runs a statement together with the next one, or with the commit. RunRest runs the statements that
	// were put off.
	RunLater(query string, args []driver.NamedValue) error
	RunRest() error
	// InsertLater runs an INSERT of one row as RunLater does. It fails if the row was discarded, see ErrDropped.
	InsertLater(query string, args []driver.NamedValue) error
	// InsertBound runs an INSERT of one row into a table that is numbered by seq, and returns the number of the row.
	InsertBound(query string, args []driver.NamedValue) (int64, error)
	// SetBatch sets the rows of the current batch. On a server they are not kept in a table.
	SetBatch(seqs []int64)
}

// Bind converts arguments to the form that a driver takes.
func (c *Conn) Bind(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		switch v := a.(type) {
		case int:
			a = int64(v)
		case orchestrator.Status:
			a = string(v)
		case *int:
			if a = nil; v != nil {
				a = int64(*v)
			}
		case *int64:
			if a = nil; v != nil {
				a = *v
			}
		}
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}

// Exec runs one statement and returns the number of rows that it changed.
func (c *Conn) Exec(query string, args ...any) (int64, error) {
	res, err := c.Driver.ExecBound(query, c.Bind(args))
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Run runs one statement whose result is not needed. A database on a server may run it later, together with the next
// statement; the error of that statement is then the error of either, see Later. Package tracing and SetTransport
// take a function of this signature.
func (c *Conn) Run(query string, args ...any) error {
	if d, ok := c.Driver.(remote); ok {
		return d.RunLater(query, c.Bind(args))
	}
	_, err := c.Driver.ExecBound(query, c.Bind(args))
	return err
}

// Later is the failure of a statement that was put off, see Conn.Run.
type Later struct{ Err error }

func (l *Later) Error() string { return l.Err.Error() }
func (l *Later) Unwrap() error { return l.Err }

func isLater(err error) bool {
	var later *Later
	return errors.As(err, &later)
}

// Flush runs the statements that were put off.
func (c *Conn) Flush() error {
	if d, ok := c.Driver.(remote); ok {
		return d.RunRest()
	}
	return nil
}

// SetBatch fills the temporary table batch with the numbers of the current rows.
func (c *Conn) SetBatch(seqs ...int64) error {
	if d, ok := c.Driver.(remote); ok {
		d.SetBatch(seqs)
		return nil
	}
	if err := c.Run(`DELETE FROM temp.batch`); err != nil {
		return err
	}
	for _, seq := range seqs {
		if err := c.Run(`INSERT INTO temp.batch (seq) VALUES (?)`, seq); err != nil {
			return err
		}
	}
	return nil
}

// ErrDropped is the cause of an error about a row that a foreign trigger discarded without an error.
var ErrDropped = errors.New("a trigger dropped the row")

// InsertRow runs an INSERT of one row and returns the number that the database gave to the row. It fails if the row
// was discarded, see ErrDropped.
func (c *Conn) InsertRow(query string, args ...any) (int64, error) {
	if d, ok := c.Driver.(remote); ok {
		return d.InsertBound(query, c.Bind(args))
	}
	res, err := c.Driver.ExecBound(query, c.Bind(args))
	if err != nil {
		return 0, err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return 0, cmp.Or(err, Refused(ErrDropped))
	}
	return res.LastInsertId()
}

// InsertLater runs an INSERT of one row as Run does. It fails if the row was discarded, see ErrDropped.
func (c *Conn) InsertLater(query string, args ...any) error {
	if d, ok := c.Driver.(remote); ok {
		return d.InsertLater(query, c.Bind(args))
	}
	n, err := c.Exec(query, args...)
	if err == nil && n == 0 {
		err = Refused(ErrDropped)
	}
	return err
}

// Script runs statements that are separated by semicolons and take no arguments.
func (c *Conn) Script(text string) error { return c.Driver.Script(text) }

// Numbered lists the tables whose rows the database numbers, with the column that holds the numbers. Each number is
// one more than the largest that was ever used.
var Numbered = []struct{ Table, Column string }{{"agent_message", "seq"}, {"message_trace", "id"},
	{"command_trace", "id"}}

// Limits for row numbers, since anybody can write a row with any number by hand.
const (
	MaxNumber     = 1 << 53                                          // the largest number that is accepted
	Believed      = `BETWEEN -9007199254740992 AND 9007199254740992` // the accepted numbers, as a condition
	AlarmedNumber = 1 << 62                                          // from this number on, rows are renumbered
)

// Broken reports whether no transaction is open, or an error has ended it.
func (c *Conn) Broken() bool { return c.Driver.Broken() }

// Admit refuses tables that a newer program has made unusable for this one.
func (c *Conn) Admit() error { return c.Driver.Admit() }

// CheckConfigured refuses configuration tables that do not match schema.sql, see Driver.
func (c *Conn) CheckConfigured() error { return c.Driver.CheckConfigured() }

// Query runs one statement and calls each with every row. The values of a row are valid only during the call, but
// strings may be kept. The function each may run other statements, but not the same one.
func (c *Conn) Query(query string, each func(row Row) error, args ...any) (err error) {
	rows, columns, err := c.Driver.QueryBound(query, c.Bind(args))
	if err != nil {
		return err
	}
	defer func() {
		if cerr := rows.Close(); err == nil {
			err = cerr
		}
	}()
	row := make(Row, columns)
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

// List runs one statement, calls scan for each row and returns the results. The list is never nil.
func List[T any](c *Conn, scan func(row Row) T, query string, args ...any) ([]T, error) {
	list := []T{}
	err := c.Query(query, func(row Row) error {
		list = append(list, scan(row))
		return nil
	}, args...)
	return list, err
}

// First runs one statement and returns the result of scan for the first row. found is false if there is no row.
func First[T any](c *Conn, scan func(row Row) T, query string, args ...any) (value T, found bool, err error) {
	err = c.Query(query, func(row Row) error {
		if !found {
			value, found = scan(row), true
		}
		return nil
	}, args...)
	return value, found, err
}

// Text returns the first column of the first row as text. found is false if there is no row.
func (c *Conn) Text(query string, args ...any) (value string, found bool, err error) {
	return First(c, func(row Row) string { return row.Text(0) }, query, args...)
}

// Number returns the first column of the first row as an integer, or 0 if there is no row.
func (c *Conn) Number(query string, args ...any) (n int64, err error) {
	err = c.Query(query, func(row Row) error {
		n = row.Int(0)
		return nil
	}, args...)
	return n, err
}

// Texts returns the first column of every row.
func (c *Conn) Texts(query string, args ...any) (values []string, err error) {
	err = c.Query(query, func(row Row) error {
		values = append(values, row.Text(0))
		return nil
	}, args...)
	return values, err
}

// Row is a row of a query result with one value per column: nil, an int64, a float64, a string, a []byte or a bool.
// It is valid only until the next row is read, but its strings may be kept.
type Row []driver.Value

// Text returns a column as text. NULL becomes "".
func (r Row) Text(column int) string { return Text(r[column]) }

// Int returns a column as an integer, see [Int].
func (r Row) Int(column int) int64 { return Int(r[column]) }

// Text converts a value to text. Columns of text can hold numbers or BLOBs, because other programs may write them.
func Text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return string(v)
	}
	return fmt.Sprint(value)
}

// Int converts a value to an integer. A number that is too large or too small becomes the nearest integer, true
// becomes 1, and a text that is an integer becomes that integer. Any other value becomes 0.
func Int(value any) int64 {
	switch v := value.(type) {
	case int64:
		return v
	case float64:
		return nearest(v)
	case bool:
		if v {
			return 1
		}
	case string: // SQLite has already converted most numbers; this text is a number only if all of it is one
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

func nearest(v float64) int64 {
	switch {
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v <= math.MinInt64:
		return math.MinInt64
	}
	return int64(v)
}
