package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"mailroom/orchestrator/orchestratortest/enginetest"
)

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
