//go:build unix

package listener

import (
	"math"
	"syscall"
)

// maxFiles returns the number of files that the process may have open.
func maxFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur)
}
