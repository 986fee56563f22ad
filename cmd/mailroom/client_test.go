package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mailroom/orchestrator/store/postgres/postgrestest"
)

// buildClient builds the client, which has no SQLite and needs no library.
func buildClient(t *testing.T, path string) {
	t.Helper()
	build := exec.Command("go", "build", "-tags", "client", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// TestClient runs the client with databases on another machine and on a server.
func TestClient(t *testing.T) {
	t.Parallel()
	client := filepath.Join(t.TempDir(), "client")
	buildClient(t, client)
	t.Run("remote", func(t *testing.T) {
		t.Parallel()
		runScripts(t, []string{"testdata/client/client.txtar"}, func(e *testscript.Env) string {
			e.Setenv("CLIENT", client)
			return filepath.Join(e.WorkDir, "mailroom.db")
		}, nil)
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		server := postgrestest.Start(t)
		runScripts(t, []string{"testdata/client/server.txtar"}, func(e *testscript.Env) string {
			e.Setenv("CLIENT", client)
			return postgrestest.Place(server)
		}, nil)
	})
}
