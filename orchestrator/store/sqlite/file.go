package sqlite

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	sqlite3 "github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
)

// dbFile is the path of a database, the file at that path, and the files beside it.
type dbFile struct {
	path string
	log  *slog.Logger

	found  atomic.Bool // there was a database at path; if it is gone, none is created
	making atomic.Bool // Create was called: a database may be created, even beside the tables of another program

	fileMu sync.Mutex
	file   fileID   // the file that was opened last
	wal    *walFile // the -wal that the writer opened last, see keepWAL
}

// Path returns the absolute path of the file.
func (d *dbFile) Path() string { return d.path }

// Exists reports whether there is a database at the path.
func (d *dbFile) Exists() bool {
	_, err := os.Stat(d.path)
	return err == nil && !d.missing()
}

// missing reports whether there is no database at the path. An empty file counts as missing. Reading does not create
// a database in it. Writing does, unless there was a database at the path before, which somebody has moved away.
func (d *dbFile) missing() bool {
	info, err := os.Stat(d.path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// NoneYet reports whether there is no database at the path and no trace of an earlier one.
func (d *dbFile) NoneYet() bool { return d.missing() && !d.gone() }

// gone reports whether there was a database at the path that is not there any more: this process has found it
// before, or its -wal is left.
func (d *dbFile) gone() bool { return d.found.Load() && d.missing() || orphanedWAL(d.path) }

// noDatabase returns the error for a path without a database. The error depends on what was there before.
func (d *dbFile) noDatabase() *orchestrator.Error {
	switch {
	case orphanedWAL(d.path):
		return databaseMissing(d.path)
	case d.found.Load():
		return databaseRemoved(d.path)
	}
	return orchestrator.Errorf(orchestrator.Unavailable, "there is no database at %s", d.path).
		WithHint("To create one for the project in this folder, run `mailroom init`. Commands that run in the project's folder or its subfolders then use that database. To use a different database, set --db or MAILROOM_DB")
}

// createEmpty creates the file and its folder if they do not exist. Nobody else can have the new file open, so
// closing it here drops no lock. It creates no file if this process has found a database here before, or if the -wal
// of one is left.
func (d *dbFile) createEmpty() error {
	if d.gone() {
		return d.noDatabase()
	}
	if _, err := os.Stat(d.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(d.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(d.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if os.IsExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// nothingCanBeWritten reports whether err comes from a disk that is read-only or full, and not from a temporary
// failure. Only on such a disk may a file be read with the immutable option, under which SQLite neither locks the
// file nor checks it for changes.
func (d *dbFile) nothingCanBeWritten(err error) bool {
	switch sqliteCode(err) {
	case sqlite3.ErrFull:
		return true
	case sqlite3.ErrCantOpen, sqlite3.ErrReadonly, sqlite3.ErrPerm, sqlite3.ErrIoErr:
		return unix.Access(filepath.Dir(d.path), unix.W_OK) != nil
	}
	return false
}

// Size returns the size of the file with its WAL, and that of the WAL, in bytes.
func (d *dbFile) Size() (all, log int64) {
	log = d.logSize()
	if info, err := os.Stat(d.path); err == nil {
		all = info.Size()
	}
	return all + log, log
}

func (d *dbFile) logSize() int64 {
	info, err := os.Stat(d.path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}
