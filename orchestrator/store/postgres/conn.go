package postgres

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"mailroom/orchestrator/store"
)

// conn is one connection with its prepared statements. Values go and come as text, so that a number may stand where the server
// wants text, as SQLite takes it. Not safe for concurrent use.
type conn struct {
	raw     *pgconn.PgConn
	stmts   map[string]*statement
	owns    map[string]*own
	opening opening
	batch   []int64 // the rows at hand: what temp.batch is in SQLite
	later   []call  // what is still to be run, before the next statement
	wrote   func()  // called before each statement that may change something
	used    time.Time

	knows    int    // the version of the tables that this program knows
	settings string // the statement that makes them in each transaction, behind a pooler; statements have no names then
}

// statement is a prepared statement.
type statement struct {
	*pgconn.StatementDescription
	arguments []int // which of the caller's, counted from 1, each parameter takes; batchArgument: the rows at hand
	does      batchWork
	writes    bool
	bulk      *bulk // for many calls at once, once bulked is set
	bulked    bool
}

// batchWork is what a statement does with the rows at hand, beside reading them.
type batchWork int

const (
	leaves  batchWork = iota
	adds              // its rows
	removes           // its rows
)

func connect(ctx context.Context, config *pgconn.Config, knows int) (*conn, error) {
	raw, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw, stmts: map[string]*statement{}, owns: map[string]*own{}, wrote: func() {}, knows: knows}, nil
}

// closePatience bounds the farewell.
const closePatience = 2 * time.Second

func (c *conn) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	return c.raw.Close(ctx)
}

// cancel ends what the connection is waiting for, and may end the connection.
func (c *conn) cancel() {
	if c.settings != "" {
		c.drop() // see connectToPooler
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	_ = c.raw.CancelRequest(ctx)
}

// Broken reports whether no transaction is open, or an error has ended it.
func (c *conn) Broken() bool { return c.raw.IsClosed() || c.raw.TxStatus() != 'T' }

// Script runs statements that are separated by semicolons and take no arguments.
func (c *conn) Script(text string) error {
	c.wrote()
	return c.script(context.Background(), text)
}

// script is Script for statements that change nothing.
func (c *conn) script(ctx context.Context, text string) error {
	if err := c.RunRest(); err != nil {
		return err
	}
	_, err := c.exec(ctx, text)
	return err
}

// exec is script for statements that return something.
func (c *conn) exec(ctx context.Context, text string) ([]*pgconn.Result, error) {
	script, more := c.withSettings(text)
	results, err := c.raw.Exec(ctx, script).ReadAll()
	return results[min(more, len(results)):], err
}

// name is that of a statement to be prepared.
func (c *conn) name(name string) string {
	if c.settings != "" {
		return ""
	}
	return name
}

// inBatch matches the statements that change the rows at hand, up to what says which.
var inBatch = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*(INSERT INTO temp\.batch \(seq\)|DELETE FROM temp\.batch)`)
})

// reading returns what a statement that changes the rows at hand asks of the database: which rows.
func reading(text string) (query string, does batchWork) {
	switch found := inBatch().FindString(text); {
	case found == "":
		return text, leaves
	case strings.Contains(found, "INSERT"):
		return text[len(found):], adds
	}
	return strings.Replace(text, "DELETE FROM", "SELECT seq FROM", 1), removes
}

// maxStatements bounds the prepared statements that a connection keeps; the engine has fewer, only ad hoc ones pile up.
const maxStatements = 1000

// prepare returns a statement that is about to be run.
func (c *conn) prepare(text string) (*statement, error) {
	s := c.stmts[text]
	if s == nil {
		if len(c.stmts) >= maxStatements {
			if c.settings == "" {
				if err := c.script(context.Background(), "DEALLOCATE ALL"); err != nil {
					return nil, err
				}
			}
			clear(c.stmts)
			clear(c.owns)
		}
		query, does := reading(text)
		sql, arguments := rewrite(query)
		description, err := describe(c, "s"+strconv.Itoa(len(c.stmts)), sql)
		if err != nil {
			return nil, fmt.Errorf("%w in %s", err, sql)
		}
		if store.Prepared != nil {
			store.Prepared(strings.TrimSuffix(text, returning))
		}
		s = &statement{StatementDescription: description, arguments: arguments, does: does, writes: does == leaves && writes().MatchString(text)}
		c.stmts[text] = s
	}
	if s.writes {
		c.wrote()
	}
	return s, nil
}

// writes matches statements that may change something.
var writes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^\s*(INSERT|UPDATE|DELETE|WITH\b[^;]*\b(INSERT INTO|UPDATE|DELETE FROM)\b|CREATE|DROP|ALTER)\b`)
})

func (c *conn) ExecBound(text string, args []driver.NamedValue) (driver.Result, error) {
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
			c.batch = append(c.batch, seq)
		} else {
			c.batch = slices.DeleteFunc(c.batch, func(other int64) bool { return other == seq })
		}
	}
	return driver.RowsAffected(len(result.Rows)), nil
}

// SetBatch sets the rows at hand.
func (c *conn) SetBatch(seqs []int64) { c.batch = append(c.batch[:0], seqs...) }

func (c *conn) QueryBound(text string, args []driver.NamedValue) (driver.Rows, int, error) {
	result, s, err := c.run(text, args)
	if err != nil {
		return nil, 0, err
	}
	return &rows{s, result.Rows}, len(s.Fields), nil
}

// rows are those that a statement has returned.
type rows struct {
	of   *statement
	left [][][]byte
}

func (r *rows) Columns() []string {
	names := make([]string, len(r.of.Fields))
	for i, field := range r.of.Fields {
		names[i] = field.Name
	}
	return names
}

func (r *rows) Close() error { return nil }

func (r *rows) Next(dest []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	for i, text := range r.left[0] {
		value, err := decode(r.of.Fields[i].DataTypeOID, text)
		if err != nil {
			return err
		}
		dest[i] = value
	}
	r.left = r.left[1:]
	return nil
}

// array is a list of numbers in the server's form.
func array(numbers []int64) []byte {
	text := []byte{'{'}
	for i, n := range numbers {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, n, 10)
	}
	return append(text, '}')
}

// encode returns a value for a parameter of a type, nil for NULL. What no text of PostgreSQL's can hold becomes U+FFFD: a NUL,
// and bytes that are no UTF-8.
func encode(kind uint32, value any) []byte {
	switch v := value.(type) {
	case nil:
		return nil
	case bool:
		switch {
		case kind == pgtype.BoolOID:
			return strconv.AppendBool(nil, v)
		case v:
			return []byte("1")
		}
		return []byte("0")
	case int64:
		return strconv.AppendInt(nil, v, 10)
	case float64:
		return strconv.AppendFloat(nil, v, 'g', -1, 64)
	case []byte:
		if kind == pgtype.ByteaOID {
			return []byte(`\x` + hex.EncodeToString(v))
		}
		return clean(string(v))
	case string:
		return clean(v)
	}
	return clean(fmt.Sprint(value))
}

func clean(text string) []byte {
	return []byte(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD"))
}

// decode returns a value as SQLite would: an int64, a float64 or a string, nil for NULL.
func decode(kind uint32, text []byte) (driver.Value, error) {
	if text == nil {
		return nil, nil
	}
	switch kind {
	case pgtype.BoolOID:
		if string(text) == "t" {
			return int64(1), nil
		}
		return int64(0), nil
	case pgtype.Int8OID, pgtype.Int4OID, pgtype.Int2OID, pgtype.OIDOID:
		return strconv.ParseInt(string(text), 10, 64)
	case pgtype.NumericOID: // also the sum of integers
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return n, nil
		}
		fallthrough
	case pgtype.Float8OID, pgtype.Float4OID:
		f, err := strconv.ParseFloat(string(text), 64)
		if errors.Is(err, strconv.ErrRange) {
			err = nil
		}
		if math.IsNaN(f) || math.IsInf(f, 0) { // which no JSON holds
			return string(text), err
		}
		return f, err
	}
	return string(text), nil
}
