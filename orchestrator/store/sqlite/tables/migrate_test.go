package tables_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/router"
)

// dump returns the whole definition of a database, for comparison.
func dump(t *testing.T, path string) []string {
	t.Helper()
	// Tables are compared by their columns, since ALTER TABLE leaves another text than CREATE TABLE.
	rows, err := enginetest.Plain(t, path).Query(`
		SELECT type || ' ' || name || ': ' || coalesce(sql, '') FROM sqlite_schema WHERE type <> 'table'
		UNION ALL
		SELECT 'table ' || t.name || ': ' || (t.sql LIKE '%AUTOINCREMENT%') || ' ' || group_concat(
		    c.name || ' ' || c.type || ' ' || c."notnull" || ' ' || coalesce(c.dflt_value, '-') || ' ' || c.pk, ', ')
		FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' GROUP BY t.name ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// A database that began as the command document's own table is migrated, equals a new one, and keeps its rows.
func TestMigratedEqualsFresh(t *testing.T) {
	t.Parallel()
	fresh, old := filepath.Join(t.TempDir(), "fresh.db"), filepath.Join(t.TempDir(), "old.db")
	if _, err := enginetest.Open(t, fresh).Store.Create(); err != nil {
		t.Fatal(err)
	}
	db := enginetest.Plain(t, old)
	for _, statement := range []string{enginetest.DocumentTable,
		`INSERT INTO agent_message (message_id, sender, recipient, payload, status, created_at)
			VALUES ('m1', 'A', 'b', '{"n":1.0}', 'pending', CURRENT_TIMESTAMP)`,
		`INSERT INTO agent_message (message_id, sender, recipient, payload, status)
			VALUES ('m0', 'a', 'b', '7', 'failed')`} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	r := enginetest.Open(t, old)
	if _, err := r.Store.Create(); err != nil {
		t.Fatal(err)
	}
	if a, b := dump(t, fresh), dump(t, old); !slices.Equal(a, b) {
		t.Errorf("migrated:\n%s\nfresh:\n%s", strings.Join(b, "\n"), strings.Join(a, "\n"))
	}
	for _, name := range []string{"a", "b"} {
		if _, _, err := agents.Add(t.Context(), r.Ledger, agents.Update{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := r.DeliverAll(t.Context(), delivery.Options{}); err != nil || d.Delivered != 1 {
		t.Fatalf("%+v %v", d, err)
	}
	ms, err := messages.Find(t.Context(), r.Ledger, "m1")
	if err != nil || string(ms[0].Payload) != `{"n":1.0}` || ms[0].Sender != "a" {
		t.Errorf("%+v %v", ms, err)
	}
}

// schema.sql must be valid for SQLite 3.31 and use nothing that only newer versions have.
func TestSchemaIsPlain(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"STRICT", "GENERATED", "RETURNING", "->>", "WITHOUT ROWID", "REFERENCES"} {
		for line := range strings.Lines(mailroom.Schema) {
			code, _, _ := strings.Cut(line, "--")
			if strings.Contains(code, word) {
				t.Errorf("schema.sql uses %s: %s", word, line)
			}
		}
	}
}

// A database of an older version is migrated, equals a new one, and keeps its rows.
func TestMigratedFromOlderVersion(t *testing.T) {
	t.Parallel()
	fresh, old := filepath.Join(t.TempDir(), "fresh.db"), enginetest.OldVersion(t)
	if _, err := enginetest.Open(t, fresh).Store.Create(); err != nil {
		t.Fatal(err)
	}
	db := enginetest.Plain(t, old)
	if _, err := db.Exec(`CREATE VIEW names AS SELECT name FROM agents;
		INSERT INTO settings VALUES ('pass_env.a', 'PG*', ''), ('bounce', 'off', '');
		INSERT INTO reading_lease (message_id, recipient, session, shown_at, until)
			VALUES ('m2', 'a', 's', '', '2026-01-01T00:00:00.000Z')`); err != nil {
		t.Fatal(err)
	}
	r := enginetest.Open(t, old)
	if _, err := r.Store.Create(); err != nil {
		t.Fatal(err)
	}
	var kept string
	if err := db.QueryRow(`SELECT (SELECT name FROM names) || (SELECT pass_env FROM agents) || (SELECT group_concat(key)
		FROM settings WHERE key IN ('bounce', 'pass_env.a'))
		|| (SELECT ends FROM reading_lease)`).Scan(&kept); err != nil || kept != "aPG*bouncesession" {
		t.Errorf("kept: %q, %v", kept, err)
	}
	if _, err := db.Exec(`DROP VIEW names`); err != nil {
		t.Fatal(err)
	}
	if a, b := dump(t, fresh), dump(t, old); !slices.Equal(a, b) {
		t.Errorf("migrated:\n%s\nfresh:\n%s", strings.Join(b, "\n"), strings.Join(a, "\n"))
	}
	if d, err := r.DeliverAll(t.Context(), delivery.Options{}); err != nil || d.Delivered != 1 {
		t.Errorf("%+v %v", d, err)
	}
}

// refused checks that a database can be neither read nor written, for the given reason, and that nothing in it
// changes.
func refused(t *testing.T, path, reason string) {
	t.Helper()
	before, mode := dump(t, path), journalMode(t, path)
	r := enginetest.Open(t, path)
	for what, use := range map[string]func() error{
		"writing": func() error { _, err := r.Store.Create(); return err },
		"reading": func() error { _, err := agents.List(t.Context(), r.Ledger); return err },
	} {
		err := use()
		want.Code(t, err, orchestrator.Unavailable)
		if !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after := dump(t, path); !slices.Equal(before, after) {
		t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	want.Equal(t, "the journal mode", journalMode(t, path), mode)
}

// A database of a version that can no longer be migrated is refused.
func TestTooOldVersions(t *testing.T) {
	t.Parallel()
	for version := 1; version < 9; version++ {
		path := enginetest.OldVersion(t)
		if _, err := enginetest.Plain(t, path).Exec(fmt.Sprintf(`PRAGMA user_version = %d`, version)); err != nil {
			t.Fatal(err)
		}
		refused(t, path,
			fmt.Sprintf("the database has version %d of the tables, but this Mailroom can upgrade only version 9 and later",
				version))
	}
}

// Rows that the tables no longer accept are named in the error, and are kept.
func TestOddRowsOfOlderVersion(t *testing.T) {
	t.Parallel()
	for statement, names := range map[string]string{
		`INSERT INTO agents (name, created_at, updated_at)
			VALUES ('user', '', '')`: "agents WHERE rowid = 2",
		`INSERT INTO agents (name, created_at, updated_at)
			VALUES ('Upper', '', '')`: "agents WHERE rowid = 2",
		`INSERT INTO agents (name, created_at, updated_at)
			VALUES (NULL, '', '')`: "agents WHERE rowid = 2",
		`UPDATE agents SET batch = 'never'`: "agents WHERE rowid = 1",
		`UPDATE agents SET batch = 1.5`:     "agents WHERE rowid = 1",
		`UPDATE agents SET role = x'ff'`:    "agents WHERE rowid = 1",
		`INSERT INTO groups
			VALUES ('all', '')`: "groups WHERE rowid = 1",
		`INSERT INTO group_members
			VALUES ('g', 'operator', 1)`: "group_members WHERE rowid = 1",
		`INSERT INTO settings
			VALUES ('bounce', x'ff', '')`: "settings WHERE rowid = ",
		`INSERT INTO schedules (name, spec, command, created_at)
			VALUES ('s', x'ff', 'poll', '')`: "schedules WHERE rowid = 1",
		`INSERT INTO tokens (hash, agent, admin, created_at)
			VALUES ('h', 'a', 'yes', '')`: "tokens WHERE rowid = 1",
		`INSERT INTO signal_devices (device_id, name, created_at)
			VALUES ('d', x'ff', '')`: "signal_devices WHERE rowid = 1",
	} {
		path := enginetest.OldVersion(t)
		if _, err := enginetest.Plain(t, path).Exec(statement); err != nil {
			t.Fatal(err)
		}
		refused(t, path, names)
	}
}

// A file that somebody else has created is refused if its tables lack the constraints that keep invalid rows out, or
// contain such rows nevertheless.
func TestForeignConfiguration(t *testing.T) {
	t.Parallel()
	for statement, reason := range map[string]string{
		`ALTER TABLE groups RENAME TO old; CREATE TABLE groups (name TEXT PRIMARY KEY, created_at TEXT NOT NULL)`: "the table groups of the database differs from the table that Mailroom creates",
		`PRAGMA ignore_check_constraints = ON; INSERT INTO groups VALUES ('all', '')`:                             "groups WHERE rowid = ",
	} {
		f := enginetest.New(t, "a")
		if _, err := enginetest.Plain(t, f.Path).Exec(statement); err != nil {
			t.Fatal(err)
		}
		if _, err := agents.List(t.Context(), f.Ledger); err != nil {
			t.Errorf("the one who made it: %v", err)
		}
		elsewhere := enginetest.OpenWith(t, ledger.Options{Path: f.Path, Trust: &ledger.Trust{Folder: t.TempDir()}})
		_, err := agents.List(t.Context(), elsewhere.Ledger)
		want.Code(t, err, orchestrator.Unavailable)
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// A table, index or view of another program with a name that Mailroom needs is refused, in upper and lower case, and
// nothing is changed: in a file without a version, beside the command document's own table, and in a file of an
// older version.
func TestForeignTablesAreRefused(t *testing.T) {
	t.Parallel()
	plain := func(t *testing.T) string { return filepath.Join(t.TempDir(), "foreign.db") }
	document := func(t *testing.T) string {
		path := plain(t)
		if _, err := enginetest.Plain(t, path).Exec(enginetest.DocumentTable); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, statement, says string
		file                  func(t *testing.T) string
	}{
		{"fresh, a table", `CREATE TABLE tokens (x)`, "tokens", plain},
		{"fresh, other letters", `CREATE TABLE Settings (x)`, "settings", plain},
		{"fresh, an index", `CREATE TABLE t (x); CREATE UNIQUE INDEX waits_waiter ON t (x)`, "waits_waiter", plain},
		{"fresh, a view", `CREATE VIEW presence AS SELECT 1`, "presence", plain},
		{"the document's, a table", `CREATE TABLE threads (x)`, "threads", document},
		{"the document's, the place of its rows", `CREATE TABLE agent_message_adopted (x)`, "agent_message_adopted",
			document},
		{"an older version, a table", `CREATE TABLE agents_11 (y)`, "agents_11", enginetest.OldVersion},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := c.file(t)
			if _, err := enginetest.Plain(t, path).Exec(c.statement); err != nil {
				t.Fatal(err)
			}
			refused(t, path, " an object named "+c.says+",")
		})
	}
}

func journalMode(t *testing.T, path string) (mode string) {
	t.Helper()
	if err := enginetest.Plain(t, path).QueryRow(`PRAGMA journal_mode`).Scan(&mode); err != nil {
		t.Fatal(err)
	}
	return mode
}

func TestWhatIsNoDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk.db")
	if err := os.WriteFile(junk, []byte(strings.Repeat("this is no database. ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign.db")
	newer := filepath.Join(dir, "newer.db")
	other := filepath.Join(dir, "other.db")
	for path, statements := range map[string]string{
		foreign: `CREATE TABLE agent_message (id INTEGER, body TEXT)`,
		other:   `PRAGMA application_id = 12345; CREATE TABLE t (x)`,
	} {
		if _, err := enginetest.Plain(t, path).Exec(statements); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := enginetest.Open(t, newer).Store.Create(); err != nil {
		t.Fatal(err)
	}
	if _, err := enginetest.Plain(t, newer).Exec(`PRAGMA user_version = 999`); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		junk: "not a SQLite database", foreign: "without the column", newer: "newer Mailroom", other: "another program",
	} {
		r := enginetest.Open(t, path)
		for what, use := range map[string]func() error{
			"writing": func() error { _, err := r.Store.Create(); return err },
			"reading": func() error { _, err := agents.List(t.Context(), r.Ledger); return err },
		} {
			err := use()
			if orchestrator.CodeOf(err) != orchestrator.Unavailable || !strings.Contains(err.Error(), says) {
				t.Errorf("%s %s: %v", what, filepath.Base(path), err)
			}
		}
	}
	_, err := router.Open(t.Context(), ledger.Options{Path: dir})
	want.Code(t, err, orchestrator.Unavailable)
	if tables := dump(t, foreign); len(tables) != 1 {
		t.Errorf("the foreign database was changed: %v", tables)
	}
}
