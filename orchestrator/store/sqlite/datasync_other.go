//go:build !linux

package sqlite

import "os"

// datasync puts what was written to a file on the disk, through whichever descriptor it was written.
func datasync(f *os.File) error { return f.Sync() }
