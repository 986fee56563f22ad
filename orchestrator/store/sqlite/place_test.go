package sqlite

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/storetest"
)

// TestFileWithoutAnIdentity checks that a database can be opened on a file system that returns another number for a
// file each time, and that it does not count as moved.
func TestFileWithoutAnIdentity(t *testing.T) {
	t.Parallel()
	s := makeStore(t)
	looks := uint64(0)
	c, err := openFileBy(s.path, readerDSN(s.path, false), func(string) (fileID, error) {
		looks++
		return fileID{1, looks}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if c.file != (fileID{}) || c.moved() || looks > 2*openTries {
		t.Errorf("after %d looks it is %v, moved %t", looks, c.file, c.moved())
	}
}

// putAway renames the file at a path and the files beside it.
func putAway(t *testing.T, path string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(path+suffix, path+".away"+suffix); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFailedFileIsReplaced checks that after a disk error nothing is written to the database any more, but that a
// file put in its place can be used at once. The change is logged once.
func TestFailedFileIsReplaced(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := openStore(t, filepath.Join(t.TempDir(), "a.db"), slog.New(slog.NewTextHandler(&log, nil)))
	if _, err := s.Create(); err != nil {
		t.Fatal(err)
	}
	failures.add(s.backend.wal.at, errors.New("broken"))
	if err := s.Ready(t.Context()); orchestrator.CodeOf(err) != orchestrator.Unavailable {
		t.Fatalf("ready on a failed disk: %v", err)
	}
	putAway(t, s.path)
	if err := s.Ready(t.Context()); orchestrator.CodeOf(err) != orchestrator.Unavailable {
		t.Fatalf("the first write after it was put away: %v", err)
	}
	other := makeStore(t)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other.path, s.path); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Ready(t.Context()); err != nil {
			t.Fatalf("the file in its place: %v", err)
		}
		wantTexts(t, s, `SELECT message_id FROM agent_inbox`)
	}
	if got := strings.Count(log.String(), "level=WARN"); got != 1 || !strings.Contains(log.String(), s.path) {
		t.Errorf("the log:\n%s\nwant one warning", log.String())
	}
}

// TestCloseAfterAFailedBatch checks that a writer is closed even if the batch of its last request failed, and
// returns both errors.
func TestCloseAfterAFailedBatch(t *testing.T) {
	t.Parallel()
	s := makeStore(t)
	w := s.backend
	broken, closed := errors.New("broken"), make(chan error)
	leave := storetest.Occupy(t, s)
	storetest.Queue(t.Context(), t, func(ctx context.Context) error {
		return s.write(ctx, func(*store.Transaction) error {
			failures.add(w.wal.at, broken)
			return nil
		})
	})
	go func() { closed <- s.Close() }()
	for refusal := error(nil); orchestrator.CodeOf(refusal) != orchestrator.Unavailable; {
		// No request is accepted once the last one is waiting.
		soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		refusal = s.write(soon, writeOne)
		cancel()
	}
	leave()
	if err := <-closed; orchestrator.CodeOf(err) != orchestrator.Unavailable || !errors.Is(err, broken) {
		t.Errorf("closing: %v", err)
	}
	if w.c != nil || w.wal != nil {
		t.Error("the connection is still open")
	}
}

// TestChangesInAReplacedDatabase checks that the detection of commits changes to the new file.
func TestChangesInAReplacedDatabase(t *testing.T) {
	t.Parallel()
	s := makeStore(t)
	changed, stop := s.detectChanges()
	defer func() { stop() }()
	if changed() {
		t.Fatal("changed before anything was written")
	}
	putAway(t, s.path)
	for range 2 {
		if !changed() {
			t.Error("a database that has gone is no change")
		}
	}
	other := openStore(t, s.path, s.log)
	if _, err := other.Create(); err != nil {
		t.Fatal(err)
	}
	if !changed() {
		t.Error("a new database is no change")
	}
	if changed() {
		t.Error("changed again, before anything was written to the new one")
	}
	if err := other.write(t.Context(), writeOne); err != nil {
		t.Fatal(err)
	}
	if !changed() {
		t.Error("a commit to the new database is no change")
	}
}
