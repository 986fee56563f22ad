package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom/orchestrator"
	"mailroom/orchestrator/pattern"
)

// Bound limits the result of an audit query.
type Bound struct {
	Rows  int
	Bytes int // of the rows as JSON; 0 means maxAnswer
}

// maxAnswer limits a result, in bytes. A result is kept in memory until it has been sent.
const maxAnswer = 32 << 20

// Most returns the maximum number of bytes of the rows.
func (b Bound) Most() int { return cmp.Or(b.Bytes, maxAnswer) }

// Table is the result of an audit query. NewTable creates a table, and Add fills it.
type Table struct {
	Columns   []string
	Rows      Rows
	Truncated bool // there are more rows than the bound allows

	bound Bound
	keys  [][]byte // the text before the value of each column
	n     int      // number of rows
}

// Rows holds the rows of a Table as a JSON list of objects, whose keys are the columns in their order. The rows are
// encoded as they arrive, and sent in the pieces in which they are stored, so that no result is in memory twice.
type Rows struct {
	pieces net.Buffers
	size   int // of all pieces, in bytes
}

// pieceSize is the maximum length of a piece, in bytes, unless a single text is longer.
const pieceSize = 1 << 20

// NewTable returns a table without rows.
func NewTable(columns []string, bound Bound) *Table {
	t := &Table{Columns: UniqueColumns(columns), bound: bound}
	before := ""
	for _, column := range t.Columns {
		t.keys = append(t.keys, fmt.Appendf(nil, "%s%s:", before, orchestrator.JSONString(column)))
		before = ","
	}
	return t
}

// Add adds a row. The values may also be of type time.Time. Add reports whether another row may be added; if not,
// the table was full and this row was not added. The error is invalid_params if the first row is too long by itself.
func (t *Table) Add(values Row) (more bool, err error) {
	if t.Truncated = t.n >= t.bound.Rows; t.Truncated {
		return false, nil
	}
	before := t.Rows.size
	if t.n > 0 {
		t.Rows.write([]byte{','})
	}
	t.Rows.write([]byte{'{'})
	for i, value := range values {
		t.Rows.write(t.keys[i])
		if !t.Rows.value(value, t.bound.Most()) {
			break
		}
	}
	if t.Rows.write([]byte{'}'}); t.Rows.size > t.bound.Most() {
		if t.Rows.cut(before); t.n == 0 {
			return false, TooLong(t.bound.Most())
		}
		t.Truncated = true
		return false, nil
	}
	t.n++
	return true, nil
}

// inboxMissing finds the agent in the error of a query that uses an inbox view that does not exist.
var inboxMissing = pattern.New(`(?:no such table: |relation ")([a-z][a-z0-9_-]*)_inbox\b`)

// InvalidQuery returns the error of a query that the database rejected. tables is a query that lists the tables.
func InvalidQuery(err error, tables string) error {
	hint := "To list the tables, run `mailroom sql \"" + tables + "\"`. For a description of the tables, see schema.sql"
	if agent := inboxMissing().FindStringSubmatch(err.Error()); agent != nil {
		hint = "To create the inbox view of " + agent[1] + ", run `mailroom agent add " + agent[1] + " --inbox-view`"
	}
	return &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "the query is not valid", Err: err, Hint: hint}
}

// TooLong returns the error of a query with a row that is longer than the given number of bytes.
func TooLong(bytes int) error {
	return orchestrator.Errorf(orchestrator.InvalidParams, "a row of the result is larger than %d bytes", bytes).
		WithHint("Select fewer columns, or only a part of a long text, for example substr(payload, 1, 1000)")
}

// TooSlow returns the error of a query that was stopped after the given time.
func TooSlow(after time.Duration) error {
	return orchestrator.Errorf(orchestrator.Unavailable, "the query was stopped because it ran for more than %s",
		orchestrator.FormatDuration(after)).
		WithHint("Restrict the query, for example by message_id or by time")
}

// write appends text.
func (r *Rows) write(text []byte) {
	r.size += len(text)
	if last := len(r.pieces) - 1; last >= 0 && len(r.pieces[last])+len(text) <= pieceSize {
		r.pieces[last] = append(r.pieces[last], text...)
		return
	}
	r.pieces = append(r.pieces, slices.Clone(text))
}

// cut removes everything after the first size bytes.
func (r *Rows) cut(size int) {
	for r.size > size {
		last := len(r.pieces) - 1
		n := min(len(r.pieces[last]), r.size-size)
		r.pieces[last] = r.pieces[last][:len(r.pieces[last])-n]
		if r.size -= n; len(r.pieces[last]) == 0 {
			r.pieces = r.pieces[:last]
		}
	}
}

// value appends a value as JSON and reports whether there is room for more. It stops once there are more than most
// bytes.
func (r *Rows) value(value any, most int) bool {
	switch v := value.(type) {
	case string:
		return text(r, v, most)
	case []byte:
		return text(r, v, most)
	case int64:
		r.write(strconv.AppendInt(nil, v, 10))
	case time.Time:
		r.write(orchestrator.JSONString(orchestrator.Stamp(v)))
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) { // JSON has no such numbers
			r.write(orchestrator.JSONString(fmt.Sprint(v)))
			break
		}
		r.json(v)
	default:
		r.json(v)
	}
	return r.size <= most
}

func (r *Rows) json(value any) {
	encoded, err := orchestrator.JSON(value)
	if err != nil {
		panic(err) // numbers and booleans can always be encoded
	}
	r.write(encoded)
}

// textPart is the number of bytes of text that are encoded at a time. Encoded text can be six times as long.
const textPart = 32 << 10

// text appends a text in parts that end at a character boundary.
func text[T string | []byte](r *Rows, v T, most int) bool {
	r.write([]byte{'"'})
	for len(v) > 0 && r.size <= most {
		n := min(len(v), textPart)
		for back := 0; n < len(v) && back < utf8.UTFMax && !utf8.RuneStart(v[n]); back++ {
			n--
		}
		encoded := orchestrator.JSONString(string(v[:n]))
		r.write(encoded[1 : len(encoded)-1])
		v = v[n:]
	}
	r.write([]byte{'"'})
	return r.size <= most
}

// MarshalJSON joins the rows. Code that can should write Pieces instead.
func (r Rows) MarshalJSON() ([]byte, error) {
	return bytes.Join(slices.Concat([][]byte{{'['}}, r.pieces, [][]byte{{']'}}), nil), nil
}

// Pieces returns the rows as JSON, in pieces that follow each other, without the enclosing brackets. The caller must
// not change them.
func (r Rows) Pieces() [][]byte { return r.pieces }

// Values returns the values of each row: nil, a json.Number, a string or a bool.
func (r Rows) Values() (rows [][]any) {
	left := slices.Clone(r.pieces) // reading removes the pieces
	decoder := json.NewDecoder(io.MultiReader(strings.NewReader("["), &left, strings.NewReader("]")))
	decoder.UseNumber()
	next := func() any {
		token, _ := decoder.Token() // text that this package encoded can be decoded
		return token
	}
	for next(); decoder.More(); next() { // skip the opening and closing brackets
		row := []any{}
		for next(); decoder.More(); {
			next() // the key
			row = append(row, next())
		}
		rows = append(rows, row)
	}
	return rows
}

// UniqueColumns makes column names usable as JSON keys: a repeated name gets a number.
func UniqueColumns(columns []string) []string {
	taken := map[string]bool{}
	names := make([]string, len(columns))
	for i, name := range columns {
		names[i] = name
		for n := 2; taken[names[i]]; n++ {
			names[i] = name + "_" + strconv.Itoa(n)
		}
		taken[names[i]] = true
	}
	return names
}
