//go:build unix

package store

import (
	"io/fs"
	"os"
	"syscall"
)

// IsOwn reports whether a file belongs to the user of this process.
func IsOwn(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(s.Uid) == os.Geteuid()
}

// IsPrivate reports whether only the user of this process can reach a file.
func IsPrivate(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 == 0 }

// HasOtherNames reports whether a file has more than one name (hard link).
func HasOtherNames(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Nlink > 1
}

// OpenFound opens a file for reading. It refuses a symbolic link as the last element of the path, and does not block
// on a named pipe.
func OpenFound(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}
