package torture

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLeftovers creates the files that a process could leave, and checks that each is found, except for those that
// are documented to stay.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "left") // short, because the path of a socket is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	write := func(name string) string {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	o := &office{Config: Config{Folder: folder}, db: write("mailroom.db")}
	lock := write("solid/filed.jsonl.lock")
	for _, name := range []string{"history.jsonl", "seed", "mailroom.db-turnstile", "solid/filed.jsonl",
		"taken/boxed/000001-x.json",
		"solid/box/boxed/x.json", "solid/box/.mailroom/README", "mailroom.db-slots/worked.0"} {
		write(name)
	}
	if left := o.leftovers(); len(left) > 0 {
		t.Errorf("found where nothing is left over: %v", left)
	}

	finds := func(what string) {
		t.Helper()
		if left := o.leftovers(); !slices.ContainsFunc(left, func(s string) bool { return strings.Contains(s, what) }) {
			t.Errorf("%q is not among what is left over: %v", what, left)
		}
	}
	write("solid/box/boxed/x.tmp")
	finds("the file " + filepath.Join(folder, "solid/box/boxed/x.tmp"))
	write("mailroom.db-wal")
	finds("the file " + filepath.Join(folder, "mailroom.db-wal"))
	held, err := os.Open(lock)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if runtime.GOOS == "linux" {
		finds(lock + " is open")
	}
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	finds("a lock on " + lock)
	if err := os.Mkdir(o.db+"-bell", 0o700); err != nil {
		t.Fatal(err)
	}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: o.db + "-bell/x", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	finds("the socket " + o.db + "-bell/x")
	o.register.running = append(o.register.running, &process{name: "daemon.1"})
	finds("the process daemon.1 runs")
}
