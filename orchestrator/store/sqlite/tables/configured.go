package tables

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"mailroom"
	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// checkedNext is the last version of the tables without constraints on the configuration tables. The next migration
// adds the constraints, so the rows are checked when a migration has reached this version.
const checkedNext = 11

// constraint is a constraint of a table that holds configuration.
type constraint struct{ table, text string }

// condition returns the condition that each row of the table must meet.
func (k constraint) condition() string {
	_, condition, _ := strings.Cut(k.text, " CHECK ")
	return condition
}

// constraints returns the constraints in schema.sql. They reject values of a type other than the column's, and names
// that the engine does not accept.
var constraints = sync.OnceValue(func() (list []constraint) {
	for _, table := range regexp.MustCompile(`(?s)\nCREATE TABLE (\w+) \((.*?)\n\);`).FindAllStringSubmatch(mailroom.Schema, -1) {
		for _, text := range strings.Split(table[2], "\n    CONSTRAINT ")[1:] {
			list = append(list, constraint{table[1], strings.TrimSuffix(onOneLine(text), ",")})
		}
	}
	return list
})

// onOneLine replaces each run of white space in a text by one space, so that constraints can be compared however the
// schema breaks its lines.
func onOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// CheckConfigured implements store.Driver.
func (k Keeper) CheckConfigured() error {
	for _, each := range constraints() {
		made, _, err := k.Text(`SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?`, each.table)
		if err != nil {
			return err
		}
		if !strings.Contains(onOneLine(made), each.text) {
			return orchestrator.Errorf(orchestrator.Unavailable,
				"the table %s of the database differs from the table that Mailroom creates", each.table).
				WithHint("Use another database, because somebody has changed this file")
		}
	}
	return k.checkRows()
}

// checkRows refuses a database with configuration rows that violate the constraints. The error names some of these
// rows.
func (k Keeper) checkRows() error {
	var odd []string
	for _, each := range constraints() {
		err := k.Query(`SELECT rowid FROM `+each.table+` WHERE `+each.condition()+` IS NOT TRUE LIMIT 3`,
			func(row store.Row) error {
				odd = append(odd, fmt.Sprintf("%s WHERE rowid = %d", each.table, row.Int(0)))
				return nil
			})
		if err != nil {
			return err
		}
	}
	if len(odd) == 0 {
		return nil
	}
	return orchestrator.Errorf(orchestrator.Unavailable,
		"the database has rows, written with SQL, that violate the constraints of its tables: %s",
		strings.Join(odd, ", ")).
		WithHint("To see such a row, run `sqlite3 FILE \"SELECT * FROM %s\"`. Correct or delete each of these rows with SQL. Nothing was changed", odd[0])
}
