package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/overview"
)

// A power cut during the creation of the file leaves a journal that no reader can roll back. The first process can
// use the database all the same, even to read.
func TestReadingAfterAnInterruptedCreation(t *testing.T) {
	t.Parallel()
	path := interrupted(t, `CREATE TABLE other (x)`,
		// Without the table of a program that uses the command document, this would be another program's database,
		// and would stay as it is.
		`CREATE TABLE agent_message (message_id, sender, recipient, message_type, payload, status, created_at,
			delivered_at, retry_count, max_retries, error_message)`,
		`BEGIN`)
	r := enginetest.Open(t, path)
	if _, err := overview.Status(t.Context(), r.Ledger); err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := enginetest.Plain(t, path).QueryRow(`SELECT count(*) FROM other`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows of the interrupted transaction, %v", rows, err)
	}
}

// TestCreatingAfterAnInterruptedCreation opens a file whose creator was killed. SQLite then empties the file, which is
// no reason not to create the database in it.
func TestCreatingAfterAnInterruptedCreation(t *testing.T) {
	t.Parallel()
	path := interrupted(t, `BEGIN`, `CREATE TABLE other (x)`)
	r := enginetest.Open(t, path)
	var tables int
	err := enginetest.Plain(t, path).QueryRow(`SELECT count(*) FROM sqlite_schema`).Scan(&tables)
	if err != nil || tables != 0 {
		t.Fatalf("%d tables of the interrupted creation, %v", tables, err)
	}
	if created, err := r.Store.Create(); err != nil || !created {
		t.Errorf("created: %t, %v", created, err)
	}
}

// TestRemovedWithAJournal opens a database with a journal, which is then removed with it. No other database is
// created, because there was one.
func TestRemovedWithAJournal(t *testing.T) {
	t.Parallel()
	path := interrupted(t, `CREATE TABLE other (x)`, `BEGIN`)
	r := enginetest.Open(t, path)
	for _, suffix := range []string{"", "-journal"} {
		if err := os.Remove(path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Store.Create(); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("creating: %v, want that the database was removed", err)
	}
}

// interrupted returns a database as a power cut leaves it, with its rollback journal, in a transaction that inserts
// rows into the table other after the given statements.
func interrupted(t *testing.T, statements ...string) (path string) {
	t.Helper()
	folder := t.TempDir()
	made, cut := filepath.Join(folder, "made.db"), filepath.Join(folder, "cut.db")
	db, err := enginetest.Plain(t, made).Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	statements = slices.Concat([]string{`PRAGMA journal_mode = DELETE`, `PRAGMA cache_size = 2`}, statements,
		[]string{`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
			INSERT INTO other SELECT randomblob(1000) FROM n`})
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, suffix := range []string{"", "-journal"} {
		content, err := os.ReadFile(made + suffix)
		if err != nil || len(content) == 0 {
			t.Fatalf("%s: %v", suffix, err)
		}
		if err := os.WriteFile(cut+suffix, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cut
}
