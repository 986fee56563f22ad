package sqlite

import (
	"errors"

	"golang.org/x/sys/unix"
)

// lockByte locks one byte of a file until fd is closed. Other processes may hold the same lock.
func lockByte(fd int, at int64) error {
	return fcntl(fd, unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK, Start: at, Len: 1})
}

// byteLocked reports whether another open file holds the lock on this byte.
func byteLocked(fd int, at int64) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}
	err := fcntl(fd, unix.F_OFD_GETLK, &lock)
	return lock.Type != unix.F_UNLCK, err
}

func fcntl(fd, what int, lock *unix.Flock_t) error {
	for {
		if err := unix.FcntlFlock(uintptr(fd), what, lock); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
