package sqlite

import (
	"context"
	"sync"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// However many want to read at the same time, a process opens no more than some connections. The others wait for their turn, as long
// as somebody waits for what they read.
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
