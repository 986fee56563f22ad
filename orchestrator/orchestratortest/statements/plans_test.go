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

// planned matches the statements for which SQLite makes a plan.
var planned = regexp.MustCompile(`^(SELECT|INSERT|UPDATE|DELETE|WITH) `)

// foreignTable matches the one statement that reads a table that another program created under the name of one of our
// views.
var foreignTable = regexp.MustCompile(`FROM "\w+_inbox"`)

// hot contains parts of the statements that run for every message, or for every check whether there is one. Their
// plans are in plans.golden.
var hot = []string{
	// Sending.
	`SELECT 1 FROM agent_message WHERE message_id = ?`,
	`SELECT params_hash, result FROM idempotency`,
	// Delivery: the due messages, the next recipient, the claim, the row in the inbox, the counts, the trace.
	`SELECT min(at) FROM ( SELECT min(next_attempt_at)`,
	`SELECT recipient FROM agent_message WHERE status IN ('pending','retry') AND recipient >`,
	`SELECT priority FROM agent_message WHERE status`,
	`SELECT octet_length(payload) FROM agent_message`,
	`INSERT INTO temp.batch (seq) SELECT seq FROM agent_message m WHERE status`,
	`UPDATE agent_message SET lease_token = ?2, lease_until = ?3`,
	`INSERT INTO agent_inbox (recipient, message_id, payload, delivered_at) SELECT recipient`,
	`SELECT recipient, traced_status, count(*) FROM agent_message WHERE seq IN (SELECT seq FROM temp.batch)`,
	`UPDATE agent_message SET status = ?3, traced_status = ?3`,
	`SELECT EXISTS (SELECT 1 FROM agent_message WHERE traced_status IS DISTINCT FROM status`,
	// Reading: the check, the message, its lease, the record that it was read.
	`SELECT (SELECT value FROM settings WHERE key = 'config.version'), EXISTS (SELECT 1 FROM agent_inbox`,
	`SELECT EXISTS (SELECT 1 FROM (SELECT i.delivered_at, m.seq FROM agent_inbox i`,
	`SELECT 0, m.seq FROM thread_participants p CROSS JOIN agent_message m`,
	`ends FROM reading_lease WHERE until <= ? ORDER BY until`,
	`DELETE FROM reading_lease WHERE message_id = ?1 AND recipient = ?2 AND shown_at`,
	`UPDATE agent_inbox SET read_at = ? WHERE`,
	`UPDATE agent_message SET acknowledged_at = ?`,
}

// TestPlans fails if a statement of the engine walks through all rows of a growing table, or sorts such rows, and
// mayCost does not allow it. It compares the plans of the hot statements with plans.golden.
func TestPlans(t *testing.T) {
	t.Parallel()
	all, err := statements.All()
	if err != nil {
		t.Fatal(err)
	}
	db := openLikeEngine(t)
	var plans []string
	needed, found := map[string]bool{}, map[string]bool{}
	for _, text := range all {
		if !planned.MatchString(text) || foreignTable.MatchString(text) {
			continue
		}
		steps := explain(t, db, text)
		if len(steps) == 0 { // INSERT ... VALUES
			continue
		}
		plan := text + "\n\t" + strings.Join(steps, "\n\t")
		for _, part := range hot {
			if strings.Contains(text, part) {
				plans, found[part] = append(plans, plan), true
			}
		}
		if costly := costlySteps(text, steps); len(costly) > 0 && !allowed(text, len(costly), needed) {
			t.Errorf("costs more, the more rows there are, because of:\n%s\nin %s", strings.Join(costly, "\n"), plan)
		}
	}
	for part := range mayCost {
		if !needed[part] {
			t.Errorf("mayCost allows %q, which no statement needs", part)
		}
	}
	for _, part := range hot {
		if !found[part] {
			t.Errorf("no statement has %q any more: name the one that runs for every message in its place", part)
		}
	}
	compare(t, plans)
}

// compare writes plans.golden, or fails for each plan that is only in the file or only in plans.
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

// openLikeEngine opens a new database with the same settings as the engine's connection. The database stays empty:
// SQLite plans by the number of rows only after ANALYZE, which the engine never runs.
func openLikeEngine(t *testing.T) *sql.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mailroom.db")
	r, err := router.Open(t.Context(),
		ledger.Options{Path: path, Log: slog.New(slog.DiscardHandler), Bell: store.NewLocalBell()})
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

// explain returns the steps of SQLite's plan for a statement, nested steps indented.
func explain(t *testing.T, db *sql.DB, text string) (steps []string) {
	t.Helper()
	const parameters = 40 // more than any statement has; the driver ignores the others
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
