package sqlite_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// versionOne makes a database as version 1 made it.
func versionOne(t *testing.T) (path string) { return enginetest.OldVersion(t, 1) }

// A database of an older version is migrated, equals a fresh one, and keeps its rows.
func TestMigratedFromOlderVersions(t *testing.T) {
	t.Parallel()
	fresh := filepath.Join(t.TempDir(), "fresh.db")
	if _, err := enginetest.Open(t, fresh).Store.Create(); err != nil {
		t.Fatal(err)
	}
	for version := range userVersion(t, fresh) {
		if version == 0 {
			continue // no database at all
		}
		t.Run(strconv.Itoa(version), func(t *testing.T) {
			t.Parallel()
			migratedFrom(t, version)
		})
	}
}

// userVersion returns the version that a database names.
func userVersion(t *testing.T, path string) (version int) {
	t.Helper()
	if err := enginetest.Plain(t, path).QueryRow(`PRAGMA user_version`).Scan(&version); err != nil {
		t.Fatal(err)
	}
	return version
}

func migratedFrom(t *testing.T, version int) {
	fresh, old := filepath.Join(t.TempDir(), "fresh.db"), enginetest.OldVersion(t, version)
	if _, err := enginetest.Open(t, fresh).Store.Create(); err != nil {
		t.Fatal(err)
	}
	r := enginetest.Open(t, old)
	if _, err := r.Store.Create(); err != nil {
		t.Fatal(err)
	}
	if a, b := dump(t, fresh), dump(t, old); !slices.Equal(a, b) {
		t.Errorf("migrated:\n%s\nfresh:\n%s", strings.Join(b, "\n"), strings.Join(a, "\n"))
	}
	if d, err := r.DeliverAll(t.Context(), delivery.Options{}); err != nil || d.Delivered != 1 {
		t.Errorf("%+v %v", d, err)
	}
}

// A table, index or view of another program under one of our names is refused, whatever the letters, and nothing is
// changed: in a file without a version, beside the document's own table, and in one of an older version.
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
		{"the document's, the place of its rows", `CREATE TABLE agent_message_adopted (x)`, "agent_message_adopted", document},
		{"version 1, a table", `CREATE TABLE presence (y)`, "presence", versionOne},
		{"version 1, a trigger", `CREATE TRIGGER team_requests AFTER INSERT ON agents BEGIN SELECT 1; END`, "team_requests", versionOne},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := c.file(t)
			if _, err := enginetest.Plain(t, path).Exec(c.statement); err != nil {
				t.Fatal(err)
			}
			before, mode := dump(t, path), journalMode(t, path)
			r := enginetest.Open(t, path)
			for what, use := range map[string]func() error{
				"writing": func() error { _, err := r.Store.Create(); return err },
				"reading": func() error { _, err := agents.List(t.Context(), r.Ledger); return err },
			} {
				err := use()
				want.Code(t, err, orchestrator.Unavailable)
				if !strings.Contains(err.Error(), " "+c.says+" of its own") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if after := dump(t, path); !slices.Equal(before, after) {
				t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
			want.Equal(t, "the journal mode", journalMode(t, path), mode)
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
