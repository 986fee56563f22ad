package store

import (
	"database/sql/driver"
	"fmt"
	"math"
	"strconv"
)

// Row is a row of a query's result, one value a column: nil, an int64, a float64, a string, a []byte or a bool. It is only
// valid until the next one is read, but its strings may be kept.
type Row []driver.Value

// Text returns a column as text, "" for NULL.
func (r Row) Text(column int) string { return Text(r[column]) }

// Int returns a column as an integer, see [Int].
func (r Row) Int(column int) int64 { return Int(r[column]) }

// Text returns a value that should be text, as text: others may have written a number or a BLOB in its place.
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

// Int returns a value that should be an integer: the nearest one to a number, 0 for anything else.
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
	case string: // that does not begin with a number, of which SQLite would have made one
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
