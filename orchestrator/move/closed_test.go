package move_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator/move"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
)

// byHand inserts a message as a program does that does not use mailroom.
func byHand(t *testing.T, place, id string) error {
	t.Helper()
	enginetest.Miscounts(place)
	db := enginetest.Plain(t, place)
	defer db.Close()
	_, err := db.Exec(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('` + id +
		`', 'a', 'b', '1')`)
	return err
}

// refused checks that all changes of messages by hand are refused, with the given text in the error.
func refused(t *testing.T, place, says string) {
	t.Helper()
	db := enginetest.Plain(t, place)
	defer db.Close()
	for _, statement := range []string{
		`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('refused', 'a', 'b', '1')`,
		`UPDATE agent_message SET status = 'pending'`, `DELETE FROM agent_message`,
		`INSERT INTO agent_inbox (recipient, message_id, payload) VALUES ('b', 'refused', '1')`,
	} {
		if _, err := db.Exec(statement); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s, %s: %v", place, statement, err)
		}
	}
}

// TestByHand checks that writes by hand are refused at the old place, and at a new place where the database has not
// arrived yet.
func TestByHand(t *testing.T) {
	t.Parallel()
	directions(t, func(t *testing.T, place func(int) (string, string)) {
		from, to := place(0)
		scene(t, from)
		runKilled(t, "arrived", from, to)
		refused(t, to, "another database is being moved into this database")
		if err := byHand(t, from, "by hand"); err != nil {
			t.Errorf("the place from which nothing has moved: %v", err)
		}
		old, now := mustOpen(t, from), mustOpen(t, to)
		if _, err := move.Run(t.Context(), old.Ledger, now.Ledger, nil); err != nil {
			t.Fatal(err)
		}
		refused(t, from, "this database has moved to "+now.Path())
		want.Equal(t, "messages at the old place", count(t, old), messagesAtFirst+1)
		if err := byHand(t, to, "by hand, too"); err != nil {
			t.Errorf("the new place: %v", err)
		}
		want.Equal(t, "messages at the new place", count(t, now), messagesAtFirst+2)
	})
}

// TestRestoreMoved checks that no backup is restored into an old place, and that a backup of an old place makes a
// database that takes writes.
func TestRestoreMoved(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file, to, other := filepath.Join(folder, "old.db"), filepath.Join(folder, "new.db"),
		filepath.Join(folder, "other.db")
	scene(t, file)
	old, now := mustOpen(t, file), mustOpen(t, to)
	before, after := filepath.Join(folder, "before.db"), filepath.Join(folder, "after.db")
	if _, err := old.BackupTo(t.Context(), before, false); err != nil {
		t.Fatal(err)
	}
	if _, err := move.Run(t.Context(), old.Ledger, now.Ledger, nil); err != nil {
		t.Fatal(err)
	}
	old.Close()
	old = mustOpen(t, file)
	for _, force := range []bool{false, true} {
		if _, err := old.Restore(t.Context(), before, force); !errors.Is(err, store.ErrMoved) ||
			!strings.Contains(err.Error(), "has moved to "+now.Path()) {
			t.Errorf("restored where the database has moved from: %v", err)
		}
	}
	refused(t, file, "this database has moved to")
	if _, err := old.BackupTo(t.Context(), after, false); err != nil {
		t.Fatal(err)
	}
	for _, backup := range []string{before, after} {
		e := mustOpen(t, other)
		if _, err := e.Restore(t.Context(), backup, true); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(send(e), byHand(t, other, "by hand")); err != nil {
			t.Errorf("a send after %s was restored: %v", backup, err)
		}
		want.Equal(t, "messages", count(t, e), messagesAtFirst+2)
		var version int64
		if err := enginetest.Plain(t, other).QueryRow(`PRAGMA user_version`).Scan(&version); err != nil ||
			version>>24 != 0 {
			t.Error(version, err)
		}
		e.Close()
	}
}

// TestMigratedClosed checks that an old place stays closed when a newer program migrates its tables.
func TestMigratedClosed(t *testing.T) {
	t.Parallel()
	file := enginetest.OldVersion(t)
	db := enginetest.Plain(t, file)
	if _, err := db.Exec(`INSERT INTO settings (key, value, updated_at) VALUES ('` + store.MovedTo +
		`', 'elsewhere', ''); PRAGMA user_version = 0x1000009;
		CREATE TRIGGER agent_message_closed_to_update BEFORE UPDATE ON agent_message BEGIN SELECT RAISE(ABORT, 'closed'); END`); err != nil {
		t.Fatal(err)
	}
	e := mustOpen(t, file)
	if err := send(e); !errors.Is(err, store.ErrMoved) {
		t.Errorf("a send: %v", err)
	}
	refused(t, file, "this database has moved to elsewhere")
	var version int64
	if err := db.QueryRow(`PRAGMA user_version`).Scan(&version); err != nil || version>>24 != 1 || version&0xff <= 9 {
		t.Error(fmt.Sprintf("%x", version), err)
	}
}
