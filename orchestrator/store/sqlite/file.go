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

// dbFile is the place of a database: the file that is there, and what stands beside it.
type dbFile struct {
	path string
	log  *slog.Logger

	found  atomic.Bool // there was a database at path, and no empty file: where it is gone, none is made
	making atomic.Bool // one is to be made, also beside the tables of another program

	fileMu sync.Mutex
	file   fileID   // that was opened last
	wal    *walFile // that the writer opened last, see keepWAL
}

// Path returns the absolute path of the file.
func (d *dbFile) Path() string { return d.path }

// Exists reports whether there is a database at the path.
func (d *dbFile) Exists() bool {
	_, err := os.Stat(d.path)
	return err == nil && !d.missing()
}

// missing reports whether there is no database at the path. An empty file is none: what only reads makes none in it,
// and what writes does unless there was one at the path before, which somebody has moved away.
func (d *dbFile) missing() bool {
	info, err := os.Stat(d.path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// NoneYet reports whether there is no database at the path, and nothing shows that there was one.
func (d *dbFile) NoneYet() bool { return d.missing() && !d.gone() }

// gone reports whether a database that was at the path is not there any more: this process found it before, or its -wal
// is left.
func (d *dbFile) gone() bool { return d.found.Load() && d.missing() || orphanedWAL(d.path) }

// noDatabase is the error for a place without a database, which says what there was before.
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

// createEmpty makes the file, with its folder, if there is none. Nobody can have it open then, so that closing it here
// drops no lock. It makes none where there was one before that this process found, or where the -wal of one is left.
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

// nothingCanBeWritten tells a disk that is read-only or full from a passing failure. Only there may a file be read as
// it stands: SQLite then neither locks it nor looks whether it changes.
func (d *dbFile) nothingCanBeWritten(err error) bool {
	switch sqliteCode(err) {
	case sqlite3.ErrFull:
		return true
	case sqlite3.ErrCantOpen, sqlite3.ErrReadonly, sqlite3.ErrPerm, sqlite3.ErrIoErr:
		return unix.Access(filepath.Dir(d.path), unix.W_OK) != nil
	}
	return false
}

// Size returns the bytes of the file and its WAL, and those of the WAL.
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
