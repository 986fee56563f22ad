package transport

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameNew moves a file to a name that nothing has. Error: unix.EEXIST when something has it.
func renameNew(from folder, old string, to folder, name string) error {
	err := unix.Renameat2(int(from.Fd()), old, int(to.Fd()), name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // some file systems cannot
		return renameChecked(from, old, to, name)
	}
	return err
}
