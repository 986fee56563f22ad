package bridge

import "os"

// Remove removes a file of a folder the way that a look does which has read it before something else happened.
func Remove(in *os.Root, name string, meanwhile func()) error {
	info, err := in.Lstat(name)
	if err != nil {
		return err
	}
	meanwhile()
	return (&pass{}).remove(in, file{name, info})
}

// Read reads a file that was listed before something else happened.
func Read(in *os.Root, name string, meanwhile func()) ([]byte, error) {
	info, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	meanwhile()
	return file{name, info}.read(in, true)
}

// ErrMoved ends a look during which somebody moved what was looked at.
var ErrMoved = errMoved
