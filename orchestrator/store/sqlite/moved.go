package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// fileID says which file a path names. Zero: it is not known.
type fileID struct{ device, inode uint64 }

// statted is fileAt by way of stat(2).
func statted(path string) (fileID, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return fileID{}, err
	}
	return fileID{uint64(s.Dev), uint64(s.Ino)}, nil
}

// isFile reports whether fd is open on the file.
func isFile(fd int, file fileID) bool {
	var s unix.Stat_t
	return unix.Fstat(fd, &s) == nil && file == fileID{uint64(s.Dev), uint64(s.Ino)}
}

// place is where a connection found the database and its -wal, and which files they were. SQLite keeps both open, and
// goes on with them when their names have been given to others.
type place struct {
	path, walPath string
	file, wal     fileID // zero where that is not known, and in wal before noteWAL
}

// database is the place without the -wal, which is a new file every time that all have closed it.
func (p place) database() place { return place{path: p.path, file: p.file} }

// openFile opens a connection to the database and notes which file that is, so that moved can tell. The first that
// finds another file than was there before says so in the log: there is no telling that from the messages.
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

// anothersWAL refuses a database that was put in the place of another whose -wal still stands there: SQLite cannot tell
// that it belongs to another, and would mix the two.
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

// keepWAL keeps the -wal that the writer has open, also when that is closed: for anothersWAL, and lest another file
// gets its number. nil keeps none.
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

// openTries bounds the tries of openFileBy.
const openTries = 3

// openFileBy opens a connection; look is fileAt, except in a test. A file that is another at every look is not known;
// there are file systems like that.
func openFileBy(path, dsn string, look func(string) (fileID, error)) (*conn, error) {
	for try := 1; ; try++ {
		if orphanedWAL(path) {
			return nil, databaseMissing(path) // not for SQLite to blame the disk for
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

// noteWAL notes which file the -wal is. It is this connection's own from its first statement on, as the first in WAL
// mode keeps everybody from removing it, except by hand.
func (p *place) noteWAL() { p.wal, _ = fileAt(p.walPath) }

// moved reports whether the paths name other files by now, or none: somebody has removed or replaced the database or
// its -wal while this connection had them open. What is written through it, nobody will ever read. A file system that
// gives one file another number every time moves nothing. It takes two looks at the file system, about 2 us.
func (p *place) moved() bool { return p.fileMoved() || p.walMoved() }

func (p *place) fileMoved() bool { return isElsewhere(p.path, p.file) }

func (p *place) walMoved() bool { return p.wal != fileID{} && isElsewhere(p.walPath, p.wal) }

// saveWAL reports whether the connection may be given up. If somebody has removed the -wal, what was committed before
// is in the one that this connection still has open, and perhaps nowhere else: it is moved into the database first, and
// all of it, so that the next -wal begins at its beginning. If that is not possible now, since somebody reads, the
// connection must be kept and this be asked again. A -wal that stands in its place by now is another's business.
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

// orphanedWAL reports whether there is no database at path, or an empty file, but a -wal of one that holds something. A
// database that was made there now would have SQLite throw that away; one that has a -wal is not empty. It looks twice,
// since both may be put back meanwhile.
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

// databaseRemoved is the outcome of whatever an engine is asked for when its database has gone from its place. It makes
// no new one there: that would know nobody, and be in the way of whoever puts the old one back.
func databaseRemoved(path string) *orchestrator.Error {
	return orchestrator.Errorf(orchestrator.Unavailable,
		"the database %s was removed while this program used it; nothing was read or written", path).
		WithHint("Put the file back, or create a new database at this path. This program then uses the file at this path. To restore a backup, use `mailroom restore`. "+
			"To create a new database, run `mailroom --db %s agent add NAME`",
			orchestrator.ShellWord(path))
}

// movedAway is the outcome of a batch that was undone since the database has gone from its place.
func (d *dbFile) movedAway() error {
	if !d.Exists() {
		return d.noDatabase()
	}
	return orchestrator.Errorf(orchestrator.Unavailable,
		"the database %s or its -wal file was removed or replaced while it was open; nothing was saved", d.path).
		WithHint("Repeat the command, which then uses the file that is now at this path. If you replaced the file to restore a backup, use `mailroom restore` instead")
}

// movedMeanwhile is the outcome of a batch that was committed to files that have gone since.
func movedMeanwhile(path string) error {
	return orchestrator.Errorf(orchestrator.Unavailable,
		"the database %s or its -wal file was removed or replaced during the change; the change may or may not have been saved",
		path).
		WithHint("If the command had an idempotency key, you can safely repeat it with the same key. Otherwise, before you repeat it, check with `mailroom trace` whether the change was saved. If you replaced the file to restore a backup, use `mailroom restore` instead")
}
