package wire

import (
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// array returns a list of numbers in the server's syntax.
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

// encode returns a value in the form for a parameter of the given type, or nil for NULL. Characters that
// PostgreSQL's text cannot hold become U+FFFD: NUL, and bytes that are not valid UTF-8.
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

// decode returns a value as SQLite would: an int64, a float64 or a string, or nil for NULL.
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
		if math.IsNaN(f) || math.IsInf(f, 0) { // JSON cannot represent these
			return string(text), err
		}
		return f, err
	}
	return string(text), nil
}
