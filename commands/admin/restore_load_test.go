package admin

import (
	"path/filepath"
	"testing"

	"mailroom/commands/admin/operations"
	"mailroom/orchestrator/orchestratortest/enginetest"
)

// TestRestoreLosesNoSend checks that every send acknowledged before the restore is in the file that the restore
// saves, and that every later one is in the database.
func TestRestoreLosesNoSend(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has its own backups")
	f := newPair(t)
	file := filepath.Join(t.TempDir(), "copy.db")
	ask[operations.BackupResult](f, "backup", `{"file":"`+file+`"}`)
	l := startLoad(f)
	var saved []string
	for range 3 {
		l.more(20)
		saved = append(saved, ask[operations.RestoreResult](f, "restore", `{"file":"`+file+`","force":true}`).Previous)
	}
	acked := l.more(20)
	l.end()
	known := idsIn(t, f.path)
	for _, previous := range saved {
		for id := range idsIn(t, previous) {
			known[id] = true
		}
	}
	lost := 0
	for _, id := range acked {
		if !known[id] {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged messages are nowhere", lost, len(acked))
	}
}
