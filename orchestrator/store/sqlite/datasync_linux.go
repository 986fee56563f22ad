package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// datasync puts what was written to a file on the disk, through whichever descriptor it was written.
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
