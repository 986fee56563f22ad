package tables

import (
	"io"
	"slices"
	"strings"
	"testing"

	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom"
	"mailroom/orchestrator/store"
)

// The search for names that are taken misses no statement that creates something.
func TestAllThatIsMadeIsLookedFor(t *testing.T) {
	t.Parallel()
	madeBy := func(script string) (names []string) {
		for _, made := range makes().FindAllStringSubmatch(script, -1) {
			names = append(names, made[1])
		}
		return names
	}
	looked := madeBy(mailroom.Schema)
	opened, err := (&sqlite3.SQLiteDriver{}).Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	db := opened.(*sqlite3.SQLiteConn)
	if _, err := db.Exec(mailroom.Schema, nil); err != nil {
		t.Fatal(err)
	}
	rows, err := db.Query(`SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'`, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var there []string
	row := make(store.Row, 1)
	for err = rows.Next(row); err == nil; err = rows.Next(row) {
		there = append(there, row.Text(0))
	}
	if err != io.EOF || len(there) == 0 {
		t.Fatal(there, err)
	}
	for _, name := range there {
		if !slices.Contains(looked, name) {
			t.Errorf("%s is made and not looked for", name)
		}
	}
	for v := firstVersion; v < Version; v++ {
		if names, want := madeBy(migration(v)),
			strings.Count(migration(v), "CREATE ")+strings.Count(migration(v), " RENAME TO "); len(names) != want {
			t.Errorf("a migration makes %d, of which these are looked for: %q", want, names)
		}
	}
}
