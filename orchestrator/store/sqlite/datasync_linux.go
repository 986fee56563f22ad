package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// datasync syncs the contents of a file to the disk, including data written through other descriptors.
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
