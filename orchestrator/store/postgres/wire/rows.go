package wire

import (
	"database/sql/driver"
	"io"

	"github.com/jackc/pgx/v5/pgconn"
)

// Rows holds the rows that a statement has returned.
type Rows struct {
	fields []pgconn.FieldDescription
	left   [][][]byte
}

// Columns returns the names of the columns.
func (r *Rows) Columns() []string { return columns(r.fields) }

func columns(fields []pgconn.FieldDescription) []string {
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = field.Name
	}
	return names
}

// Close does nothing, because all rows have been read.
func (r *Rows) Close() error { return nil }

// Next stores the values of the next row in dest. After the last row it returns io.EOF.
func (r *Rows) Next(dest []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	row := r.left[0]
	r.left = r.left[1:]
	return decodeRow(dest, r.fields, row)
}

func decodeRow(dest []driver.Value, fields []pgconn.FieldDescription, row [][]byte) (err error) {
	for i, text := range row {
		if dest[i], err = decode(fields[i].DataTypeOID, text); err != nil {
			return err
		}
	}
	return nil
}

// Stream is the result of a statement. It keeps one row in memory at a time.
type Stream struct {
	reader *pgconn.ResultReader
	fields []pgconn.FieldDescription
}

// Stream runs a statement. Nothing else can run on the connection until the stream is closed.
func (c *Conn) Stream(text string, args []driver.NamedValue) (*Stream, error) {
	if err := c.RunRest(); err != nil {
		return nil, err
	}
	next, err := c.bind(text, args)
	if err != nil {
		return nil, err
	}
	return &Stream{next.start(c), next.Fields}, nil
}

// Columns returns the names of the columns.
func (s *Stream) Columns() []string { return columns(s.fields) }

// Next reports whether there is another row.
func (s *Stream) Next() bool { return s.reader.NextRow() }

// Row stores the values of the current row in dest.
func (s *Stream) Row(dest []driver.Value) error {
	return decodeRow(dest, s.fields, s.reader.Values())
}

// Close reads the remaining rows and returns the statement's error.
func (s *Stream) Close() error {
	_, err := s.reader.Close()
	return err
}
