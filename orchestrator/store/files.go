package store

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// SyncFolders syncs a folder and all above it: a new folder lasts only once the one above is synced, and a power cut must
// not take the database with all that was answered since. Nobody answers before the file has its version, so whoever
// gives it that does this first, whichever process made the folders. A folder that we may not open was not made by us,
// and some file systems have no sync of folders; only an error of the disk counts.
func SyncFolders(path string) error {
	for {
		if err := SyncFolder(path); errors.Is(err, syscall.EIO) {
			return err
		}
		above := filepath.Dir(path)
		if above == path {
			return nil
		}
		path = above
	}
}

// SyncFolder syncs one folder.
func SyncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
