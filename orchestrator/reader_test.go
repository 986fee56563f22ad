package orchestrator_test

import (
	"context"
	"sync"
	"testing"

	"mailroom/orchestrator"
)

// However many want to read at the same time, a process opens no more than some connections. The others wait for their turn, as long
// as somebody waits for what they read.
func TestReadersAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	const readers = 10 * orchestrator.MostOpen
	reads, goOn := make(chan struct{}, readers), make(chan struct{})
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			if err := f.Read(t.Context(), func() { reads <- struct{}{}; <-goOn }); err != nil {
				t.Error(err)
			}
		})
	}
	for range orchestrator.MostOpen {
		<-reads
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	wantCode(t, f.Read(gone, func() { t.Error("a reader more has got a connection") }), orchestrator.Busy)
	want(t, "readers more than there are places", len(reads), 0)
	close(goOn)
	all.Wait()
	want(t, "readers that read later", len(reads), readers-orchestrator.MostOpen)
}
