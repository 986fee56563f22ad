package tables

import (
	"fmt"
	"iter"
	"strings"

	"mailroom"
	"mailroom/orchestrator/store"
)

// movedVersion is added to the version of the tables when the database has moved away, so that programs without
// support for store.MovedTo refuse the database.
const movedVersion = 1 << 24

// HoldStill renumbers rows if numbers are out of range, since the other place may not be able to continue from them.
// The write lock keeps everybody else out.
func (k Keeper) HoldStill(bool) error {
	for _, n := range store.Numbered {
		last, err := k.lastOf(n.Table, n.Column)
		if err != nil {
			return err
		}
		if last >= store.AlarmedNumber {
			return k.Renumber()
		}
	}
	return nil
}

// Tables lists the tables.
func (k Keeper) Tables() (list []store.MovedTable, err error) {
	ours := store.TablesMade(mailroom.Schema)
	err = k.Query(`SELECT s.name, p.name, p.type = 'INTEGER', p."notnull" OR p.pk > 0
		FROM sqlite_schema s JOIN pragma_table_info(s.name) p WHERE s.type = 'table'
			AND s.name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY s.name, p.cid`,
		func(row store.Row) error {
			if len(list) == 0 || list[len(list)-1].Name != row.Text(0) {
				list = append(list, store.MovedTable{Name: row.Text(0), Foreign: !ours[row.Text(0)], Ordered: true})
			}
			t := &list[len(list)-1]
			t.Columns = append(t.Columns,
				store.MovedColumn{Name: row.Text(1), Number: row.Int(2) != 0, Never: row.Int(3) != 0})
			return nil
		})
	for i := range list {
		if err == nil {
			list[i].Keys, err = k.keys(list[i].Name)
		}
	}
	return list, err
}

// keys returns the columns of each unique index of a table.
func (k Keeper) keys(table string) (keys [][]string, err error) {
	err = k.Query(`SELECT group_concat(i.name) FROM pragma_index_list(?1) l JOIN pragma_index_info(l.name) i
		WHERE l."unique" GROUP BY l.name`, func(row store.Row) error {
		keys = append(keys, strings.Split(row.Text(0), ","))
		return nil
	}, table)
	return keys, err
}

// Each calls each with every row of a table, in the order of their rowids.
func (k Keeper) Each(t store.MovedTable, each func(row store.Row) error) error {
	return k.Query(`SELECT `+t.ColumnList()+` FROM `+t.Name+` ORDER BY rowid`, each)
}

// Fill adds rows to a table.
func (k Keeper) Fill(t store.MovedTable, rows iter.Seq2[store.Row, error]) error {
	insert := `INSERT INTO ` + t.Name + ` (` + t.ColumnList() + `) VALUES (?` +
		strings.Repeat(", ?", len(t.Columns)-1) + `)`
	args := make([]any, len(t.Columns))
	for row, err := range rows {
		if err != nil {
			return err
		}
		for i, value := range row {
			args[i] = value
		}
		if _, err := k.Exec(insert, args...); err != nil {
			return fmt.Errorf("cannot write a row of %s: %w", t.Name, err)
		}
	}
	return nil
}

// Numbers returns, by table, the last number that was given to a row.
func (k Keeper) Numbers() (map[string]int64, error) {
	numbers := map[string]int64{}
	for _, n := range store.Numbered {
		last, err := k.lastOf(n.Table, n.Column)
		if err != nil {
			return nil, err
		}
		numbers[n.Table] = last
	}
	return numbers, nil
}

// Filled sets the numbers from which the tables continue.
func (k Keeper) Filled(last map[string]int64) error {
	for _, n := range store.Numbered {
		if _, err := k.Exec(`DELETE FROM sqlite_sequence WHERE name = ?`, n.Table); err != nil {
			return err
		}
		highest, err := k.Number(`SELECT max(` + lastNumber(n.Table, n.Column) + `, 0)`)
		if err != nil {
			return err
		}
		if _, err := k.Exec(`INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)`, n.Table,
			max(highest, last[n.Table])); err != nil {
			return err
		}
	}
	return nil
}

// Shut creates triggers that reject writes by hand, and raises the version of the tables for older programs.
func (k Keeper) Shut() error {
	settings, err := store.MoveSettings(k.Conn)
	if err != nil {
		return err
	}
	says, version := store.ClosedByHand(settings), Version
	if settings[store.MovedTo] != "" {
		version |= movedVersion
	}
	if err := k.letIn(); err != nil {
		return err
	}
	script := fmt.Sprintf("PRAGMA user_version = %d;", version)
	for _, table := range store.WrittenByHand {
		for _, does := range closedTo {
			if says != "" {
				script += "CREATE TRIGGER " + table + "_closed_to_" + does + " BEFORE " + does + " ON " + table +
					" BEGIN SELECT RAISE(ABORT, '" + strings.ReplaceAll(says, "'", "''") + "'); END;"
			}
		}
	}
	return k.Script(script)
}

// closedTo lists the operations that the triggers of Shut reject.
var closedTo = []string{"insert", "update", "delete"}

// letIn drops the triggers of Shut.
func (k Keeper) letIn() error {
	script := ""
	for _, table := range store.WrittenByHand {
		for _, does := range closedTo {
			script += "DROP TRIGGER IF EXISTS " + table + "_closed_to_" + does + ";"
		}
	}
	return k.Script(script)
}
