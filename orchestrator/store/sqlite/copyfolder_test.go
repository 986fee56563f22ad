package sqlite

import (
	"os"
	"sync"
	"testing"
)

// TestCopyFoldersBesideSweepers: whoever removes what killed processes left may come between the making of a folder and its
// lock; whoever made it then makes another.
func TestCopyFoldersBesideSweepers(t *testing.T) {
	t.Parallel()
	s := makeStore(t)
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
					sweep(s, folder)
				}
			}
		})
	}
	for range 4 {
		makers.Go(func() {
			for range 100 {
				f, err := newCopyFolder(folder, "backup")
				if err != nil {
					t.Error(err)
					return
				}
				file, err := f.create()
				if err == nil {
					_, err = os.Stat(file.Name())
					file.Close()
				}
				if err != nil {
					t.Errorf("it was removed although it was locked: %v", err)
				}
				f.remove()
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
