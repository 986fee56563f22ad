package program

import (
	"os"

	"golang.org/x/sys/unix"
)

// inMemory returns an unnamed file that exists only in memory.
func inMemory() (*os.File, error) {
	fd, err := unix.MemfdCreate("input", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if err != nil {
		fd, err = unix.MemfdCreate("input", unix.MFD_CLOEXEC) // for kernels before 6.3
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "input"), nil
}
