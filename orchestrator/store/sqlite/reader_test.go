package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// A process opens a limited number of connections, however many readers there are. The others wait for their turn
// until their context ends.
func TestReadersAreBounded(t *testing.T) {
	t.Parallel()
	s := makeStore(t)
	const readers = 10 * mostOpen
	reads, goOn := make(chan struct{}, readers), make(chan struct{})
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			err := s.Read(t.Context(), func(*store.Conn) error {
				reads <- struct{}{}
				<-goOn
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range mostOpen {
		<-reads
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Read(gone, func(*store.Conn) error {
		t.Error("a reader more has got a connection")
		return nil
	})
	if orchestrator.CodeOf(err) != orchestrator.Busy {
		t.Errorf("a reader more, whose context has ended: %v", err)
	}
	if len(reads) > 0 {
		t.Errorf("%d readers more than there are places", len(reads))
	}
	close(goOn)
	all.Wait()
	if len(reads) != readers-mostOpen {
		t.Errorf("%d readers read later; want %d", len(reads), readers-mostOpen)
	}
}

// TestCopiesOfNewerTables checks that a process whose connections are older than the tables neither copies nor
// replaces them.
func TestCopiesOfNewerTables(t *testing.T) {
	t.Parallel()
	s := makeStore(t)
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := s.Backup(t.Context(), backup, false); err != nil { // from here on a reader is in the pool
		t.Fatal(err)
	}
	newer, err := openConn(writerDSN(s.path))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(newer.Script("PRAGMA user_version = 99"), newer.close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Backup(t.Context(), backup, true); !errors.Is(err, store.ErrOutdated) {
		t.Errorf("the backup: %v", err)
	}
	if _, err := s.Restore(t.Context(), backup, true, store.InBackup{}); !errors.Is(err, store.ErrOutdated) {
		t.Errorf("the restore: %v", err)
	}
}
