package admin

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/commands/admin/operations"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/reading"
)

// TestRestoreWhileOthersHaveTheFileOpen checks that another process, with the file open and its configuration in
// memory, sees the restored content and continues with it.
func TestRestoreWhileOthersHaveTheFileOpen(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has its own backups")
	f := newPair(t)
	kept := f.send("a", "b", "note", "")
	file := filepath.Join(t.TempDir(), "copy.db")
	ask[operations.BackupResult](f, "backup", `{"file":"`+file+`"}`)

	other := f.open("other", nil)
	if _, _, err := agents.Add(t.Context(), other.Ledger, agents.Update{Name: "late"}); err != nil {
		t.Fatal(err)
	}
	later, err := messages.Send(t.Context(), other.Ledger, orchestrator.Draft{Sender: "a", Recipient: "late"})
	if err != nil {
		t.Fatal(err)
	}
	f.refused("restore", `{"file":"`+file+`"}`, orchestrator.Conflict)
	r := ask[operations.RestoreResult](f, "restore", `{"file":"`+file+`","force":true}`)
	if before := idsIn(t, r.Previous); r.Messages != 1 || !before[kept] || !before[later.MessageID] {
		t.Errorf("%d messages restored; %s holds %v", r.Messages, r.Previous, before)
	}

	if _, err := messages.Find(t.Context(), other.Ledger,
		later.MessageID); orchestrator.CodeOf(err) != orchestrator.NotFound {
		t.Errorf("the other process still finds what came after the backup: %v", err)
	}
	if _, err := messages.Send(t.Context(), other.Ledger,
		orchestrator.Draft{Sender: "a", Recipient: "late"}); orchestrator.CodeOf(err) != orchestrator.UnknownRecipient {
		t.Errorf("the other process still knows an agent that the backup does not: %v", err)
	}
	if _, err := messages.Send(t.Context(), other.Ledger, orchestrator.Draft{Sender: "a", Recipient: "b"}); err != nil {
		t.Errorf("the other process cannot send: %v", err)
	}
	ms, _, err := reading.Wait(t.Context(), other.Ledger, reading.Options{Recipient: "b", Limit: 10})
	if err != nil || len(ms) != 2 || ms[0].ID != kept {
		t.Errorf("the other process reads %v, %v", ms, err)
	}
	idsIn(t, f.path)
}

// TestRestoreRefuses checks that nothing changes unless the backup is intact and a database of Mailroom.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has its own backups")
	f := newPair(t)
	file := filepath.Join(t.TempDir(), "copy.db")
	ask[operations.BackupResult](f, "backup", `{"file":"`+file+`"}`)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(t.TempDir(), "newer.db")
	if err := os.WriteFile(newer, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", newer)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(t.TempDir(), "torn.db")
	if err := os.WriteFile(torn, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	sent := f.send("a", "b", "note", "")
	for _, bad := range []string{newer, torn} {
		f.refused("restore", `{"file":"`+bad+`","force":true}`, orchestrator.Unavailable)
	}
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	other, err := sql.Open("sqlite3", foreign)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Exec("PRAGMA application_id = 12345; CREATE TABLE t (x)"); err != nil {
		t.Fatal(err)
	}
	script, empty := filepath.Join(t.TempDir(), "fail.sh"), filepath.Join(t.TempDir(), "empty")
	for file, content := range map[string]string{script: "#!/bin/sh\nexit 1\n", empty: ""} {
		if err := os.WriteFile(file, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, none := range []string{foreign, script, empty} {
		if e := f.refused("restore", `{"file":"`+none+`","force":true}`,
			orchestrator.InvalidParams); !strings.Contains(e.Error(), none+" is not a backup") {
			t.Error(e)
		}
	}
	f.refused("restore", `{"file":"`+t.TempDir()+`","force":true}`, orchestrator.InvalidParams)
	f.refused("restore", `{"file":"`+f.path+`","force":true}`, orchestrator.InvalidParams)
	if !idsIn(t, f.path)[sent] {
		t.Error("a refused restore changed the database")
	}
	saved, err := filepath.Glob(f.path + ".before-restore-*")
	if err != nil || len(saved) > 0 {
		t.Errorf("a refused restore left %s, %v", strings.Join(saved, " "), err)
	}
}
