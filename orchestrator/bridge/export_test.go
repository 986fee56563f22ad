package bridge

import (
	"os"
	"testing"
	"time"
)

func init() { settled = 20 * time.Millisecond } // the tests wait for many acknowledgements

// Settle sets how long a file must be missing, until the end of a test that does not run in parallel with others.
func Settle(t *testing.T, d time.Duration) {
	t.Helper()
	before := settled
	settled = d
	t.Cleanup(func() { settled = before })
}

// Remove removes a file of a folder of a root like a check that has read text before meanwhile is called.
func Remove(root *os.Root, folder, name, text string, meanwhile func()) error {
	in, err := root.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Lstat(name)
	if err != nil {
		return err
	}
	meanwhile()
	p := &pass{watch: &watch{binMissed: true}, root: root}
	defer p.closeBin()
	return p.remove(in, folder, file{name, info}, []byte(text))
}

// Read reads a file like a check that has listed it before meanwhile is called.
func Read(in *os.Root, name string, meanwhile func()) ([]byte, error) {
	info, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	meanwhile()
	return file{name, info}.read(in, true)
}

// ErrMoved ends a check during which a file or folder was moved.
var ErrMoved = errMoved
