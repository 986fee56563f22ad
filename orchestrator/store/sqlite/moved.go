package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// fileID identifies a file. The zero value means unknown.
type fileID struct{ device, inode uint64 }

// statted returns the identity of the file at a path, using stat(2).
func statted(path string) (fileID, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return fileID{}, err
	}
	return fileID{uint64(s.Dev), uint64(s.Ino)}, nil
}

// isFile reports whether fd is an open descriptor of the file.
func isFile(fd int, file fileID) bool {
	var s unix.Stat_t
	return unix.Fstat(fd, &s) == nil && file == fileID{uint64(s.Dev), uint64(s.Ino)}
}

// place holds the paths and identities of the database and its -wal when a connection was opened. SQLite keeps both
// files open, and continues to use them after their names have been given to other files.
type place struct {
	path, walPath string
	file, wal     fileID // zero if unknown; wal is zero before noteWAL
}

// database returns the place without the -wal, which is a new file each time after all connections were closed.
func (p place) database() place { return place{path: p.path, file: p.file} }

// openFile opens a connection to the database and records the identity of the file for moved. If the file differs
// from the one opened before, it logs a warning once, since the change cannot be seen in the messages.
func (d *dbFile) openFile(dsn string) (*conn, error) {
	if err := d.anothersWAL(); err != nil {
		return nil, err
	}
	c, err := openFileBy(d.path, dsn, fileAt)
	if err != nil {
		return nil, err
	}
	if c.file == (fileID{}) {
		return c, nil
	}
	d.fileMu.Lock()
	before := d.file
	d.file = c.file
	d.fileMu.Unlock()
	if before != (fileID{}) && before != c.file {
		d.log.Warn("the database was removed or replaced while it was open; using the file that is now at this path", "path", d.path)
	}
	return c, nil
}

// anothersWAL refuses a database that has replaced another one whose -wal is still there. SQLite cannot detect that
// the -wal belongs to another database, and would mix the two.
func (d *dbFile) anothersWAL() error {
	d.fileMu.Lock()
	defer d.fileMu.Unlock()
	if d.wal == nil || !d.wal.at.fileMoved() || d.wal.at.walMoved() || !walExists(d.path) || orphanedWAL(d.path) {
		return nil
	}
	return orchestrator.Errorf(orchestrator.Unavailable,
		"the database %[1]s was replaced, but %[1]s-wal still belongs to the previous database", d.path).
		WithHint("Put the previous database back. Or stop the programs that use the database, and move %[1]s-wal and %[1]s-shm away. If you replaced the file to restore a backup, use `mailroom restore` instead", d.path)
}

// keepWAL keeps the writer's -wal open even after the writer has closed it. anothersWAL needs the file, and no other
// file can get its inode number while it is open. keepWAL(nil) releases the file.
func (d *dbFile) keepWAL(f *walFile) {
	if f != nil {
		f.users.Add(1)
	}
	d.fileMu.Lock()
	before := d.wal
	d.wal = f
	d.fileMu.Unlock()
	if before != nil {
		before.release()
	}
}

// openTries is the maximum number of tries of openFileBy.
const openTries = 3

// openFileBy opens a connection. look is fileAt, except in a test. If every look finds another file, as in some file
// systems, the identity stays unknown.
func openFileBy(path, dsn string, look func(string) (fileID, error)) (*conn, error) {
	for try := 1; ; try++ {
		if orphanedWAL(path) {
			return nil, databaseMissing(path) // SQLite would report a disk error
		}
		before, _ := look(path)
		c, err := openConn(dsn)
		if err != nil {
			return nil, err
		}
		c.place = place{path: path, walPath: path + "-wal"}
		file, err := look(path)
		switch {
		case err == nil && file == before:
			c.file = file
			return c, nil
		case err != nil || try == openTries:
			return c, nil
		}
		c.close()
	}
}

// noteWAL records the identity of the -wal. A connection uses the same -wal from its first statement on, because
// that statement, in WAL mode, keeps everybody from removing the file, except by hand.
func (p *place) noteWAL() { p.wal, _ = fileAt(p.walPath) }

// moved reports whether the paths now name other files or none: somebody has removed or replaced the database or its
// -wal while this connection had them open. Nobody would ever read data written through this connection. On a file
// system that returns a different number for the same file each time, moved returns false. It makes two system
// calls, about 2 us.
func (p *place) moved() bool { return p.fileMoved() || p.walMoved() }

func (p *place) fileMoved() bool { return isElsewhere(p.path, p.file) }

func (p *place) walMoved() bool { return p.wal != fileID{} && isElsewhere(p.walPath, p.wal) }

// saveWAL reports whether the connection may be closed. If somebody has removed the -wal, earlier commits are in the
// removed file, which this connection still has open, and perhaps nowhere else. saveWAL then first moves all of them
// into the database, so that the next -wal starts at its beginning. If that is not possible because somebody is
// reading, the connection must stay open and saveWAL must be called again. If there is a new -wal at the path,
// nothing is moved.
func (c *conn) saveWAL() bool {
	if c.fileMoved() || !c.walMoved() || walExists(c.path) {
		return true
	}
	c.Script("ROLLBACK") // there is no transaction, except after a panic
	busy := true
	err := c.Query("PRAGMA wal_checkpoint(TRUNCATE)", func(row store.Row) error {
		busy = row.Int(0) != 0
		return nil
	})
	return err == nil && !busy
}

func isElsewhere(path string, file fileID) bool {
	now, err := fileAt(path)
	if err != nil {
		return errors.Is(err, unix.ENOENT)
	}
	if now == file || file == (fileID{}) {
		return false
	}
	again, err := fileAt(path)
	return err == nil && again == now
}

// orphanedWAL reports whether there is no database at path, or an empty file, but a -wal with contents. If a
// database were created there, SQLite would discard that -wal; a database that uses a -wal is not empty. orphanedWAL
// checks for the database twice, since both files may be put back meanwhile.
func orphanedWAL(path string) bool {
	lacks := func() bool {
		info, err := os.Stat(path)
		return errors.Is(err, unix.ENOENT) || err == nil && info.Size() == 0
	}
	return lacks() && walExists(path) && lacks()
}

func databaseMissing(path string) *orchestrator.Error {
	return orchestrator.Errorf(orchestrator.Unavailable,
		"the database %[1]s is missing, but %[1]s-wal exists and has messages that are not in the database yet",
		path).
		WithHint("Put the database file back at this path. Or, to start with a new database, move the -wal and -shm files away and restart the programs that have the database open")
}

// databaseRemoved returns the error for all operations on a store whose database is gone from its path. The store
// creates no new database, which would have no agents and would be in the way of somebody who puts the old one back.
func databaseRemoved(path string) *orchestrator.Error {
	return orchestrator.Errorf(orchestrator.Unavailable,
		"the database %s was removed while this program used it; nothing was read or written", path).
		WithHint("Put the file back, or create a new database at this path. This program then uses the file at this path. To restore a backup, use `mailroom restore`. "+
			"To create a new database, run `mailroom --db %s agent add NAME`",
			orchestrator.ShellWord(path))
}

// movedAway returns the error for a batch that was rolled back because the database is gone from its path.
func (d *dbFile) movedAway() error {
	if !d.Exists() {
		return d.noDatabase()
	}
	return orchestrator.Errorf(orchestrator.Unavailable,
		"the database %s or its -wal file was removed or replaced while it was open; nothing was saved", d.path).
		WithHint("Repeat the command, which then uses the file that is now at this path. If you replaced the file to restore a backup, use `mailroom restore` instead")
}

// movedMeanwhile returns the error for a batch that was committed to files that are gone since.
func movedMeanwhile(path string) error {
	return orchestrator.Errorf(orchestrator.Unavailable,
		"the database %s or its -wal file was removed or replaced during the change; the change may or may not have been saved",
		path).
		WithHint("If the command had an idempotency key, you can safely repeat it with the same key. Otherwise, before you repeat it, check with `mailroom trace` whether the change was saved. If you replaced the file to restore a backup, use `mailroom restore` instead")
}
