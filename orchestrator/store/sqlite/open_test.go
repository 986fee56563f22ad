package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/store"
)

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

// Reads succeed if nothing can be written; writes return the reason why they fail.
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

// A request waits for a locked database, and then fails with busy; nothing was written.
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

// readOnlyCopy puts a copy of the database into a folder where nobody can write, and returns its path. Permissions
// do not restrict the superuser, who needs a read-only mount.
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
