//go:build !linux

package sqlite

import "golang.org/x/sys/unix"

// Outside Linux such a lock belongs to the process and is dropped when the process closes any descriptor of the
// file, so leases end only when they run out.

func lockByte(int, int64) error { return unix.ENOTSUP }

func byteLocked(int, int64) (bool, error) { return true, unix.ENOTSUP }
