package sqlite

import (
	"bufio"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/store"
)

// TestHelperProcess runs the other process of a test.
func TestHelperProcess(t *testing.T) {
	helper.Run(map[string]func(path string, in *bufio.Scanner){
		"turnstile hold":  helpHold,
		"turnstile count": helpCount,
		"plain":           helpPlain,
	})
}

// makeStore creates a database in a new folder.
func makeStore(t *testing.T) *Store {
	t.Helper()
	s := openStore(t, filepath.Join(t.TempDir(), "a.db"), slog.New(slog.DiscardHandler))
	if _, err := s.Create(); err != nil {
		t.Fatal(err)
	}
	return s
}

// openStore opens a database.
func openStore(t *testing.T, path string, log *slog.Logger) *Store {
	t.Helper()
	nothing := func(*store.Transaction) error { return nil }
	s, err := Open(Options{
		Path: path, Now: time.Now, Log: log, Bell: store.NewLocalBell(), BusyTimeout: 10 * time.Second,
		Made: func(string) {}, Begin: nothing, End: nothing,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// add adds a row to a table that is empty in a new database.
func add(t *store.Transaction, id string) error {
	_, err := t.Exec(`INSERT INTO agent_inbox (recipient, message_id) VALUES ('b', ?)`, id)
	return err
}

// writeOne is a job that writes.
func writeOne(t *store.Transaction) error {
	n, err := t.Number(`SELECT count(*) FROM agent_inbox`)
	if err != nil {
		return err
	}
	return add(t, fmt.Sprint(n))
}
