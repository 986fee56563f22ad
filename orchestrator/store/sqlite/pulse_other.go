//go:build !linux

package sqlite

import "golang.org/x/sys/unix"

// Elsewhere such a lock belongs to the process and goes when it closes any descriptor of the file: leases just run out.

func lockByte(int, int64) error { return unix.ENOTSUP }

func byteLocked(int, int64) (bool, error) { return true, unix.ENOTSUP }
