package orchestrator

import (
	"os"
	"sync/atomic"
)

// walFile makes commits durable. The writer's connection runs with synchronous=NORMAL, under which COMMIT leaves the
// commit in the -wal file but not on the disk; sync then puts it there. That it happens after the commit, when the write
// lock and the turnstile are free again, is what lets several processes wait for the disk at the same time.
//
// Nothing may be answered, and nothing sent outward, before sync has returned. The file is sequential: whoever syncs it
// after a commit makes durable all that this commit could have read, whichever process wrote it. Before SQLite moves
// pages from the -wal into the database it syncs both by itself, in this mode too.
//
// The descriptor is open as long as the writer's connection, and closing it drops none of SQLite's locks: those are on
// the database and the -shm. The file stays the same one meanwhile, since only the last connection removes it.
type walFile struct {
	file *os.File

	// failed is the first error of the disk. After one, a later sync may report success for what was lost, so there is
	// no other answer any more than this error, until the process starts anew.
	failed atomic.Pointer[error]
}

// openWAL opens the -wal of a database that a connection of this process has read.
func openWAL(path string) (*walFile, error) {
	file, err := os.Open(path + "-wal")
	if err != nil {
		return nil, err
	}
	return &walFile{file: file}, nil
}

// sync returns when everything that was committed before the call is on the disk. Safe for concurrent use.
func (f *walFile) sync() error {
	if err := f.failed.Load(); err != nil {
		return *err
	}
	err := datasync(f.file)
	if err != nil {
		f.failed.CompareAndSwap(nil, &err)
	}
	return err
}

func (f *walFile) close() { f.file.Close() }
