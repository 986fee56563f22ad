package store

import (
	"io/fs"
	"os"
)

// On Windows the rights to a file are a list that os.FileInfo does not have. The folder of a user is closed to others there.

// IsOwn reports true.
func IsOwn(fs.FileInfo) bool { return true }

// IsPrivate reports true.
func IsPrivate(fs.FileInfo) bool { return true }

// HasOtherNames reports false: os.FileInfo does not tell.
func HasOtherNames(fs.FileInfo) bool { return false }

// OpenFound opens a file to read it.
func OpenFound(path string) (*os.File, error) { return os.Open(path) }
