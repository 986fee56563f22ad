package transport_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/transport"
)

// A file or link in the place of the agent's folder is not followed, and nothing is written elsewhere.
func TestDirRefusesWhatIsNoFolder(t *testing.T) {
	t.Parallel()
	outside := realTempDir(t)
	for name, put := range map[string]func(path string) error{
		"link out of the root":       func(path string) error { return os.Symlink(outside, path) },
		"link to another's folder":   func(path string) error { return os.Symlink("tester", path) },
		"link to nothing":            func(path string) error { return os.Symlink("nothing", path) },
		"link to the staging folder": func(path string) error { return os.Symlink(transport.StagingFolder, path) },
		"file":                       func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"pipe":                       func(path string) error { return unix.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newDir(t)
			must(t, os.Mkdir(filepath.Join(l.root, "tester"), 0o700))
			inbox := filepath.Join(l.root, "builder")
			must(t, put(inbox))
			err := l.try(t, note("m", `1`))
			if err == nil || !strings.Contains(err.Error(), inbox+" is a link or is not a folder") {
				t.Errorf("%v", err)
			}
			if len(l.notes) != 0 {
				t.Error("it was marked")
			}
			must(t, os.Remove(inbox))
			must(t, l.try(t, note("m", `1`)))
			if got := inFolder(t, l.root, "builder"); len(got) != 1 || len(files(t, l.root, "tester")) != 0 {
				t.Errorf("arrived: %v", got)
			}
		})
	}
	if got := files(t, outside, "."); len(got) != 0 {
		t.Errorf("outside of the root: %q", got)
	}
}

// The root and its staging folder are not followed either if they were replaced by links since Check.
func TestDirRefusesLinksForRootAndStaging(t *testing.T) {
	t.Parallel()
	l := newDir(t)
	outside := realTempDir(t)
	staging := filepath.Join(l.root, transport.StagingFolder)
	must(t, os.Symlink(outside, staging))
	if err := l.try(t, note("m", `1`)); err == nil ||
		!strings.Contains(err.Error(), staging+" is a link or is not a folder") {
		t.Errorf("%v", err)
	}
	must(t, os.RemoveAll(l.root))
	must(t, os.Symlink(outside, l.root))
	if err := l.try(t, note("m", `1`)); err == nil || !strings.Contains(err.Error(), l.root+" is a link or is not a folder") {
		t.Errorf("%v", err)
	}
	if got := files(t, outside, "."); len(got) != 0 || len(l.notes) != 0 {
		t.Errorf("outside of the root: %q; marked: %q", got, l.notes)
	}
}

// No recipient and no ID leads out of a folder, or forms a file name that a reader would not take for a message.
func TestDirHostileNames(t *testing.T) {
	t.Parallel()
	l := newDir(t)
	for _, name := range []string{"", ".", "..", transport.StagingFolder, "a/b", "../builder", "a\x00b", "Builder",
		strings.Repeat("x", 300)} {
		a := l.attempt(note("m", `1`))
		a.Recipient = name
		if err := (transport.Dir{}).Deliver(t.Context(), a)[0]; err == nil || len(l.notes) != 0 {
			t.Errorf("recipient %q: %v, marked %q", name, err, l.notes)
		}
		a.Messages[0].Mark = "{}"
		if found, err := (transport.Dir{}).Recover(t.Context(), a); found || err == nil {
			t.Errorf("recipient %q: Recover: %v, %v", name, found, err)
		}
	}
	ids := []string{
		"../../escape", "/etc/passwd", "..", ".", ".hidden", "-rf", "a\nb", "a\x00b", `a\b`, "con", "*",
		strings.Repeat("x", 256),
		strings.Repeat("é", 128), "m.json", "%2E", transport.StagingFolder,
	}
	for _, id := range ids {
		must(t, l.try(t, note(id, `1`)))
	}
	got := inFolder(t, l.root, "builder")
	if len(got) != len(ids) {
		t.Errorf("%d arrived, not %d", len(got), len(ids))
	}
	for i := range got {
		if got[i].ID != ids[i] {
			t.Errorf("%q arrived in place of %q", got[i].ID, ids[i])
		}
	}
	if err := l.try(t, note("", `1`)); err == nil || !strings.Contains(err.Error(), "no id") {
		t.Errorf("no id: %v", err)
	}
	for _, hostile := range []string{
		`{"owner":"../..","token":"x"}`, `{"owner":"a","token":"../x"}`, `{"owner":"a/b","token":"x"}`,
		`{"owner":"","token":""}`,
	} {
		l.notes["m"] = hostile
		if found, err := l.recover(t, note("m", `1`)); found || !errors.Is(err, orchestrator.ErrUndecidable) {
			t.Errorf("the note %s: %v, %v", hostile, found, err)
		}
	}
}

// Check creates the root, uses the default root, and resolves links once.
func TestDirCheck(t *testing.T) {
	top := realTempDir(t)
	t.Chdir(top)
	for address, want := range map[string]string{
		"": filepath.Join(top, ".claude/session/messages"), "a/b/": filepath.Join(top, "a/b"),
		"a/../a": filepath.Join(top, "a"), ".": top,
	} {
		got, err := transport.Dir{}.Check(address)
		if got != want || err != nil {
			t.Errorf("Check(%q) = %q, %v; want %q", address, got, err, want)
		}
		info, err := os.Stat(want)
		must(t, err)
		if want != top && info.Mode().Perm() != 0o700 {
			t.Errorf("%s was made with mode %v", want, info.Mode())
		}
	}
	must(t, os.Symlink("a", "link"))
	if got, err := (transport.Dir{}).Check("link/b"); got != filepath.Join(top, "a/b") || err != nil {
		t.Errorf("Check by a link: %q, %v", got, err)
	}
	if left := files(t, top, filepath.Join("a", transport.StagingFolder)); len(left) != 0 {
		t.Errorf("it left %q", left)
	}
}

// Without special rights, a delivery into a folder that is not writable fails.
func TestDirWithoutRights(t *testing.T) {
	t.Parallel()
	top, err := os.MkdirTemp("", "unprivileged-") // t.TempDir is below a folder that only its owner may enter
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(top) })
	must(t, os.Chmod(top, 0o777))
	helper.Start(t, "unprivileged", filepath.Join(top, "messages")).Wait()
}

// runUnprivileged gives up the superuser's rights, if it has them, and delivers to folders that are not writable.
func runUnprivileged(t *testing.T, args []string) {
	if os.Geteuid() == 0 {
		must(t, syscall.Setgid(65534))
		must(t, syscall.Setuid(65534))
	}
	l := &dirLedger{root: args[0]}
	inbox, staging := filepath.Join(l.root, "builder"), filepath.Join(l.root, transport.StagingFolder)
	must(t, os.Mkdir(l.root, 0o700))
	must(t, os.Mkdir(inbox, 0o500))
	must(t, os.Mkdir(staging, 0o500))
	if _, err := (transport.Dir{}).Check(l.root); !errors.Is(err, syscall.EACCES) {
		t.Errorf("Check: %v", err)
	}
	if err := l.try(t, note("m", `1`)); !errors.Is(err, syscall.EACCES) || len(l.notes) != 0 {
		t.Errorf("Deliver: %v, notes %q", err, l.notes)
	}
	must(t, os.Chmod(staging, 0o700))
	l.mustFail(t, note("m", `1`), inbox, func() { must(t, os.Chmod(inbox, 0o700)) })
	l.dieAfterMark(t, note("n", `1`))
	must(t, os.Chmod(inbox, 0o500))
	if found, err := l.recover(t, note("n", `1`)); found || !errors.Is(err, syscall.EACCES) {
		t.Errorf("Recover: %v, %v", found, err)
	}
	must(t, os.Chmod(inbox, 0o700))
	if found, err := l.recover(t, note("n", `1`)); !found || err != nil {
		t.Errorf("Recover: %v, %v", found, err)
	}
	l.mustBeStaged(t)
}

// Other users cannot put files in the place of staged ones.
func TestDirStagingFolderOfOthers(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	staging := filepath.Join(root, transport.StagingFolder)
	must(t, os.Mkdir(staging, 0o700))
	must(t, os.Chmod(staging, 0o777)) // independent of the umask
	var l notebook
	a := l.attempt(root, note("m-1", `1`))
	if _, err := (transport.Dir{}).Check(root); err == nil || !strings.Contains(err.Error(), "chmod 700 "+staging) {
		t.Errorf("Check: %v", err)
	}
	if err := (transport.Dir{}).Deliver(t.Context(), a)[0]; err == nil ||
		!strings.Contains(err.Error(), "chmod 700 "+staging) {
		t.Errorf("Deliver: %v", err)
	}
	must(t, os.Chmod(staging, 0o700))
	must(t, errors.Join((transport.Dir{}).Deliver(t.Context(), a)...))
}
