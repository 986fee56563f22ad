package listener

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestSweepHidden checks that only the remains of a killed daemon are removed, and that a regular file is not
// replaced.
func TestSweepHidden(t *testing.T) {
	t.Parallel()
	in := t.TempDir()
	socket := func(folder string) *net.UnixListener {
		t.Helper()
		if err := os.Mkdir(filepath.Join(in, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", filepath.Join(in, folder, hiddenName))
		if err != nil {
			t.Fatal(err)
		}
		return l.(*net.UnixListener)
	}
	dead, alive, other := socket(".s1"), socket(".s2"), socket("shop")
	for _, l := range []*net.UnixListener{dead, other} {
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	defer alive.Close()
	ssh := filepath.Join(in, ".ssh", hiddenName)
	if err := os.MkdirAll(filepath.Dir(ssh), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ssh, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := (&Socket{Path: filepath.Join(in, "a.sock")}).listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := (&Socket{Path: ssh}).listen(); err == nil {
		t.Error("a file was taken for a socket")
	}
	for path, want := range map[string]bool{".s1": false, ".s2/s": true, "shop/s": true, ".ssh/s": true, "a.sock": true} {
		if _, err := os.Lstat(filepath.Join(in, path)); (err == nil) != want {
			t.Errorf("%s is there: %t", path, err == nil)
		}
	}
}
