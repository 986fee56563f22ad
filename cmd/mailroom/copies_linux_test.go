package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/enginetest"
)

// TestKilledCopies checks that files left by a backup or a restore that was killed with SIGKILL are reported by the
// doctor and removed by the next one, and that files which a living process is writing, even a stopped one, are
// neither.
func TestKilledCopies(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has its own backups")
	o := newOffice(t, "a", "b")
	beside, away := o.folder, t.TempDir()
	o.rows(`WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 40)
		INSERT INTO agent_message (message_id, sender, recipient, payload) SELECT 'm' || n, 'a', 'b',
			'"' || hex(zeroblob(400000)) || '"' FROM c`)
	whole := filepath.Join(away, "whole.db")
	o.run("backup", whole)
	for _, c := range []struct {
		name, folder string
		args         []string
	}{
		{"a backup elsewhere", away, []string{"backup", filepath.Join(away, "new.db")}},
		{"a backup beside the database", beside, []string{"backup", filepath.Join(beside, "new.db")}},
		{"a restore", beside, []string{"restore", whole, "--force"}},
	} {
		copying := o.command(c.args...)
		if err := copying.Start(); err != nil {
			t.Fatal(err)
		}
		o.until(c.name+" is making its copy", func() bool {
			found, err := filepath.Glob(filepath.Join(c.folder, ".mailroom-*", "copy.db"))
			return err == nil && len(found) == 1
		})
		goOn := pause(t, copying.Process)
		if left := copies(t, c.folder); len(left) != 1 {
			t.Fatalf("%s was not caught at it: %v", c.name, left)
		}
		if says := o.finding("copies"); !strings.HasPrefix(says, "ok ") {
			t.Errorf("while %s is stopped, the doctor says: %s", c.name, says)
		}
		if c.args[0] == "backup" { // a restore may hold the write lock now
			o.run("backup", filepath.Join(c.folder, "second.db"), "--overwrite")
			if left := copies(t, c.folder); len(left) != 1 {
				t.Errorf("another backup removed what %s, which was stopped, was writing", c.name)
			}
		}
		copying.Process.Kill()
		goOn()
		copying.Wait()
		left := copies(t, c.folder)
		if says := o.finding("copies"); len(left) != 1 || !strings.HasPrefix(says, "problem ") ||
			!strings.Contains(says, left[0]) {
			t.Errorf("%s was killed and left %v; the doctor says: %s", c.name, left, says)
		}
		o.run("backup", filepath.Join(c.folder, "third.db"), "--overwrite")
		if left := copies(t, c.folder); len(left) > 0 {
			t.Errorf("the backup after %s left %v", c.name, left)
		}
	}
}

// TestCopiesOfEarlierVersions checks that files left by earlier versions, which held no locks, are removed when they
// are a day old, and that similar names are not.
func TestCopiesOfEarlierVersions(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has its own backups")
	o := newOffice(t, "a")
	folder := o.folder
	old := time.Now().Add(-25 * time.Hour)
	for name, keep := range map[string]bool{
		".mailroom-backup-12345": false, ".mailroom-restore-12345-wal": false, ".mailroom-backup-777": true,
		".mailroom-backup-mine": true, "mailroom-backup-1": true,
	} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if name != ".mailroom-backup-777" {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
		defer func() {
			if _, err := os.Stat(path); (err == nil) != keep {
				t.Errorf("%s: %v, to be kept: %v", name, err, keep)
			}
		}()
	}
	if says := o.finding("copies"); !strings.Contains(says, ".mailroom-backup-12345") || strings.Contains(says, "777") {
		t.Error(says)
	}
	o.run("backup", filepath.Join(t.TempDir(), "copy.db"))
}

// copies lists unfinished copies in a folder, including those left behind.
func copies(t *testing.T, folder string) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(folder, ".mailroom-*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// finding returns the level and the text of the doctor's finding with a name.
func (o *office) finding(check string) string {
	o.t.Helper()
	status, answer := o.answerOf("doctor")
	if answer["findings"] == nil {
		o.t.Fatalf("doctor: exit status %d, %v", status, answer)
	}
	for _, f := range answer["findings"].([]any) {
		if f := f.(map[string]any); f["code"] == check {
			return fmt.Sprint(f["level"], " ", f["says"], " ", f["do"])
		}
	}
	return "nothing"
}
