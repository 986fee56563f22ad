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

// Bound is the most that the answer of an audit query may have.
type Bound struct {
	Rows  int
	Bytes int // of the rows as JSON; 0: maxAnswer
}

// maxAnswer bounds an answer, in bytes. It is in memory until it was written.
const maxAnswer = 32 << 20

// Most returns the bytes that the rows may take.
func (b Bound) Most() int { return cmp.Or(b.Bytes, maxAnswer) }

// Table is the answer of an audit query. NewTable makes one, and Add fills it.
type Table struct {
	Columns   []string
	Rows      Rows
	Truncated bool // there are more rows than the bound allows

	bound Bound
	keys  [][]byte // what stands before the value of each column
	n     int      // rows
}

// Rows are the rows of a Table: a JSON list of objects whose keys are the columns, in their order. They are encoded as
// they come, and sent in the pieces in which they are kept, so that no answer is in memory twice.
type Rows struct {
	pieces net.Buffers
	size   int // of all, in bytes
}

// pieceSize is how long a piece is that is full, in bytes.
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

// Add adds a row, whose values may also be of type time.Time. It reports whether there may be another one: if not, the
// row was one too many. Error: invalid_params for a first row that is too long by itself.
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

// inboxMissing finds the agent in the error of a query that asks for the view of its inbox, which it does not have.
var inboxMissing = pattern.New(`(?:no such table: |relation ")([a-z][a-z0-9_-]*)_inbox\b`)

// InvalidQuery is the error of a query that the database does not take; tables is one that lists its tables.
func InvalidQuery(err error, tables string) error {
	hint := "To list the tables, run `mailroom sql \"" + tables + "\"`. For a description of the tables, see schema.sql"
	if agent := inboxMissing().FindStringSubmatch(err.Error()); agent != nil {
		hint = "To create the inbox view of " + agent[1] + ", run `mailroom agent add " + agent[1] + " --inbox-view`"
	}
	return &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "the query is not valid", Err: err, Hint: hint}
}

// TooLong is the error of a query one of whose rows takes more than a number of bytes.
func TooLong(bytes int) error {
	return orchestrator.Errorf(orchestrator.InvalidParams, "a row of the result is larger than %d bytes", bytes).
		WithHint("Select fewer columns, or only a part of a long text, for example substr(payload, 1, 1000)")
}

// TooSlow is the error of a query that was ended after a time.
func TooSlow(after time.Duration) error {
	return orchestrator.Errorf(orchestrator.Unavailable, "the query was stopped because it ran for more than %s",
		orchestrator.FormatDuration(after)).
		WithHint("Restrict the query, for example by message_id or by time")
}

// write appends a text.
func (r *Rows) write(text []byte) {
	r.size += len(text)
	if last := len(r.pieces) - 1; last >= 0 && len(r.pieces[last])+len(text) <= pieceSize {
		r.pieces[last] = append(r.pieces[last], text...)
		return
	}
	r.pieces = append(r.pieces, slices.Clone(text))
}

// cut leaves the first size bytes.
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

// value appends a value as JSON, and reports whether there is still room: it stops once there are more than most bytes.
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
		if math.IsInf(v, 0) || math.IsNaN(v) { // which JSON does not know
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
		panic(err) // a number or a truth value always encodes
	}
	r.write(encoded)
}

// textPart is how much of a text is encoded at a time, in bytes: that may take six times as much.
const textPart = 32 << 10

// text appends a text, in parts that end where a character does.
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

// MarshalJSON puts the rows together. Whoever can writes Pieces instead.
func (r Rows) MarshalJSON() ([]byte, error) {
	return bytes.Join(slices.Concat([][]byte{{'['}}, r.pieces, [][]byte{{']'}}), nil), nil
}

// Pieces are the rows as JSON, one after the other, without the brackets around them. They must not be changed.
func (r Rows) Pieces() [][]byte { return r.pieces }

// Values returns the values of each row: nil, a json.Number, a string or a bool.
func (r Rows) Values() (rows [][]any) {
	left := slices.Clone(r.pieces) // reading takes from it
	decoder := json.NewDecoder(io.MultiReader(strings.NewReader("["), &left, strings.NewReader("]")))
	decoder.UseNumber()
	next := func() any {
		token, _ := decoder.Token() // what was encoded here can be decoded
		return token
	}
	for next(); decoder.More(); next() { // from bracket to bracket
		row := []any{}
		for next(); decoder.More(); {
			next() // the key
			row = append(row, next())
		}
		rows = append(rows, row)
	}
	return rows
}

// UniqueColumns makes column names usable as JSON keys: a repeated one gets a number.
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
