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

// checkedNext is the version of the tables after which those of what is configured get the constraints that they have
// since.
const checkedNext = 11

// constraint is one of a table that holds what is configured.
type constraint struct{ table, text string }

// condition is what each row of the table must fulfil.
func (k constraint) condition() string {
	_, condition, _ := strings.Cut(k.text, " CHECK ")
	return condition
}

// constraints are those of schema.sql. They keep out values of another type than the column's, and names that the
// engine does not take.
var constraints = sync.OnceValue(func() (list []constraint) {
	for _, table := range regexp.MustCompile(`(?s)\nCREATE TABLE (\w+) \((.*?)\n\);`).FindAllStringSubmatch(mailroom.Schema, -1) {
		for _, text := range strings.Split(table[2], "\n    CONSTRAINT ")[1:] {
			list = append(list, constraint{table[1], strings.TrimSuffix(onOneLine(text), ",")})
		}
	}
	return list
})

// onOneLine returns a text with one space for each run of white space, so that a constraint is the same however the
// schema breaks its lines.
func onOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// CheckConfigured: see store.Driver.
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

// checkRows refuses a database with rows of what is configured that the constraints keep out, and names some of them.
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
