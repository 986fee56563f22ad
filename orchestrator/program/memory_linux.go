package program

import (
	"os"

	"golang.org/x/sys/unix"
)

// inMemory is a file without a name that is nowhere but in memory.
func inMemory() (*os.File, error) {
	fd, err := unix.MemfdCreate("input", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if err != nil {
		fd, err = unix.MemfdCreate("input", unix.MFD_CLOEXEC) // a kernel before 6.3
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "input"), nil
}
