package enginetest

import (
	"crypto/rand"
	"database/sql"
	_ "embed"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	_ "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator/store/postgres"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// OpenPlain opens a database as a program without the engine does. Statements are in SQLite's SQL in any case.
func OpenPlain(path string) (*sql.DB, error) {
	if postgres.IsAddress(path) {
		return sql.Open("outside", postgrestest.Direct(path))
	}
	return sql.Open("sqlite3", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_busy_timeout=20000")
}

// Plain opens a database as a program without the engine does, until the test ends.
func Plain(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := OpenPlain(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// Jam blocks all writes to a database from another connection, until release is called.
func Jam(t testing.TB, path string) (release func()) {
	t.Helper()
	if postgres.IsAddress(path) {
		return Harm(t, path, "BEGIN; LOCK TABLE agents, settings", "ROLLBACK")
	}
	return Harm(t, path, "BEGIN IMMEDIATE", "ROLLBACK")
}

// Hide hides the tables of a database on a server, until release is called.
func Hide(t testing.TB, address string) (release func()) {
	t.Helper()
	return Harm(t, address, "ALTER SCHEMA mailroom RENAME TO away", "ALTER SCHEMA away RENAME TO mailroom")
}

// Harm runs a statement as another program does. release runs repair on the same connection.
func Harm(t testing.TB, path, statement, repair string) (release func()) {
	t.Helper()
	c, err := Plain(t, path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run := func(statement string) {
		t.Helper()
		if _, err := c.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	run(statement)
	return func() { t.Helper(); run(repair) }
}

// SQL changes the database as another program does, through a connection without the engine.
func (f *Fixture) SQL(statement string, args ...any) {
	f.T.Helper()
	if uncounted.MatchString(statement) {
		byHand.Store(f.Path, true)
	}
	db := Plain(f.T, f.Path)
	defer db.Close()
	if _, err := db.Exec(statement, args...); err != nil {
		f.T.Fatalf("%s: %v", statement, err)
	}
}

// byHand holds the paths of databases in which a test changed rows by hand that message_count counts, so that the
// counts differ.
var byHand sync.Map

// uncounted matches statements that make such changes.
var uncounted = regexp.MustCompile(`\btraced_status\b|INTO agent_(inbox|message_archive)\b|UPDATE agent_message.*SET.*recipient =|DROP|ALTER`)

// Miscounts declares that the test makes the counts of a database wrong. The counts of other databases are compared
// with the rows at the end of the test.
func Miscounts(path string) { byHand.Store(path, true) }

// Count returns the number of rows in a table, even one that the product's queries may not read.
func (f *Fixture) Count(table string) (n string) {
	f.T.Helper()
	if err := Plain(f.T, f.Path).QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil {
		f.T.Fatal(err)
	}
	return n
}

// DocumentTable creates the table as defined in document 004.
const DocumentTable = `CREATE TABLE agent_message (message_id TEXT PRIMARY KEY, sender TEXT NOT NULL,
	recipient TEXT NOT NULL,
	message_type TEXT, payload JSON, status TEXT, created_at TIMESTAMP, delivered_at TIMESTAMP,
		retry_count INTEGER DEFAULT 0,
	max_retries INTEGER DEFAULT 3, error_message TEXT)`

// tables9 creates the tables of version 9, the oldest that can be used.
//
//go:embed versions/9.sql
var tables9 string

// OldVersion creates a database with version 9 of the tables, and with the agent a, which has the message m1.
func OldVersion(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "old.db")
	if _, err := Plain(t, path).Exec("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;\n" + tables9 +
		`PRAGMA application_id = 0x4d41494c; PRAGMA user_version = 9;
		INSERT INTO agents (name, created_at, updated_at) VALUES ('a', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z');
		INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('m1', 'a', 'a', '7')`); err != nil {
		t.Fatal(err)
	}
	return path
}

// Drop makes the database discard new rows of a table that match a condition on NEW, without an error.
func (f *Fixture) Drop(table, condition string) {
	f.T.Helper()
	name := "drop_" + strings.ToLower(rand.Text())
	if !postgres.IsAddress(f.Path) {
		f.SQL(`CREATE TRIGGER ` + name + ` BEFORE INSERT ON ` + table + ` WHEN ` + condition +
			` BEGIN SELECT RAISE(IGNORE); END`)
		return
	}
	f.SQL(`CREATE FUNCTION ` + name + `() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
		CREATE TRIGGER ` + name + ` BEFORE INSERT ON ` + table + ` FOR EACH ROW WHEN (` + condition +
		`) EXECUTE FUNCTION ` + name + `()`)
}

// Forbid makes the database reject a change of a table, such as "INSERT" or "UPDATE OF status", with the error why,
// for rows that match a condition on NEW or OLD. allow removes the restriction.
func (f *Fixture) Forbid(change, table, condition, why string) (allow func()) {
	f.T.Helper()
	name := "forbid_" + strings.ToLower(rand.Text())
	if !postgres.IsAddress(f.Path) {
		f.SQL(`CREATE TRIGGER ` + name + ` BEFORE ` + change + ` ON ` + table + ` WHEN ` + condition +
			` BEGIN SELECT RAISE(ABORT, '` + why + `'); END`)
		return func() { f.T.Helper(); f.SQL(`DROP TRIGGER ` + name) }
	}
	f.SQL(`CREATE FUNCTION ` + name + `() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '` + why +
		`'; END $$;
		CREATE TRIGGER ` + name + ` BEFORE ` + change + ` ON ` + table + ` FOR EACH ROW WHEN (` + condition +
		`) EXECUTE FUNCTION ` + name + `()`)
	return func() { f.T.Helper(); f.SQL(`DROP FUNCTION ` + name + ` CASCADE`) }
}
