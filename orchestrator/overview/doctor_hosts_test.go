package overview_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
)

// The doctor looks after what connect has written.
func TestDoctorOnConnections(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "bob")
	file := filepath.Join(t.TempDir(), "settings.json")
	command, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kept := hosts.Connection{Program: "claude", Agent: "bob", Folder: filepath.Dir(file), File: file, Command: command}
	finding := func(level, says string) {
		t.Helper()
		if err := kept.Save(f.Path); err != nil {
			t.Fatal(err)
		}
		for _, found := range overview.Doctor(t.Context(), f.Ledger, false) {
			if found.Check == "claude as "+kept.Agent {
				want.Equal(t, "level", found.Level, level)
				if !strings.Contains(found.Says, says) || level == "problem" && !strings.Contains(found.Do, "mailroom connect claude --as "+kept.Agent) {
					t.Errorf("it says %q, and to do %q; want %q", found.Says, found.Do, says)
				}
				return
			}
		}
		t.Error("the doctor does not look at it")
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	finding("problem", "cannot be read")
	write("{}")
	finding("problem", "does not name this database")
	write(f.Path)
	finding("note", "no hook has been called yet")
	if _, err := hosts.Happened(t.Context(), f.Ledger, hosts.Event{Agent: "bob", Program: "claude", Session: "one", Kind: hosts.Started}); err != nil {
		t.Fatal(err)
	}
	finding("ok", f.Stamp())
	kept.Agent = "auto" // whichever agent the session was given
	finding("ok", f.Stamp())
	kept.Command = filepath.Join(filepath.Dir(file), "gone")
	finding("problem", kept.Command)
	if err := os.RemoveAll(kept.Folder); err != nil {
		t.Fatal(err)
	}
	finding("problem", "its folder is gone")
}
