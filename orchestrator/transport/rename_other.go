//go:build !linux && unix

package transport

// renameNew renames a file to a name that does not exist yet. If the name exists, it returns unix.EEXIST.
func renameNew(from folder, old string, to folder, name string) error {
	return renameChecked(from, old, to, name)
}
