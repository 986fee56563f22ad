package copies

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator/pattern"
)

// Folder is a folder in which a copy of the database is made before the copy is put in its place, with the files
// that SQLite creates beside the copy. The process holds a lock on the folder, which the kernel drops when the
// process ends for any reason. Other processes can thus distinguish copies in progress from the remains of a killed
// process. The folder is locked and not the copy, since closing a descriptor of a file drops SQLite's locks on that
// file.
type Folder struct {
	path string
	held *os.File
}

// fileName is the name of the copy in its folder.
const fileName = "copy.db"

// folderName matches the names of such folders, and of the files in which earlier versions made their copies.
var folderName = pattern.New(`^\.mailroom-(backup|restore|doctor)-[0-9]+(-wal|-shm|-journal)?$`)

// NewFolder creates a folder for copies in the given folder. purpose is "backup" or "restore".
func NewFolder(folder, purpose string) (*Folder, error) {
	for range 1000 { // others may remove folders all the time
		path, err := os.MkdirTemp(folder, ".mailroom-"+purpose+"-*") // mode 0700
		if err != nil {
			return nil, err
		}
		held, err := openFolder(path)
		if err != nil {
			continue // another process removed the folder before it was locked
		}
		_ = flock(held, unix.LOCK_EX) // if the lock is not supported, nobody removes folders
		if is, err := held.Stat(); err == nil {
			if there, err := os.Lstat(path); err == nil && os.SameFile(is, there) {
				return &Folder{path, held}, nil
			}
		}
		held.Close()
	}
	return nil, fmt.Errorf("other programs removed every folder that Mailroom created in %s", folder)
}

func openFolder(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// flock calls flock(2), and repeats the call if a signal interrupts it.
func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// Copy returns the path of the copy.
func (f *Folder) Copy() string { return filepath.Join(f.path, fileName) }

// Create creates the empty file for the copy, which only its owner can access.
func (f *Folder) Create() (*os.File, error) {
	return os.OpenFile(f.Copy(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// Remove removes the folder and its contents.
func (f *Folder) Remove() {
	os.RemoveAll(f.path)
	f.held.Close()
}

// unlockedFor is the time without changes after which a file that could not be locked is considered abandoned.
const unlockedFor = 24 * time.Hour

// EachAbandoned calls f with each path that killed processes left in a folder while they copied a database.
func EachAbandoned(folder string, f func(path string)) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !folderName().MatchString(entry.Name()) {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		if entry.Type().IsRegular() { // of an earlier version, which had no locks
			if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > unlockedFor {
				f(path)
			}
			continue
		}
		left, err := openFolder(path)
		if err != nil {
			continue // it belongs to another user, or is gone
		}
		if flock(left, unix.LOCK_EX|unix.LOCK_NB) == nil {
			f(path)
		}
		left.Close()
	}
	return nil
}

// Sweep removes what killed processes left in a folder while they copied a database.
func Sweep(log *slog.Logger, folder string) {
	err := EachAbandoned(folder, func(path string) {
		if err := os.RemoveAll(path); err != nil {
			log.Warn("cannot remove the files of an interrupted backup or restore", "path", path, "error", err)
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Debug("cannot search a folder for the files of interrupted backups", "folder", folder, "error", err)
	}
}

// BytesUnder returns the size of a file, or of all files in a folder.
func BytesUnder(path string) (bytes int64) {
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
