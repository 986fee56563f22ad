package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// walIndexHeader is the number of bytes at the start of the -shm that change with every commit: two copies of a
// header with a counter, a checksum of the log and its salts. See https://sqlite.org/walformat.html.
const walIndexHeader = 96

// justNow is the time within which two writes may leave the same time on a file: FAT stores times in units of two
// seconds.
const justNow = 2 * time.Second

// State returns a text that changes with every commit to the database at a path, without opening the database. The
// text is made of the file's identity, size and time, and the header of the WAL index. known is false if the state
// cannot be determined. A process that has the database open must not call State, because closing the index would
// drop SQLite's locks on it.
func State(path string) (state string, known bool) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", false
	}
	info, err := os.Stat(path)
	if err != nil || time.Since(info.ModTime()) < justNow {
		return "", false
	}
	file, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", false
	}
	index, err := os.Open(path + "-shm")
	if errors.Is(err, fs.ErrNotExist) { // closed by all; the file has all commits, unless the last process was killed
		return fmt.Sprint(file.Dev, file.Ino, info.Size(), info.ModTime().UnixNano()), !walExists(path)
	}
	if err != nil {
		return "", false
	}
	defer index.Close()
	var head [walIndexHeader]byte
	if _, err := io.ReadFull(index, head[:]); err != nil || head[12] == 0 {
		return "", false // not initialized yet
	}
	return fmt.Sprintf("%d %d %d %d %x", file.Dev, file.Ino, info.Size(), info.ModTime().UnixNano(), head), true
}
