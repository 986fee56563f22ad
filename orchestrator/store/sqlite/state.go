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

// walIndexHeader is how many bytes at the start of the -shm tell of the last commit: two copies of a header, with a counter,
// a checksum of the log and its salts. See https://sqlite.org/walformat.html.
const walIndexHeader = 96

// justNow is how long after a write another one may leave the same time on the file: FAT keeps two seconds.
const justNow = 2 * time.Second

// State returns a text that is another one after any commit to the database at a path, without opening it: the file, and the
// head of the log's index. known is false where that cannot be told. It must not be called by a process that has the
// database open, since closing the index would let go of SQLite's locks on it.
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
	if errors.Is(err, fs.ErrNotExist) { // closed by all; what was committed is in the file, unless the last was killed
		return fmt.Sprint(file.Dev, file.Ino, info.Size(), info.ModTime().UnixNano()), !walExists(path)
	}
	if err != nil {
		return "", false
	}
	defer index.Close()
	var head [walIndexHeader]byte
	if _, err := io.ReadFull(index, head[:]); err != nil || head[12] == 0 {
		return "", false // not made yet
	}
	return fmt.Sprintf("%d %d %d %d %x", file.Dev, file.Ino, info.Size(), info.ModTime().UnixNano(), head), true
}
