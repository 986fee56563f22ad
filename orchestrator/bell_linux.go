package orchestrator

import (
	"fmt"
	"os"
)

// socketPath names a socket through the open folder, since the address of a socket holds 108 bytes at most and the path
// of a database can be longer.
func socketPath(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}
