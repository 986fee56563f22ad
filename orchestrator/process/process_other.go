//go:build !linux && !darwin

package process

import (
	"errors"

	"golang.org/x/sys/unix"
)

// born is not told by this system.
func born(int) string { return "" }

// space is nothing that this system has.
func space() string { return "" }

// runs reports whether there is a process of this number. The system does not tell whether it is still the same.
func runs(pid int, _ string) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }
