package statements_test

import (
	"database/sql"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/statements"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store"
)

var update = flag.Bool("update", false, "write plans.golden")

const golden = "plans.golden"

// planned finds the statements that SQLite makes a plan for.
var planned = regexp.MustCompile(`^(SELECT|INSERT|UPDATE|DELETE|WITH) `)

// foreignTable finds the one statement that reads a table which another program has made under the name of a view of ours.
var foreignTable = regexp.MustCompile(`FROM "\w+_inbox"`)

// TestPlans compares how SQLite runs each statement of the engine with plans.golden. It also fails, whatever stands there,
// if one walks through all rows of a table that grows, or sorts such rows, and mayCost does not allow it.
func TestPlans(t *testing.T) {
	t.Parallel()
	all, err := statements.All()
	if err != nil {
		t.Fatal(err)
	}
	db := openLikeEngine(t)
	var plans []string
	needed := map[string]bool{}
	for _, text := range all {
		if !planned.MatchString(text) || foreignTable.MatchString(text) {
			continue
		}
		steps := explain(t, db, text)
		if len(steps) == 0 { // INSERT ... VALUES
			continue
		}
		plan := text + "\n\t" + strings.Join(steps, "\n\t")
		plans = append(plans, plan)
		if costly := costlySteps(text, steps); len(costly) > 0 && !allowed(text, len(costly), needed) {
			t.Errorf("costs more, the more rows there are, because of:\n%s\nin %s", strings.Join(costly, "\n"), plan)
		}
	}
	for part := range mayCost {
		if !needed[part] {
			t.Errorf("mayCost allows %q, which no statement needs", part)
		}
	}
	compare(t, plans)
}

// compare writes plans.golden, or fails for each plan that is only there, or only among these.
func compare(t *testing.T, plans []string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(plans, "\n\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n\n")
	for _, plan := range plans {
		if !slices.Contains(before, plan) {
			t.Errorf("not in %s (-update writes it):\n%s", golden, plan)
		}
	}
	for _, plan := range before {
		if !slices.Contains(plans, plan) {
			t.Errorf("only in %s:\n%s", golden, plan)
		}
	}
}

// openLikeEngine opens a new database with what the engine's connection to it has. It stays empty: SQLite plans by the
// number of rows only where somebody has run ANALYZE, and the engine never does.
func openLikeEngine(t *testing.T) *sql.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mailroom.db")
	r, err := router.Open(t.Context(), ledger.Options{Path: path, Log: slog.New(slog.DiscardHandler), Bell: store.NewLocalBell()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if _, err := r.Store.Create(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1) // which has temp.batch
	_, err = db.Exec(`PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY; CREATE TEMP TABLE batch (seq INTEGER PRIMARY KEY)`)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// explain returns the steps that SQLite plans for a statement, those within another one indented.
func explain(t *testing.T, db *sql.DB, text string) (steps []string) {
	t.Helper()
	const parameters = 40 // more than any has; the driver leaves the rest out
	rows, err := db.Query("EXPLAIN QUERY PLAN "+text, make([]any, parameters)...)
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	defer rows.Close()
	indent := map[int]string{}
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, indent[parent]+step)
		indent[id] = indent[parent] + "  "
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return steps
}
