package wire

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"mailroom/orchestrator/pattern"
)

// bulk is a statement that inserts many rows: an INSERT of one row in which arrays replace the parameters. It takes
// the server half the time. It is nil for a statement of another form.
type bulk struct{ name, text string }

// insertOfOne matches an INSERT of one row whose values are all parameters.
var insertOfOne = pattern.New(`(?s)^\s*(INSERT INTO \w+\s*\([^)]*\))\s*VALUES\s*\(([$\d\s,]+)\)\s*$`)

var arrayTypes = map[uint32]string{pgtype.TextOID: "text[]", pgtype.Int8OID: "bigint[]"}

// prepareBulk prepares the bulk form of a statement once, if the statement has one.
func (c *Conn) prepareBulk(s *statement) error {
	if s.bulked {
		return nil
	}
	s.bulked = true
	parts := insertOfOne().FindStringSubmatch(cmp.Or(s.insert, s.SQL))
	if parts == nil {
		return nil
	}
	columns, arrays := make([]string, len(s.ParamOIDs)), make([]string, len(s.ParamOIDs))
	for i, kind := range s.ParamOIDs {
		if arrayTypes[kind] == "" {
			return nil
		}
		columns[i], arrays[i] = fmt.Sprintf("p%d", i+1), fmt.Sprintf("$%d::%s", i+1, arrayTypes[kind])
	}
	text := fmt.Sprintf(`%s SELECT %s FROM unnest(%s) WITH ORDINALITY AS rows (%s, n) ORDER BY n`,
		parts[1], strings.ReplaceAll(parts[2], "$", "p"), strings.Join(arrays, ", "), strings.Join(columns, ", "))
	if s.insert != "" {
		text = counted(text, "cardinality("+arrays[0]+")")
	}
	b := &bulk{c.name(s.Name + "s"), text}
	if _, err := c.Raw.Prepare(context.Background(), b.name, text, nil); err != nil {
		return fmt.Errorf("%w in %s", c.noted(err), text)
	}
	s.bulk = b
	return nil
}

// send sends consecutive calls of one statement, and returns the number of results that they produce.
func (c *Conn) send(p *pgconn.Pipeline, calls []bound) int {
	s := calls[0].statement
	if s.bulk == nil || len(calls) == 1 {
		for _, each := range calls {
			each.send(p)
		}
		return len(calls)
	}
	arrays := make([][]byte, len(s.ParamOIDs))
	for i, kind := range s.ParamOIDs {
		text := []byte{'{'}
		for j, each := range calls {
			if j > 0 {
				text = append(text, ',')
			}
			text = appendElement(text, kind, each.values[i])
		}
		arrays[i] = append(text, '}')
	}
	if s.bulk.name == "" {
		p.SendQueryParams(s.bulk.text, arrays, nil, nil, nil)
	} else {
		p.SendQueryPrepared(s.bulk.name, arrays, nil, nil)
	}
	return 1
}

// appendElement appends a value to the text of an array.
func appendElement(text []byte, kind uint32, value []byte) []byte {
	switch {
	case value == nil:
		return append(text, "NULL"...)
	case kind != pgtype.TextOID:
		return append(text, value...)
	}
	text = append(text, '"')
	for _, b := range value {
		if b == '"' || b == '\\' {
			text = append(text, '\\')
		}
		text = append(text, b)
	}
	return append(text, '"')
}
