package program

import (
	"os"

	"golang.org/x/sys/unix"
)

// anonymousFile is a file without a name, in memory.
func anonymousFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("input", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "input"), nil
}
