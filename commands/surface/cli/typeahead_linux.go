package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// dropTypeahead drops what has been typed at a terminal and not been read: it answers no question that is yet to be
// asked.
func dropTypeahead(in io.Reader) {
	if f, ok := in.(*os.File); ok {
		_ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) // on what is no terminal it fails, and need not be done
	}
}
