package store_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
)

// Columns with the same name get numbers, however many there are, and whatever the names of the others are.
func TestUniqueColumns(t *testing.T) {
	t.Parallel()
	many := make([]string, 30)
	for i := range many {
		many[i] = "n"
	}
	names := store.UniqueColumns(append(many, "m_2", "m", "m"))
	want.Equal(t, "the thirtieth", names[29], "n_30")
	want.Equal(t, "one whose number is taken", names[32], "m_3")
}

// Rows are valid JSON, whatever their values are, and can be read back.
func TestTableIsJSON(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("né", 100_000)
	table := store.NewTable([]string{`a "key"`, "b"}, store.Bound{Rows: 100})
	for _, value := range []any{nil, int64(math.MaxInt64), 0.5, math.Inf(-1), true, "\x1b\"\n", []byte("x\xff"),
		time.Unix(0, 0), long} {
		if more, err := table.Add(store.Row{value, int64(1)}); !more || err != nil {
			t.Fatal(value, more, err)
		}
	}
	text, err := json.Marshal(table.Rows)
	if err != nil || !strings.HasPrefix(string(text), `[{"a \"key\"":null,"b":1},{`) {
		t.Errorf("%.100s, %v", text, err)
	}
	rows := table.Rows.Values()
	want.Equal(t, "rows", len(rows), 9)
	for i, is := range []any{nil, json.Number("9223372036854775807"), json.Number("0.5"), "-Inf", true, "\x1b\"\n",
		"x\uFFFD", "1970-01-01T00:00:00.000Z", long} {
		if got := rows[i][0]; got != is {
			t.Errorf("row %d: %.100v; want %.100v", i, got, is)
		}
	}
}

// A query on a server may have no columns at all.
func TestTableWithoutColumns(t *testing.T) {
	t.Parallel()
	table := store.NewTable(nil, store.Bound{Rows: 2})
	for range 2 {
		if more, err := table.Add(nil); !more || err != nil {
			t.Fatal(more, err)
		}
	}
	text, err := json.Marshal(table.Rows)
	want.Equal(t, fmt.Sprint("rows, ", err), string(text), "[{},{}]")
	want.Equal(t, "rows", len(table.Rows.Values()), 2)
}

// A table ends with the last row that fits, and contains no part of another one. A first row that does not fit is an
// error.
func TestTableIsBounded(t *testing.T) {
	t.Parallel()
	const most = 3 << 20
	row := store.Row{strings.Repeat("x", 700_000)}
	for name, c := range map[string]struct {
		bound store.Bound
		rows  int
	}{"rows": {store.Bound{Rows: 2, Bytes: most}, 2}, "bytes": {store.Bound{Rows: 100, Bytes: most}, 4}} {
		table := store.NewTable([]string{"x"}, c.bound)
		added := 0
		for ; ; added++ {
			more, err := table.Add(row)
			if err != nil {
				t.Fatal(name, err)
			}
			if !more {
				break
			}
		}
		want.Equal(t, name, fmt.Sprint(added, len(table.Rows.Values()), table.Truncated),
			fmt.Sprint(c.rows, c.rows, true))
	}
	for _, long := range []any{strings.Repeat("\x01", most/5), make([]byte, most/5), strings.Repeat("x", most)} {
		// each byte of the first two is encoded as six bytes
		table := store.NewTable([]string{"x", "y"}, store.Bound{Rows: 1, Bytes: most})
		_, err := table.Add(store.Row{int64(1), long})
		want.Code(t, err, orchestrator.InvalidParams)
		want.Equal(t, "rows", len(table.Rows.Values()), 0)
	}
}
