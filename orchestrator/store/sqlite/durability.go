package sqlite

import (
	"os"
	"sync"
	"sync/atomic"

	"mailroom/orchestrator"
)

// walFile makes commits durable. The writer's connection runs with synchronous=NORMAL: COMMIT writes the commit to
// the -wal file but not to the disk. sync then writes it to the disk. Because the sync comes after the commit, when
// the write lock and the turnstile are free again, several processes can wait for the disk at the same time.
//
// Nothing may be answered, and nothing may be sent outward, before sync has returned. The file is sequential: a
// process that syncs the file after a commit also makes everything durable that this commit could have read,
// whichever process wrote it. Before SQLite moves pages from the -wal into the database, it syncs both files itself,
// in this mode too.
//
// The descriptor is open at least as long as the writer's connection. Closing it drops none of SQLite's locks, which
// are on the database and the -shm. The file stays the same while the descriptor is open, since only the last
// connection removes it. In case somebody else has removed it, the writer checks before it commits and before it
// answers (moved.go).
//
// walFile is safe for concurrent use.
type walFile struct {
	at    place // of the connection
	file  *os.File
	users atomic.Int64 // the writer, the store, and every commit that is not durable yet

	last atomic.Int64 // number of the last commit

	mu     sync.Mutex // held during a sync
	synced int64      // number of the last commit that is durable
}

// failures holds the first disk error of each database. After a disk error, a later sync may report success for data
// that was lost. The process therefore returns the first error until it is restarted, even if the database is closed
// and opened again. The error belongs to the file and not to its path: a restored file at the path can be used. The
// key also contains the path, since another file may get the inode number of a file that was removed.
var failures = failureList{first: map[place]error{}}

type failureList struct {
	mu    sync.Mutex
	first map[place]error
}

// of returns the first disk error of a database, or nil if there was none.
func (l *failureList) of(at place) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first[at.database()]
}

func (l *failureList) add(at place, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first[at.database()] = err
}

// openWAL opens the -wal of a connection that has already read its database. The owner of the connection must call
// release.
func openWAL(c *conn) (*walFile, error) {
	file, err := os.Open(c.walPath)
	if err != nil {
		return nil, err
	}
	c.noteWAL()
	f := &walFile{at: c.place, file: file}
	f.users.Store(1)
	return f, nil
}

func (f *walFile) release() {
	if f.users.Add(-1) == 0 {
		f.file.Close()
	}
}

// commit is a commit that may not be on the disk yet.
type commit struct {
	by     *backend
	wal    *walFile
	number int64
}

// committed registers a commit. Call it before leadership passes on, and call Sync once on the result.
func (f *walFile) committed(by *backend) *commit {
	f.users.Add(1)
	return &commit{by, f, f.last.Add(1)}
}

// Sync returns when this commit and all earlier ones are on the disk. Commits that wait at the same time share one
// sync.
func (c *commit) Sync() error {
	if err := c.wal.sync(c.number); err != nil {
		return notDurable(c.by.s.path, err)
	}
	if c.wal.at.moved() {
		c.by.strayed.Store(true) // another leader may be using the connection
		return movedMeanwhile(c.by.s.path)
	}
	return nil
}

// sync returns when the commit with this number is on the disk, and releases the file.
func (f *walFile) sync(number int64) error {
	defer f.release()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.synced >= number {
		return nil
	}
	if err := failures.of(f.at); err != nil {
		return err
	}
	last := f.last.Load()
	if err := datasync(f.file); err != nil {
		failures.add(f.at, err)
		return err
	}
	f.synced = last
	return nil
}

// notDurable returns the error for a commit that others can see but that may not be on the disk.
func notDurable(path string, err error) error {
	return &orchestrator.Error{
		Code: orchestrator.Unavailable, Err: err,
		Message: "the disk that holds " + path + " reported an error; the change may or may not have been saved",
		Hint: "Check the disk, and restart this program. If the command had an idempotency key, you can safely repeat it with the same key. " +
			"Otherwise, before you repeat it, check with `mailroom trace` whether the change was saved",
	}
}
