package copies

import (
	"log/slog"
	"os"
	"sync"
	"testing"
)

// TestCopyFoldersBesideSweepers checks that NewFolder creates another folder if a process that removes abandoned
// folders removes the first one before it is locked.
func TestCopyFoldersBesideSweepers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var makers, sweepers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		sweepers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					Sweep(slog.New(slog.DiscardHandler), folder)
				}
			}
		})
	}
	for range 4 {
		makers.Go(func() {
			for range 100 {
				f, err := NewFolder(folder, "backup")
				if err != nil {
					t.Error(err)
					return
				}
				file, err := f.Create()
				if err == nil {
					_, err = os.Stat(file.Name())
					file.Close()
				}
				if err != nil {
					t.Errorf("it was removed although it was locked: %v", err)
				}
				f.Remove()
			}
		})
	}
	makers.Wait()
	close(done)
	sweepers.Wait()
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
