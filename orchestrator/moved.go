package orchestrator

import (
	"errors"

	"golang.org/x/sys/unix"
)

// fileID says which file a path names.
type fileID struct{ device, inode uint64 }

func fileAt(path string) (fileID, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return fileID{}, err
	}
	return fileID{uint64(s.Dev), uint64(s.Ino)}, nil
}

// openFile opens a connection to the database at path and notes which file that is, so that moved can tell.
func openFile(path, dsn string) (*conn, error) {
	for {
		before, _ := fileAt(path)
		c, err := openConn(dsn)
		if err != nil {
			return nil, err
		}
		c.path = path
		if c.file, err = fileAt(path); err != nil || c.file == before {
			return c, nil // a file that cannot be looked at has not moved as far as anybody knows
		}
		c.close()
	}
}

// moved reports whether the path names another file by now, or none: somebody has removed or replaced the database while
// this connection had it open. What is written through it, nobody will ever read. A file system that gives one file
// another number every time moves nothing.
func (c *conn) moved() bool {
	now, err := fileAt(c.path)
	if err != nil {
		return errors.Is(err, unix.ENOENT)
	}
	if now == c.file || c.file == (fileID{}) {
		return false
	}
	again, err := fileAt(c.path)
	return err == nil && again == now
}
