package transport

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameNew renames a file to a name that does not exist yet. If the name exists, it returns unix.EEXIST.
func renameNew(from folder, old string, to folder, name string) error {
	err := unix.Renameat2(int(from.Fd()), old, int(to.Fd()), name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not supported by some file systems
		return renameChecked(from, old, to, name)
	}
	return err
}
