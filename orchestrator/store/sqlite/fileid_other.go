//go:build !linux

package sqlite

// fileAt returns the identity of the file at a path.
func fileAt(path string) (fileID, error) { return statted(path) }
