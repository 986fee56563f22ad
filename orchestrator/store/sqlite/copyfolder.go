package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// copyFolder is a folder in which a copy of the database is made before it is put in its place, with whatever SQLite puts
// beside it. Its process holds a lock on the folder, which the kernel drops when the process ends, however it ends: that is
// how others tell what is being made from what a killed process left. The folder is locked and not the copy, since closing a
// descriptor of a file drops the locks that SQLite has on it.
type copyFolder struct {
	path string
	fd   int
}

// copyName is the name of the copy in its folder.
const copyName = "copy.db"

// copyFolderName matches the names of such folders, and of the files in which earlier versions made their copies.
var copyFolderName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\.mailroom-(backup|restore|doctor)-[0-9]+(-wal|-shm|-journal)?$`)
})

// newCopyFolder makes a folder for copies, for a purpose (backup, restore) in a folder.
func newCopyFolder(folder, purpose string) (*copyFolder, error) {
	for range 1000 { // others may clean up without a pause
		path, err := os.MkdirTemp(folder, ".mailroom-"+purpose+"-*") // mode 0700
		if err != nil {
			return nil, err
		}
		fd, err := openFolder(path)
		if err != nil {
			continue // somebody who cleans up was faster than the lock
		}
		_ = flock(fd, unix.LOCK_EX) // where there are no such locks, nobody removes anything
		if file, err := fileAt(path); err == nil && isFile(fd, file) {
			return &copyFolder{path, fd}, nil
		}
		unix.Close(fd)
	}
	return nil, fmt.Errorf("each folder that was made in %s was removed by others at once", folder)
}

func openFolder(path string) (fd int, err error) {
	return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// copy is the path of the copy.
func (f *copyFolder) copy() string { return filepath.Join(f.path, copyName) }

// create makes the empty file into which the copy goes, for its owner only.
func (f *copyFolder) create() (*os.File, error) {
	return os.OpenFile(f.copy(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// remove removes the folder with all that is left in it.
func (f *copyFolder) remove() {
	os.RemoveAll(f.path)
	unix.Close(f.fd)
}

// unlockedFor is how long a file that nobody could lock must have been left alone to count as abandoned.
const unlockedFor = 24 * time.Hour

// eachAbandoned calls f with what killed processes left in a folder while they made copies of a database.
func eachAbandoned(folder string, f func(path string)) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !copyFolderName().MatchString(entry.Name()) {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		if entry.Type().IsRegular() { // of an earlier version, which locked nothing
			if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > unlockedFor {
				f(path)
			}
			continue
		}
		fd, err := openFolder(path)
		if err != nil {
			continue // not ours to remove, or gone
		}
		if flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
			f(path)
		}
		unix.Close(fd)
	}
	return nil
}

// sweep removes what killed processes left in a folder while they made copies of a database.
func sweep(s *Store, folder string) {
	err := eachAbandoned(folder, func(path string) {
		if err := os.RemoveAll(path); err != nil {
			s.log.Warn("what a killed backup or restore left cannot be removed", "path", path, "error", err)
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Debug("a folder was not looked through for what killed backups left", "folder", folder, "error", err)
	}
}

// bytesUnder is how much a file has, or all files of a folder.
func bytesUnder(path string) (bytes int64) {
	_ = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}
