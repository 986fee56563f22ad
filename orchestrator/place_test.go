package orchestrator

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
)

// TestFileWithoutAnIdentity: on a file system that gives a file another number at every look, a database is opened all
// the same, and has not moved as far as anybody knows.
func TestFileWithoutAnIdentity(t *testing.T) {
	t.Parallel()
	r := openWithTwo(t)
	looks := uint64(0)
	c, err := openFileBy(r.path, readerDSN(r.path, false), func(string) (fileID, error) {
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

// putAway moves what stands at a path and beside it to another name.
func putAway(t *testing.T, path string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(path+suffix, path+".away"+suffix); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFailedFileIsReplaced: after an error of the disk nothing goes to the database any more, but what is put in its place
// can be used at once. The log says once that the engine has changed over.
func TestFailedFileIsReplaced(t *testing.T) {
	t.Parallel()
	r := openWithTwo(t)
	var log bytes.Buffer
	fileOf(r).log = slog.New(slog.NewTextHandler(&log, nil))
	failures.add(fileOf(r).backend.wal.at, errors.New("broken"))
	if err := r.Ready(t.Context()); CodeOf(err) != Unavailable {
		t.Fatalf("ready on a failed disk: %v", err)
	}
	putAway(t, r.path)
	if err := r.Ready(t.Context()); CodeOf(err) != Unavailable {
		t.Fatalf("the first write after it was put away: %v", err)
	}
	other := openWithTwo(t)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other.path, r.path); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := r.Ready(t.Context()); err != nil {
			t.Fatalf("the file in its place: %v", err)
		}
		if _, err := r.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(log.String(), "level=WARN"); got != 1 || !strings.Contains(log.String(), r.path) {
		t.Errorf("the log:\n%s\nwant one warning", log.String())
	}
}

// TestCloseAfterAFailedBatch: a writer is closed also when the batch of its last request failed, and says both.
func TestCloseAfterAFailedBatch(t *testing.T) {
	t.Parallel()
	r := openWithTwo(t)
	w := fileOf(r).backend
	broken := errors.New("broken")
	inside, leave, closed := make(chan struct{}), make(chan struct{}), make(chan error)
	go r.write(context.Background(), func(*tx) error {
		close(inside)
		<-leave
		return errUndo
	})
	<-inside
	go r.write(context.Background(), func(t *tx) error {
		failures.add(w.wal.at, broken)
		return nil
	})
	awaitQueue(t, fileOf(r).writer, 1)
	go func() { closed <- r.Close() }()
	awaitQueue(t, fileOf(r).writer, 2)
	close(leave)
	if err := <-closed; CodeOf(err) != Unavailable || !errors.Is(err, broken) {
		t.Errorf("closing: %v", err)
	}
	if w.c != nil || w.wal != nil {
		t.Error("the connection is still open")
	}
}

// TestChangesInAReplacedDatabase: what watches for commits goes over to the file that is there now.
func TestChangesInAReplacedDatabase(t *testing.T) {
	t.Parallel()
	r := openWithTwo(t)
	changed, stop := fileOf(r).detectChanges()
	defer func() { stop() }()
	if changed() {
		t.Fatal("changed before anything was written")
	}
	putAway(t, r.path)
	for range 2 {
		if !changed() {
			t.Error("a database that has gone is no change")
		}
	}
	other, err := Open(t.Context(), Options{Path: r.path, Bell: NewLocalBell()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	if _, err := other.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !changed() {
		t.Error("a new database is no change")
	}
	if changed() {
		t.Error("changed again, before anything was written to the new one")
	}
	if err := other.write(t.Context(), func(t *tx) error { return t.configChanged() }); err != nil {
		t.Fatal(err)
	}
	if !changed() {
		t.Error("a commit to the new database is no change")
	}
}
