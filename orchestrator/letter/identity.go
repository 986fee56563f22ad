//go:build unix

package letter

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Identity identifies a file or a folder, even after it was moved.
type Identity struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Born   int64  `json:"born"` // creation in ns since 1970, because inode numbers are reused; 0: not recorded
}

// Identify returns the identity of an open file or folder. Errors: those of the system.
func Identify(file *os.File) (id Identity, err error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &s); err != nil {
		return id, fmt.Errorf("cannot read the status of %s: %w", file.Name(), err)
	}
	return Identity{Device: uint64(s.Dev), Inode: s.Ino, Born: born(file)}, nil
}

// Same reports whether two identities belong to the same file. A device number may change when the machine restarts,
// so it is compared only if the creation time is unknown.
func (id Identity) Same(now Identity) bool {
	return now.Inode == id.Inode && now.Born == id.Born && (id.Born != 0 || now.Device == id.Device)
}

func (id Identity) String() string { return fmt.Sprintf("%d-%d-%d", id.Device, id.Inode, id.Born) }
