package letter

import (
	"os"

	"golang.org/x/sys/unix"
)

// born returns the creation time of a file in ns since 1970, or 0 if the file system does not record it.
func born(file *os.File) int64 {
	var s unix.Statx_t
	err := unix.Statx(int(file.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &s)
	if err != nil || s.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return s.Btime.Sec*1e9 + int64(s.Btime.Nsec)
}
