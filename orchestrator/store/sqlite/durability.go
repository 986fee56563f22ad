package sqlite

import (
	"os"
	"sync"
	"sync/atomic"

	"mailroom/orchestrator"
)

// walFile makes commits durable. The writer's connection runs with synchronous=NORMAL, under which COMMIT leaves the
// commit in the -wal file but not on the disk; sync then puts it there. That it happens after the commit, when the
// write lock and the turnstile are free again, is what lets several processes wait for the disk at the same time.
//
// Nothing may be answered, and nothing sent outward, before sync has returned. The file is sequential: whoever syncs it
// after a commit makes durable all that this commit could have read, whichever process wrote it. Before SQLite moves
// pages from the -wal into the database it syncs both by itself, in this mode too.
//
// The descriptor is open at least as long as the writer's connection, and closing it drops none of SQLite's locks:
// those are on the database and the -shm. The file stays the same one meanwhile, since only the last connection removes
// it; whether somebody else has, the writer looks before it commits and before it answers (moved.go).
//
// Safe for concurrent use.
type walFile struct {
	at    place // of the connection
	file  *os.File
	users atomic.Int64 // the writer, the engine, and every commit that is not durable yet

	last atomic.Int64 // number of the last commit

	mu     sync.Mutex // held during a sync
	synced int64      // number of the last commit that is durable
}

// failures has the first error of the disk for every database. After one, a later sync may report success for what was
// lost, so this error is the only answer until the process starts anew, also when the database is closed and opened
// again meanwhile. It is the file that has failed and not its path: a restored one in its place can be used. The path
// belongs to the key since another file may get the number of one that was removed.
var failures = failureList{first: map[place]error{}}

type failureList struct {
	mu    sync.Mutex
	first map[place]error
}

// of returns the first error of the disk for a database, nil if there was none.
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

// openWAL opens the -wal of a connection that has read its database. It belongs to that connection's owner, who calls
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

// commit is one commit that may not be on the disk yet.
type commit struct {
	by     *backend
	wal    *walFile
	number int64
}

// committed notes a commit. Call it before leadership passes on, and Sync once on what it returns.
func (f *walFile) committed(by *backend) *commit {
	f.users.Add(1)
	return &commit{by, f, f.last.Add(1)}
}

// Sync returns when the commit is on the disk, and all before it. Commits that wait at the same time share one sync.
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

// sync returns when the commit of that number is on the disk, and releases the file.
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

// notDurable is the outcome of a commit that others can see but the disk may not have.
func notDurable(path string, err error) error {
	return &orchestrator.Error{
		Code: orchestrator.Unavailable, Err: err,
		Message: "the disk that holds " + path + " reported an error; the change may or may not have been saved",
		Hint: "Check the disk, and restart this program. If the command had an idempotency key, you can safely repeat it with the same key. " +
			"Otherwise, before you repeat it, check with `mailroom trace` whether the change was saved",
	}
}
