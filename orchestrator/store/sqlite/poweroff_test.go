package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/overview"
)

// A power cut during the creation of the file leaves a journal that no reader can roll back. The first process can
// use the database all the same, even to read.
func TestReadingAfterAnInterruptedCreation(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	made, cut := filepath.Join(folder, "made.db"), filepath.Join(folder, "cut.db")
	db, err := enginetest.Plain(t, made).Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		`PRAGMA journal_mode = DELETE`, `PRAGMA cache_size = 2`, `CREATE TABLE other (x)`,
		// Without the table of a program that uses the command document, this would be another program's database,
		// and would stay as it is.
		`CREATE TABLE agent_message (message_id, sender, recipient, message_type, payload, status, created_at,
			delivered_at, retry_count, max_retries, error_message)`,
		`BEGIN`,
		`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
			WHERE i < 500) INSERT INTO other SELECT randomblob(1000) FROM n`,
	} {
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
	r := enginetest.Open(t, cut)
	if _, err := overview.Status(t.Context(), r.Ledger); err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := enginetest.Plain(t, cut).QueryRow(`SELECT count(*) FROM other`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows of the transaction that was cut, %v", rows, err)
	}
}
