//go:build !linux && unix

package transport

// renameNew moves a file to a name that nothing has. Error: unix.EEXIST when something has it.
func renameNew(from folder, old string, to folder, name string) error {
	return renameChecked(from, old, to, name)
}
