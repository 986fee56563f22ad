package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// SyncFolders syncs a folder and all above it: a new folder lasts only once the one above is synced, and a power cut
// must not take the database with all that was answered since. Nothing is answered before the file has the version of
// its tables, so the process that gives it that syncs the folders first, whichever process made them. A folder that we
// may not open was not made by us, and some file systems cannot sync folders; only an error of the disk counts.
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

// SyncFolder syncs one folder. On Windows it does nothing: a folder cannot be synced there, and NTFS keeps a journal of names.
func SyncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// ReplaceFile writes a file so that it is there whole or not at all, on disk when it returns. Folders that are missing
// are made.
func ReplaceFile(path string, text []byte, mode fs.FileMode) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	temp, err := os.CreateTemp(folder, ".mailroom-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(text)
	if err == nil {
		err = temp.Chmod(mode)
	}
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return err
	}
	return SyncFolder(folder)
}
