//go:build !linux

package sqlite

import "os"

// datasync syncs the contents of a file to the disk, including data written through other descriptors.
func datasync(f *os.File) error { return f.Sync() }
