//go:build unix

package letter

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Identity tells files and folders apart, wherever they were moved.
type Identity struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Born   int64  `json:"born"` // ns since 1970; 0: the file system does not say. An inode number is used again
}

// Identify returns the identity of an open file or folder. Errors: those of the system.
func Identify(file *os.File) (id Identity, err error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &s); err != nil {
		return id, fmt.Errorf("cannot read the status of %s: %w", file.Name(), err)
	}
	return Identity{Device: uint64(s.Dev), Inode: s.Ino, Born: born(file)}, nil
}

// Same reports whether two identities are of one file. The number of a device may change when the machine starts anew,
// so it counts only if the time of birth is not known.
func (id Identity) Same(now Identity) bool {
	return now.Inode == id.Inode && now.Born == id.Born && (id.Born != 0 || now.Device == id.Device)
}

func (id Identity) String() string { return fmt.Sprintf("%d-%d-%d", id.Device, id.Inode, id.Born) }
