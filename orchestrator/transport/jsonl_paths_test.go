package transport_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator/transport"
)

// A path that is not a regular file is refused at the delivery too, because it may have been created after Check.
func TestJSONLRefusesWhatCannotBeReadBack(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	pipe, link := filepath.Join(folder, "pipe"), filepath.Join(folder, "link")
	must(t, unix.Mkfifo(pipe, 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "file"), nil, 0o600))
	must(t, os.Symlink("file", link))
	must(t, os.Symlink("file", filepath.Join(folder, "side.lock")))
	for path, want := range map[string]string{
		pipe: "a pipe", link: "symbolic link", folder: "folder", "/dev/null": "device",
		filepath.Join(folder, "side"): "side.lock",
	} {
		t.Run(want, func(t *testing.T) {
			var l notebook
			if path == "/dev/null" { // its lock file would be in /dev
				path = filepath.Join(folder, "device")
				if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
					t.Logf("no device without the right to make one: %v", err)
					return
				}
			}
			err := transport.JSONL{}.Deliver(t.Context(), l.attempt(path, note("m", `1`)))[0]
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want something about %q", err, want)
			}
			if len(l.notes) != 0 {
				t.Error("it was marked")
			}
		})
	}
}

// The error for a missing folder describes what to do. Once that is done, the message is delivered.
func TestJSONLMissingFolder(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(folder, "b.jsonl")
	if got, err := (transport.JSONL{}).Check(path); err == nil ||
		!strings.Contains(err.Error(), folder+" does not exist; create it") {
		t.Errorf("Check: %q, %v", got, err)
	}
	var l notebook
	m := note("m", `1`)
	err := transport.JSONL{}.Deliver(t.Context(), l.attempt(path, m))[0]
	if err == nil || !strings.Contains(err.Error(), folder+" does not exist; create it") {
		t.Errorf("Deliver: %v", err)
	}
	must(t, os.Mkdir(folder, 0o700))
	l.deliver(t, path, m)
	if got := arrived(t, path); len(got) != 1 {
		t.Errorf("arrived: %v", got)
	}
}

// However a file is named, all its writers must lock the same lock file.
func TestJSONLCanonicalPath(t *testing.T) {
	t.Parallel()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	real := filepath.Join(folder, "real")
	must(t, os.Mkdir(real, 0o700))
	must(t, os.Symlink("real", filepath.Join(folder, "link")))
	must(t, os.WriteFile(filepath.Join(real, "file"), nil, 0o600))
	must(t, os.Symlink("real/file", filepath.Join(folder, "alias")))
	home, err := os.UserHomeDir()
	must(t, err)
	home, err = filepath.EvalSymlinks(home)
	must(t, err)
	here, err := filepath.EvalSymlinks(".")
	must(t, err)
	here, err = filepath.Abs(here)
	must(t, err)
	for address, want := range map[string]string{
		filepath.Join(folder, "link", "new"):              filepath.Join(real, "new"),
		filepath.Join(folder, "alias"):                    filepath.Join(real, "file"),
		folder + "/link/../real//./file":                  filepath.Join(real, "file"),
		"~/no-such-file.jsonl":                            filepath.Join(home, "no-such-file.jsonl"),
		"no-such-file.jsonl":                              filepath.Join(here, "no-such-file.jsonl"),
		filepath.Join(folder, strings.Repeat("x", 250)):   filepath.Join(folder, strings.Repeat("x", 250)),
		filepath.Join(folder, "with space, and: colon.l"): filepath.Join(folder, "with space, and: colon.l"),
	} {
		if got, err := (transport.JSONL{}).Check(address); got != want || err != nil {
			t.Errorf("Check(%q) = %q, %v; want %q", address, got, err, want)
		}
	}
}
