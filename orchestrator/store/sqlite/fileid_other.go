//go:build !linux

package sqlite

// fileAt returns the file that a path names.
func fileAt(path string) (fileID, error) { return statted(path) }
