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

// OpenPlain opens a database the way a program does that knows nothing of the engine. Statements are SQLite's in any
// case.
func OpenPlain(path string) (*sql.DB, error) {
	if postgres.IsAddress(path) {
		return sql.Open("outside", postgrestest.Direct(path))
	}
	return sql.Open("sqlite3", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_busy_timeout=20000")
}

// Plain is OpenPlain until the test ends.
func Plain(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := OpenPlain(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// Jam has another program keep everybody from writing into a database, until release.
func Jam(t testing.TB, path string) (release func()) {
	t.Helper()
	if postgres.IsAddress(path) {
		return Harm(t, path, "BEGIN; LOCK TABLE agents, settings", "ROLLBACK")
	}
	return Harm(t, path, "BEGIN IMMEDIATE", "ROLLBACK")
}

// Hide has the tables of a database on a server missing, until release.
func Hide(t testing.TB, address string) (release func()) {
	t.Helper()
	return Harm(t, address, "ALTER SCHEMA mailroom RENAME TO away", "ALTER SCHEMA away RENAME TO mailroom")
}

// Harm runs a statement as another program does, and returns what runs another on the same connection.
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

// SQL changes the database the way another program does: through a connection that knows nothing of the engine.
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

// byHand has the paths of databases in which a test has changed by hand what message_count counts, so that it says
// something else.
var byHand sync.Map

// uncounted matches statements that do so.
var uncounted = regexp.MustCompile(`\btraced_status\b|INTO agent_(inbox|message_archive)\b|UPDATE agent_message.*SET.*recipient =|DROP|ALTER`)

// Miscounts says that the test makes the counts of a database wrong. Otherwise they are compared with the rows when it
// ends.
func Miscounts(path string) { byHand.Store(path, true) }

// Count counts the rows of a table, also of one that no query of the product may read.
func (f *Fixture) Count(table string) (n string) {
	f.T.Helper()
	if err := Plain(f.T, f.Path).QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil {
		f.T.Fatal(err)
	}
	return n
}

// DocumentTable makes the table as document 004 has it.
const DocumentTable = `CREATE TABLE agent_message (message_id TEXT PRIMARY KEY, sender TEXT NOT NULL,
	recipient TEXT NOT NULL,
	message_type TEXT, payload JSON, status TEXT, created_at TIMESTAMP, delivered_at TIMESTAMP,
		retry_count INTEGER DEFAULT 0,
	max_retries INTEGER DEFAULT 3, error_message TEXT)`

// tables9 are the tables of version 9, the oldest that can be used.
//
//go:embed versions/9.sql
var tables9 string

// OldVersion makes a database of version 9 of the tables, with the agent a, who has the message m1.
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

// Forbid has the database refuse a change of a table, such as "INSERT" or "UPDATE OF status", of rows for which a
// condition on NEW or OLD holds, with an error that says why. allow ends that.
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
