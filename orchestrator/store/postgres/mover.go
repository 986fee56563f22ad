package postgres

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"mailroom/orchestrator/store"
)

// ownTables and posColumn exist only in this kind of database: the tables of its processes and their commits, and
// the column with the order of insertion.
const (
	ownTables = `('commits', 'pulse')`
	posColumn = "pos"
)

// HoldStill locks Mailroom's tables against all writers. Readers continue.
//
// A program that writes by hand may have locked a table and then wait for an advisory lock that this transaction
// holds; a write to an inbox view takes such locks. The server checks for a deadlock when a session has waited for
// its deadlock_timeout, and ends that session. The first time, HoldStill therefore waits half as long for a table;
// then the transaction runs again, which lets the other program continue. The second time it waits one and a half
// times as long, so that the server ends an autovacuum of the table, but does not yet end a session that began to
// wait later.
func (c *conn) HoldStill(again bool) error {
	patience := 0.5
	if again {
		patience = 1.5
	}
	tables, err := c.Tables()
	if err != nil {
		return err
	}
	before, _, err := (&store.Conn{Driver: c}).Text(`SELECT current_setting('lock_timeout')`)
	if err != nil {
		return err
	}
	var names []string
	for _, t := range tables {
		if !t.Foreign {
			names = append(names, t.Name)
		}
	}
	return c.Do(context.Background(), fmt.Sprintf(`SET LOCAL idle_in_transaction_session_timeout = 0;
		SELECT set_config('lock_timeout', (%g * setting::int)::int::text, true) FROM pg_catalog.pg_settings
			WHERE name = 'deadlock_timeout';
		LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE; SET LOCAL lock_timeout = '%s'`, patience, strings.Join(names, ", "),
		before))
}

// Tables lists the tables.
func (c *conn) Tables() (list []store.MovedTable, err error) {
	ours := store.TablesMade(schemaSQL)
	err = (&store.Conn{Driver: c}).Query(`
		SELECT t.relname::text, a.attname::text, a.atttypid::bigint, a.attnotnull, a.attname = '`+posColumn+`'
		FROM pg_catalog.pg_class t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid
		WHERE t.relnamespace::text = current_schema()::regnamespace::oid::text AND t.relkind = 'r' AND t.relname NOT IN `+ownTables+` AND a.attnum > 0 AND NOT a.attisdropped
		ORDER BY t.relname, a.attnum`, func(row store.Row) error {
		if len(list) == 0 || list[len(list)-1].Name != row.Text(0) {
			list = append(list, store.MovedTable{Name: row.Text(0), Foreign: !ours[row.Text(0)]})
		}
		t := &list[len(list)-1]
		if row.Int(4) != 0 {
			t.Ordered = true
			return nil
		}
		t.Columns = append(t.Columns,
			store.MovedColumn{Name: row.Text(1), Number: row.Int(2) == int8OID, Never: row.Int(3) != 0})
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = (&store.Conn{Driver: c}).Query(`
		SELECT t.relname::text, string_agg(a.attname::text, ',') FROM pg_catalog.pg_index i
			JOIN pg_catalog.pg_class t ON t.oid = i.indrelid
		JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY (i.indkey)
		WHERE t.relnamespace::text = current_schema()::regnamespace::oid::text AND i.indisunique
			GROUP BY t.relname, i.indexrelid`, func(row store.Row) error {
		if i := slices.IndexFunc(list, func(t store.MovedTable) bool { return t.Name == row.Text(0) }); i >= 0 {
			list[i].Keys = append(list[i].Keys, strings.Split(row.Text(1), ","))
		}
		return nil
	})
	return list, err
}

// int8OID is the type bigint.
const int8OID = 20

// Each calls each with every row of a table, in the order of insertion if that is known. It keeps only one row in
// memory.
func (c *conn) Each(t store.MovedTable, each func(row store.Row) error) (err error) {
	query := `SELECT ` + t.ColumnList() + ` FROM ` + t.Name
	if t.Ordered {
		query += ` ORDER BY pos`
	}
	rows, err := c.Stream(query, nil)
	if err != nil {
		return err
	}
	row := make(store.Row, len(t.Columns))
	for err == nil && rows.Next() {
		if err = rows.Row(row); err == nil {
			err = each(row)
		}
	}
	return cmp.Or(err, rows.Close())
}

// Fill adds rows to a table with COPY.
func (c *conn) Fill(t store.MovedTable, rows iter.Seq2[store.Row, error]) error {
	if err := c.RunRest(); err != nil {
		return err
	}
	c.Wrote()
	next, stop := iter.Pull2(rows)
	defer stop()
	from := &copied{next: next}
	_, err := c.Raw.CopyFrom(context.Background(), from, `COPY `+t.Name+` (`+t.ColumnList()+`) FROM STDIN`)
	if from.err != nil {
		return from.err
	}
	if err != nil {
		return fmt.Errorf("cannot write a row of %s: %w", t.Name, err)
	}
	return nil
}

// copied converts rows to the form that COPY reads.
type copied struct {
	next func() (store.Row, error, bool)
	text []byte // rows that are not read yet
	from int    // position in text
	err  error  // error that ended the rows
}

// enoughText is the amount of text that is produced at a time, in bytes.
const enoughText = 64 << 10

func (r *copied) Read(into []byte) (int, error) {
	if r.from == len(r.text) {
		r.text, r.from = r.text[:0], 0
		for len(r.text) < enoughText {
			row, err, more := r.next()
			if err != nil {
				r.err = err
				return 0, err
			}
			if !more {
				break
			}
			for i, value := range row {
				if i > 0 {
					r.text = append(r.text, '\t')
				}
				r.text = appendCopied(r.text, value)
			}
			r.text = append(r.text, '\n')
		}
		if len(r.text) == 0 {
			return 0, io.EOF
		}
	}
	n := copy(into, r.text[r.from:])
	r.from += n
	return n, nil
}

// appendCopied appends a value in the form that COPY reads.
func appendCopied(text []byte, value driver.Value) []byte {
	switch v := value.(type) {
	case nil:
		return append(text, `\N`...)
	case int64:
		return strconv.AppendInt(text, v, 10)
	}
	for _, b := range []byte(store.Text(value)) {
		switch b {
		case '\\':
			text = append(text, `\\`...)
		case '\t':
			text = append(text, `\t`...)
		case '\n':
			text = append(text, `\n`...)
		case '\r':
			text = append(text, `\r`...)
		default:
			text = append(text, b)
		}
	}
	return text
}

// Numbers returns, by table, the last number that was given to a row.
func (c *conn) Numbers() (map[string]int64, error) {
	numbers := map[string]int64{}
	for _, n := range store.Numbered {
		last, err := (&store.Conn{Driver: c}).Number(fmt.Sprintf(
			`SELECT greatest(pg_sequence_last_value(pg_get_serial_sequence('%[1]s', '%[2]s')::regclass),
				(SELECT max(%[2]s) FROM %[1]s), 0)`, n.Table, n.Column))
		if err != nil {
			return nil, err
		}
		numbers[n.Table] = last
	}
	return numbers, nil
}

// Filled sets the numbers from which the tables continue.
func (c *conn) Filled(last map[string]int64) error {
	for _, n := range store.Numbered {
		if _, err := (&store.Conn{Driver: c}).Number(fmt.Sprintf(
			`SELECT setval(pg_get_serial_sequence('%[1]s', '%[2]s'), greatest(%[3]d, (SELECT max(%[2]s) FROM %[1]s), 1),
				greatest(%[3]d, (SELECT max(%[2]s) FROM %[1]s), 0) > 0)`,
			n.Table, n.Column, last[n.Table])); err != nil {
			return err
		}
	}
	return nil
}

// Shut creates triggers that reject writes by hand. Older programs need no lock, since every version that supports
// servers also supports store.MovedTo.
func (c *conn) Shut() error {
	settings, err := store.MoveSettings(&store.Conn{Driver: c})
	if err != nil {
		return err
	}
	says := store.ClosedByHand(settings)
	if says == "" {
		return letIn(c)
	}
	script := `CREATE OR REPLACE FUNCTION is_closed() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = TG_ARGV[0]; END $$;`
	for _, table := range store.WrittenByHand {
		// CREATE OR REPLACE TRIGGER does not wait for readers.
		script += "CREATE OR REPLACE TRIGGER closed BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON " + table +
			" FOR EACH STATEMENT EXECUTE FUNCTION is_closed('" + strings.ReplaceAll(says, "'", "''") + "');"
	}
	return c.Script(script)
}

// letIn drops the triggers of Shut.
func letIn(c *conn) error {
	script := ""
	for _, table := range store.WrittenByHand {
		script += "DROP TRIGGER IF EXISTS closed ON " + table + ";"
	}
	return c.Script(script)
}
