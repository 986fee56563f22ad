//go:build dist

package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// These tests create new Debian systems and take minutes: make test-dist.

// debian returns the folder of a minimal Debian system, of this machine's release and from the package source of its
// apt, with the named packages and a user ada.
func debian(t *testing.T, with ...string) string {
	t.Helper()
	need(t, "debootstrap", "apt-get")
	root := filepath.Join(t.TempDir(), "root")
	where := strings.Fields(command(t, "apt-get", "indextargets", "--format", "$(RELEASE) $(SITE)",
		"Created-By: Packages", "Origin: Debian", "Component: main"))
	if len(where) < 2 {
		t.Fatal("apt knows no archive of Debian")
	}
	args := []string{"--variant=minbase"}
	if len(with) > 0 {
		args = append(args, "--include="+strings.Join(with, ","))
	}
	command(t, "debootstrap", append(args, where[0], root, where[1])...)
	// Programs in the system use the network like this machine.
	for _, file := range []string{"/etc/resolv.conf", "/etc/hosts"} {
		if err := os.WriteFile(root+file, []byte(read(t, file)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	inside(t, root, "root", "useradd --create-home --shell /bin/bash ada")
	return root
}

// in returns a command that runs a script in a root, as one of its users and in that user's home. The command has its
// own /proc.
func in(t *testing.T, ctx context.Context, root, user, script string) *exec.Cmd {
	home := "/home/" + user
	if user == "root" {
		home = "/root"
	}
	return exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c", `mount -t proc proc "$2/proc"; exec chroot "$@"`,
		"sh",
		"--userspec="+user+":"+user, root, "/usr/bin/env", "-i", "HOME="+home, "USER="+user,
		"PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
		"DEBIAN_FRONTEND=noninteractive",
		"GOPROXY="+modules, "bash", "-euo", "pipefail", "-c", "cd; "+script)
}

// inside runs a script in a root and returns its output.
func inside(t *testing.T, root, user, script string) string {
	t.Helper()
	said, err := in(t, t.Context(), root, user, script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, said)
	}
	return string(said)
}

// modules is the URL where Go finds modules in a root, so that it needs neither a network nor this machine's settings
// for one.
const modules = "file:///usr/local/modules"

// withGo copies this machine's Go, its modules and the committed repository into a root.
func withGo(t *testing.T, root string) {
	t.Helper()
	command(t, "cp", "-r", strings.TrimSpace(command(t, "go", "env", "GOROOT")),
		filepath.Join(root, "usr", "local", "go"))
	command(t, "cp", "-r", filepath.Join(strings.TrimSpace(command(t, "go", "env", "GOMODCACHE")), "cache", "download"),
		filepath.Join(root, "usr", "local", "modules"))
	clone := filepath.Join(root, "home", "ada", "mailroom")
	command(t, "git", "clone", "--quiet", "file://"+absolute(t, top), clone)
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// everything returns all files in a root, each with its mode, its owner and a digest of its content.
func everything(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, root)
		owner := info.Sys().(*syscall.Stat_t)
		found[name] = fmt.Sprint(info.Mode(), owner.Uid, owner.Gid)
		if info.Mode().IsRegular() {
			found[name] += fmt.Sprintf(" %x", sha256.Sum256([]byte(read(t, path))))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestDistInstalled installs the .deb in a new Debian system. ada follows the quick start and runs the daemon as the
// unit does. Then the package is purged, and nothing of it remains except her database.
func TestDistInstalled(t *testing.T) {
	out, root := t.TempDir(), debian(t)
	if err := run(t.Context(), options{out: out, architectures: []string{runtime.GOARCH}}, os.Stderr); err != nil {
		t.Fatal(err)
	}
	before := everything(t, root)
	command(t, "cp", only(t, out, "*.deb"), filepath.Join(root, "mailroom.deb"))
	inside(t, root, "root", "dpkg --install /mailroom.deb; rm /mailroom.deb")

	t.Run("quick start", func(t *testing.T) {
		said := inside(t, root, "ada", `mkdir project; cd project
			mailroom init; mailroom agent add bob; mailroom send bob tests are green
			mailroom inbox bob --json; mailroom read bob --text; mailroom show last --text; mailroom list --since 1h --text; mailroom doctor`)
		if !strings.Contains(said, "tests are green") {
			t.Errorf("bob was told nothing: %s", said)
		}
	})
	t.Run("unit", func(t *testing.T) {
		var start string
		for line := range strings.Lines(read(t, filepath.Join(root, "usr/lib/systemd/user/mailroom.service"))) {
			if words, is := strings.CutPrefix(line, "ExecStart="); is {
				start = strings.TrimSpace(words)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		daemon := in(t, ctx, root, "ada", "exec "+start)
		daemon.Cancel = func() error { return daemon.Process.Signal(syscall.SIGTERM) }
		log, err := daemon.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := daemon.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(log)
		for lines.Scan() && !strings.Contains(lines.Text(), `"msg":"serving"`) {
		}
		// The daemon delivers by itself: no command reads messages or runs deliver_all.
		said := inside(t, root, "ada",
			`mailroom agent add carol --deliver jsonl:$HOME/carol.jsonl; mailroom send carol hello
			(timeout 60 tail --retry --follow --lines +1 carol.jsonl 2>/dev/null || true) | head -1; mailroom status --json`)
		if !strings.Contains(said, "hello") || !strings.Contains(said, `"pid":`+fmt.Sprint(daemon.Process.Pid)) {
			t.Errorf("the daemon has not delivered: %s", said)
		}
		stop()
		for lines.Scan() {
		}
		if err := daemon.Wait(); daemon.ProcessState.ExitCode() != 0 {
			t.Errorf("the daemon ended with %v", err)
		}
	})
	t.Run("purge", func(t *testing.T) {
		inside(t, root, "root", "dpkg --purge mailroom")
		after := everything(t, root)
		var left []string
		for _, name := range slices.Sorted(maps.Keys(after)) {
			if after[name] != before[name] && !strings.HasPrefix(name, "/home/ada/") &&
				!strings.HasPrefix(name, "/var/lib/dpkg/") && name != "/var/log/dpkg.log" {
				left = append(left, name)
			}
		}
		for name := range before {
			if _, there := after[name]; !there && !strings.HasPrefix(name, "/var/lib/dpkg/") {
				left = append(left, name+" (gone)")
			}
		}
		if len(left) > 0 {
			t.Errorf("it left behind %q", left)
		}
		for _, database := range []string{"/home/ada/project/.mailroom/mailroom.db",
			"/home/ada/.local/state/mailroom/mailroom.db"} {
			if after[database] == "" {
				t.Errorf("ada's %s is gone", database)
			}
		}
		if said := inside(t, root, "root", "dpkg --list mailroom 2>&1 || true"); strings.Contains(said, "\nrc") ||
			strings.Contains(said, "\nii") {
			t.Errorf("dpkg still knows it: %s", said)
		}
	})
}

// TestDistReproducible builds the same commit in two places, the second one without a build cache, and checks that
// the results are equal.
func TestDistReproducible(t *testing.T) {
	clones := []string{filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "some", "where", "else")}
	command(t, "git", "clone", "--quiet", "file://"+absolute(t, top), clones[0])
	command(t, "git", "clone", "--quiet", clones[0], clones[1])
	first, second := t.TempDir(), t.TempDir()
	for i, out := range []string{first, second} {
		cmd := exec.CommandContext(t.Context(), "go", "run", ".", "-out", out, runtime.GOARCH)
		cmd.Dir = filepath.Join(clones[i], "packaging")
		if i == 1 {
			cmd.Env = append(os.Environ(), "GOCACHE="+t.TempDir())
		}
		if _, err := output(cmd); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := read(t, filepath.Join(first, "SHA256SUMS")), read(t, filepath.Join(second, "SHA256SUMS")); a != b {
		t.Errorf("the same commit became\n%sand\n%s", a, b)
	}
}

// TestDistVersion checks that a tag becomes the version, and that an invalid tag stops the build.
func TestDistVersion(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "clone")
	command(t, "git", "clone", "--quiet", "file://"+absolute(t, top), clone)
	tagged := func(tag string) (string, error) {
		command(t, "git", "-C", clone, "tag", tag)
		defer command(t, "git", "-C", clone, "tag", "--delete", tag)
		out := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "go", "run", ".", "-out", out, runtime.GOARCH)
		cmd.Dir = filepath.Join(clone, "packaging")
		_, err := output(cmd)
		return out, err
	}
	out, err := tagged("v1.2.3-rc.1")
	if err != nil {
		t.Fatal(err)
	}
	only(t, out, "mailroom_1.2.3-rc.1_linux_*.tar.gz")
	only(t, out, "mailroom_1.2.3~rc.1_*.deb")
	if _, err := tagged("v2.0.0"); err == nil || !strings.Contains(err.Error(), "v2.0.0") {
		t.Errorf("v2.0.0 became a version of this module, or for another reason not: %v", err)
	}
}

// TestDistBare checks that the first commands of the README work in a Debian system with only Go, and for a user
// other than root where there is a C compiler.
func TestDistBare(t *testing.T) {
	root := debian(t)
	withGo(t, root)
	said, err := in(t, t.Context(), root, "root", "cd /home/ada/mailroom; go run ./cmd/mailroom demo").CombinedOutput()
	if err == nil || !strings.Contains(string(said), "A_C_compiler_is_missing") {
		t.Errorf("without a C compiler Go says (%v): %s", err, said)
	}
	inside(t, root, "root", "apt-get update -q; apt-get install -qy --no-install-recommends make")
	text := inside(t, root, "root", "cd /home/ada/mailroom; make demo")
	if !strings.Contains(text, "Compiling SQLite") || !strings.Contains(text, "dead") {
		t.Errorf("make demo says %s", text)
	}
	for _, name := range []string{"strace", "npm", "chromium", "git"} {
		if said := inside(t, root, "root", "command -v "+name+" || true"); said != "" {
			t.Errorf("make demo has installed %s", name)
		}
	}
	if text := inside(t, root, "root",
		"cd /home/ada/mailroom; make build; ldd bin/mailroom 2>&1 || true"); strings.Contains(text,
		"Compiling SQLite") || !strings.Contains(text, "not a dynamic executable") {
		t.Errorf("make build says %s", text)
	}
	inside(t, root, "root", "chown -R ada:ada /home/ada/mailroom; rm -r /home/ada/mailroom/bin")
	if text := inside(t, root, "ada",
		"cd mailroom; go run ./cmd/mailroom demo; make tools clients browsers database 2>&1"); !strings.Contains(text,
		"strace is missing") {
		t.Errorf("make says %s", text)
	}
	said, err = in(t, t.Context(), root, "ada", "cd mailroom; make dist").CombinedOutput()
	if err == nil || !strings.Contains(string(said), "missing to build packages: git") ||
		strings.Contains(string(said), "packaging:") {
		t.Errorf("make dist says (%v): %s", err, said)
	}
}

// TestDistImage builds the Dockerfile as far as possible without a daemon and a registry: with buildah, and with a
// Debian system that has Go in place of the build image.
func TestDistImage(t *testing.T) {
	need(t, "buildah")
	root := debian(t, "ca-certificates", "make", "git", "gcc", "libc6-dev")
	withGo(t, root)
	clone := filepath.Join(root, "home", "ada", "mailroom")
	store := t.TempDir()
	buildah := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(command(t, "buildah",
			append([]string{"--storage-driver", "vfs", "--root", filepath.Join(store, "root"), "--runroot",
				filepath.Join(store, "run")}, args...)...))
	}
	var from string
	for line := range strings.Lines(read(t, filepath.Join(top, "Dockerfile"))) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == "FROM" {
			from = f[1]
		}
	}
	base := buildah("from", "scratch")
	buildah("copy", "--quiet", base, root, "/")
	buildah("config", "--env", "PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"--env", "GOPROXY="+modules, base)
	buildah("commit", "--quiet", "--rm", base, from)
	buildah("build", "--quiet", "--isolation", "chroot", "--pull-never", "--tag", "mailroom", clone)
	var image struct {
		OCIv1 struct {
			Config struct {
				User                 string
				Entrypoint, Cmd, Env []string
			}
		}
	}
	if err := json.Unmarshal([]byte(buildah("inspect", "--type", "image", "mailroom")), &image); err != nil {
		t.Fatal(err)
	}
	config := image.OCIv1.Config
	if config.User != "1000:1000" ||
		!slices.Equal(append(config.Entrypoint, config.Cmd...), []string{"/usr/bin/mailroom", "serve"}) ||
		!slices.Contains(config.Env, "MAILROOM_DB=/data/mailroom.db") {
		t.Errorf("the image is configured as %+v", config)
	}
	box := buildah("from", "--pull-never", "mailroom")
	files := buildah("mount", box)
	for file, owner := range map[string]uint32{"usr/bin/mailroom": 0, "etc/ssl/certs/ca-certificates.crt": 0, "usr": 0,
		"data": 1000} {
		info, err := os.Stat(filepath.Join(files, file))
		if err != nil {
			t.Fatal(err)
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != owner {
			t.Errorf("%s belongs to user %d; want %d", file, uid, owner)
		}
	}
	data := t.TempDir()
	if err := os.Chown(data, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	inBox := func(args ...string) string {
		t.Helper()
		return buildah(append([]string{"run", "--isolation", "chroot", "--volume", data + ":/data", box, "--"},
			args...)...)
	}
	if said := inBox("/usr/bin/mailroom", "demo"); !strings.Contains(said, "dead") {
		t.Errorf("the demo says %s", said)
	}
	inBox("/usr/bin/mailroom", "--db", "/data/mailroom.db", "init")
	inBox("/usr/bin/mailroom", "agent", "add", "bob")
	inBox("/usr/bin/mailroom", "send", "bob", "hello")
	if said := inBox("/usr/bin/mailroom", "inbox", "bob"); !strings.Contains(said, "hello") {
		t.Errorf("bob's inbox has %s", said)
	}
}
