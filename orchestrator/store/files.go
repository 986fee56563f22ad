package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// SyncFolders syncs a folder and all folders above it. A new folder is durable only after its parent has been
// synced, and a power cut must not remove the database after requests were answered. No request is answered before
// the file has its table version, so the process that sets the version syncs the folders first, whichever process
// created them. Errors other than I/O errors of the disk are ignored: a folder that this user may not open was
// created by somebody else, and some file systems cannot sync folders.
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

// SyncFolder syncs one folder. On Windows it does nothing, because folders cannot be synced there and NTFS keeps a
// journal of names.
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

// ReplaceFile writes a file so that it exists either completely or not at all. The file is on the disk when
// ReplaceFile returns. Missing folders are created.
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
