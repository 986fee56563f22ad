package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// copied copies files into a new folder, as cp does, and returns the path of the first.
func copied(t *testing.T, paths ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(path)), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, filepath.Base(paths[0]))
}

// contents returns the names and contents of the files in a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = string(content)
	}
	return all
}

// unchanged calls f and checks that the folder of a backup has not changed.
func unchanged(t *testing.T, backup string, f func()) {
	t.Helper()
	before := contents(t, filepath.Dir(backup))
	f()
	after := contents(t, filepath.Dir(backup))
	for name := range after {
		if before[name] != after[name] {
			t.Errorf("%s was changed", name)
		}
	}
	want.Equal(t, "files", len(after), len(before))
}

// backedUp returns a backup of a fixture's database, changed by statements.
func backedUp(t *testing.T, f *enginetest.Fixture, statements ...string) string {
	t.Helper()
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := f.BackupTo(t.Context(), backup, false); err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		if _, err := enginetest.Plain(t, backup).Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	return backup
}

// The contents of a live database's -wal are restored from a copy of both files, and neither file is changed.
func TestRestoreTakesTheWAL(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	if _, err := f.Checkpoint(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		f.Send("a", "b")
	}
	source := copied(t, f.Path, f.Path+"-wal")
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(source, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{source, link} {
		r := enginetest.Open(t, filepath.Join(t.TempDir(), "new.db"))
		unchanged(t, source, func() {
			if done, err := r.Restore(t.Context(), name, false); err != nil || done.Messages != 5 {
				t.Errorf("%+v, %v", done, err)
			}
		})
	}
	if err := os.Remove(source + "-wal"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(source+"-wal", 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := enginetest.Open(t, filepath.Join(t.TempDir(), "new.db")).Restore(t.Context(), source, false)
	want.Code(t, err, orchestrator.InvalidParams)
	if !strings.Contains(err.Error(), source+"-wal") {
		t.Error(err)
	}
}

// A transaction that a power cut has left half written is undone in the copy with the -journal.
func TestRestoreTakesTheJournal(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	for range 200 {
		f.Send("a", "b", func(d *orchestrator.Draft) { d.Payload = []byte(`"` + strings.Repeat("x", 5000) + `"`) })
	}
	backup := backedUp(t, f)
	c, err := enginetest.Plain(t, backup).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, statement := range []string{`PRAGMA journal_mode = DELETE`, `PRAGMA cache_size = 1`, `BEGIN`,
		`UPDATE agent_message SET payload = '"' || hex(randomblob(2000)) || '"'`} {
		if _, err := c.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	source := copied(t, backup, backup+"-journal")
	if _, err := c.ExecContext(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	r := enginetest.Open(t, filepath.Join(t.TempDir(), "new.db"))
	unchanged(t, source, func() {
		if done, err := r.Restore(t.Context(), source, false); err != nil || done.Messages != 200 {
			t.Errorf("%+v, %v", done, err)
		}
	})
	var torn int
	if err := enginetest.Plain(t,
		r.Path()).QueryRow(`SELECT count(*) FROM agent_message
			WHERE payload NOT LIKE '"xxx%'`).Scan(&torn); err != nil || torn != 0 {
		t.Errorf("%d messages of the transaction, %v", torn, err)
	}
}

// A database that is being written is restored as it was at one moment, with all that was acknowledged before, or
// the restore is refused.
func TestRestoreOfALivingDatabase(t *testing.T) {
	t.Parallel()
	source := enginetest.New(t, "a", "b")
	for range 20 {
		source.Send("a", "b")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if _, err := messages.Send(t.Context(), source.Ledger,
				orchestrator.Draft{Sender: "a", Recipient: "b"}); err != nil {
				t.Error(err)
			}
		}
	}()
	r := enginetest.Open(t, filepath.Join(t.TempDir(), "new.db"))
	done, err := r.Restore(t.Context(), source.Path, true)
	stop()
	<-ended
	if err != nil {
		want.Code(t, err, orchestrator.Conflict)
		if !strings.Contains(err.Error(), "another program is writing to ") {
			t.Error(err)
		}
	} else if done.Messages < 20 {
		t.Errorf("%+v", done)
	}
	done, err = r.Restore(t.Context(), source.Path, true)
	if err != nil || done.Messages < 20 {
		t.Errorf("at rest: %+v, %v", done, err)
	}
}

// A backup whose tables are not Mailroom's is refused before anything is replaced or saved.
func TestRestoreRefusesForeignTables(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	refused := func(f *enginetest.Fixture, code orchestrator.Code, names string, backup string) {
		t.Helper()
		before, err := os.ReadDir(filepath.Dir(f.Path))
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Restore(t.Context(), backup, true)
		want.Code(t, err, code)
		if err != nil && !strings.Contains(err.Error(), names) {
			t.Errorf("%v does not name %s", err, names)
		}
		after, err := os.ReadDir(filepath.Dir(f.Path))
		if err != nil || len(after) != len(before) {
			t.Errorf("files before %v, after %v, %v", before, after, err)
		}
	}
	for names, statement := range map[string]string{
		"the file has no table settings with a column value":                       `DROP TABLE settings; CREATE TABLE settings (key)`,
		"the file has no table tokens with a column hash":                          `DROP TABLE tokens`,
		"the trigger agent_inbox_deleted is missing or belongs to another program": `DROP TRIGGER agent_inbox_deleted; CREATE TRIGGER agent_inbox_deleted AFTER DELETE ON agent_inbox BEGIN DELETE FROM agents; END`,
		"the view dead_letter is missing or belongs to another program":            `DROP VIEW dead_letter; CREATE VIEW dead_letter AS SELECT 1`,
		"the index agent_message_live is missing or belongs to another program":    `DROP INDEX agent_message_live; CREATE INDEX agent_message_live ON agent_message (recipient)`,
	} {
		refused(f, orchestrator.InvalidParams, names, backedUp(t, f, statement))
	}
	refused(f, orchestrator.Conflict, "such as notes", backedUp(t, f, `CREATE TABLE notes (x)`))
	refused(f, orchestrator.Conflict, "such as spy",
		backedUp(t, f, `CREATE TRIGGER spy AFTER INSERT ON agent_message BEGIN UPDATE agents
			SET deliver = 'exec:x'; END`))
	plain := backedUp(t, f)
	f.SQL(`CREATE TABLE notes (x)`)
	refused(f, orchestrator.Conflict, "such as notes", plain)
	f.SQL(`INSERT INTO notes VALUES (7)`)
	want.Equal(t, "message", f.Message(id).Sender, "a")

	// A backup of such a database contains its tables, and the copy contains what was added to them since.
	own := backedUp(t, f)
	f.SQL(`UPDATE notes SET x = 8`)
	done, err := f.Restore(t.Context(), own, true)
	if err != nil || done.Previous == "" {
		t.Fatalf("%+v, %v", done, err)
	}
	want.Rows(t, f.Rows(`SELECT x FROM notes`), "7")
	var saved int
	if err := enginetest.Plain(t, done.Previous).QueryRow(`SELECT x FROM notes`).Scan(&saved); err != nil ||
		saved != 8 {
		t.Errorf("saved: %d, %v", saved, err)
	}
}

// A restore over a file of another program is refused, because that program's tables would be lost.
func TestRestoreOverAnotherProgram(t *testing.T) {
	t.Parallel()
	backup := backedUp(t, enginetest.New(t, "a"))
	path := filepath.Join(t.TempDir(), "app.db")
	if _, err := enginetest.Plain(t, path).Exec(`CREATE TABLE notes (x); INSERT INTO notes VALUES (1)`); err != nil {
		t.Fatal(err)
	}
	_, err := enginetest.Open(t, path).Restore(t.Context(), backup, true)
	want.Code(t, err, orchestrator.Conflict)
	var things int
	if err := enginetest.Plain(t, path).QueryRow(`SELECT count(*) FROM sqlite_schema`).Scan(&things); err != nil ||
		things != 1 {
		t.Errorf("%d things in the file, %v", things, err)
	}
}

// A restore reports what it adds and removes. So does a comparison, which changes nothing.
func TestRestoreSaysWhatItBrings(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	f.Send("a", "b")
	f.Add(agents.Update{Name: "c", Deliver: new("jsonl:" + filepath.Join(t.TempDir(), "c"))})
	backup := backedUp(t, f,
		`UPDATE agents SET deliver = 'exec:touch x', folder = '/tmp', start_command = 'claude' WHERE name = 'b'`,
		`INSERT INTO schedules (name, spec, command, params, created_at)
			VALUES ('nightly', '@daily', 'clear_old', '{"days":1}', '')`,
		`INSERT INTO schedules (name, spec, command, enabled, created_at) VALUES ('off', '@daily', 'clear_old', 0, '')`,
		`INSERT INTO settings (key, value, updated_at) VALUES ('signal.url', 'https://x.example.com', '')`)
	f.Send("a", "b")
	f.Send("a", "c")
	adds := []string{
		"setting signal.url: https://x.example.com", `schedule nightly (@daily) runs clear_old {"days":1}`,
		"agent b gets messages through exec:touch x, in /tmp", "agent b is started by claude, in /tmp",
	}
	found, err := ledger.CompareBackup(t.Context(), f.Ledger, backup)
	if err != nil || found.Messages != 1 || found.Missing != 2 || !slices.Equal(found.Adds, adds) {
		t.Errorf("%+v, %v", found, err)
	}
	want.Equal(t, "rows", f.Count("agent_message"), "3")
	done, err := f.Restore(t.Context(), backup, true)
	if err != nil || done.Missing != 2 || !slices.Equal(done.Adds, adds) {
		t.Errorf("%+v, %v", done, err)
	}
	if again, err := f.Restore(t.Context(), backup, true); err != nil || again.Missing != 0 || again.Adds != nil {
		t.Errorf("%+v, %v", again, err)
	}
	none := enginetest.Open(t, filepath.Join(t.TempDir(), "none.db"))
	if found, err := ledger.CompareBackup(t.Context(), none.Ledger, backup); err != nil || found.Missing != 0 ||
		len(found.Adds) < len(adds) || none.Store.Exists() {
		t.Errorf("%+v, %v", found, err)
	}
}
