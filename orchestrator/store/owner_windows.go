package store

import (
	"io/fs"
	"os"
)

// On Windows the access rights of a file are a list, which os.FileInfo does not have. A user's folder is closed to
// other users there.

// IsOwn always returns true.
func IsOwn(fs.FileInfo) bool { return true }

// IsPrivate always returns true.
func IsPrivate(fs.FileInfo) bool { return true }

// HasOtherNames always returns false, because os.FileInfo does not have the number of names.
func HasOtherNames(fs.FileInfo) bool { return false }

// OpenFound opens a file for reading.
func OpenFound(path string) (*os.File, error) { return os.Open(path) }
