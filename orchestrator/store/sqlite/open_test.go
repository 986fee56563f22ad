package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"mailroom"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store"
)

// dump is the whole definition of a database, for comparing.
func dump(t *testing.T, path string) []string {
	t.Helper()
	// Tables by their columns: ALTER TABLE leaves another text than CREATE TABLE.
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

// A database that began as the document's own table is migrated, equals a fresh one, and keeps its rows.
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

// schema.sql must be readable by SQLite 3.31 and say nothing that only a newer one knows.
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

func TestManyOpenANewFileAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deep", "er", "mailroom.db")
	var wg sync.WaitGroup
	for range 16 {
		r := enginetest.Open(t, path)
		wg.Go(func() {
			if _, err := r.Store.Create(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "mode of the file", info.Mode().Perm(), 0o600)
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "mode of the folder", folder.Mode().Perm(), 0o700)
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
		junk: "not a SQLite database", foreign: "without the column", newer: "newer mailroom", other: "another program",
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

// Reading works where nothing can be written; writing says why it does not.
func TestReadOnlyFolder(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	ro := readOnlyCopy(t, f)
	r := enginetest.Open(t, ro)
	backlog, err := delivery.Poll(t.Context(), r.Ledger, "b", 10)
	if err != nil || backlog.Pending != 1 {
		t.Fatalf("polling: %+v %v", backlog, err)
	}
	if _, err := overview.Why(t.Context(), r.Ledger, id); err != nil {
		t.Errorf("why: %v", err)
	}
	if _, err := r.Query(t.Context(), "SELECT 1", store.Bound{Rows: 1}); err != nil {
		t.Errorf("sql: %v", err)
	}
	_, err = messages.Send(t.Context(), r.Ledger, orchestrator.Draft{Sender: "a", Recipient: "b"})
	want.Code(t, err, orchestrator.Unavailable)
}

// A locked database is waited for, and then reported as busy with nothing written.
func TestLockedDatabase(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	holder, err := enginetest.Plain(t, f.Path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = messages.Send(ctx, f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "b"})
	want.Code(t, err, orchestrator.Busy)
	if _, err := holder.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "rows", len(f.Rows(`SELECT 1 FROM agent_message`)), 0)
	f.Send("a", "b")
}

// readOnlyCopy puts a copy of the database into a folder where nobody can write, and returns its path. For the
// superuser permissions mean nothing, so that it needs a mount that is read-only.
func readOnlyCopy(t *testing.T, f *enginetest.Fixture) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "mailroom.db")
	if _, err := f.BackupTo(t.Context(), path, false); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		mountReadOnly(t, dir)
		return path
	}
	for _, step := range []func() error{
		func() error { return os.Chmod(path, 0o400) }, func() error { return os.Chmod(dir, 0o500) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Chmod(dir, 0o700) })
	return path
}
