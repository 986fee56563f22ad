package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// dropTypeahead discards terminal input that has not been read, since it cannot be the answer to a question that
// follows.
func dropTypeahead(in io.Reader) {
	if f, ok := in.(*os.File); ok {
		_ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) // fails harmlessly if f is not a terminal
	}
}
