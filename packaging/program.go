package main

import (
	"context"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Tags and flags of the program's build. The Makefile builds bin/mailroom in the same way where a C library can be
// linked statically.
const (
	tags    = "urfave_cli_no_docs sqlite_omit_load_extension netgo osusergo"
	ldflags = "-s -w -linkmode external -extldflags -static"
)

// machine holds the names that other programs use for an architecture of Go.
type machine struct {
	gnu string // the prefix of the compiler's name
	elf elf.Machine
	// emu is the emulator that runs programs for this architecture on another one. Debian also has it with the suffix
	// -static.
	emu string
}

var machines = map[string]machine{
	"amd64": {"x86_64-linux-gnu", elf.EM_X86_64, "qemu-x86_64"},
	"arm64": {"aarch64-linux-gnu", elf.EM_AARCH64, "qemu-aarch64"},
}

// program is a build of Mailroom for one architecture.
type program struct {
	path    string
	client  bool   // without SQLite and cgo
	system  string // Go's name
	arch    string // Go's and Debian's name
	cc      string // the C compiler
	info    *buildinfo.BuildInfo
	version string // without the v
	at      time.Time

	licences []byte // of the program and its parts
}

// build builds the program for an architecture into a folder, and starts the program once.
func build(ctx context.Context, folder, arch string, stdout io.Writer) (*program, error) {
	m, known := machines[arch]
	if !known {
		return nil, errors.New("unknown architecture; use amd64 or arm64")
	}
	p := &program{path: filepath.Join(folder, "mailroom"), system: "linux", arch: arch, cc: m.gnu + "-gcc"}
	if arch == runtime.GOARCH {
		p.cc = "gcc" // the name that `make build` uses, so that the build cache has SQLite
	}
	fmt.Fprintf(stdout, "Building Mailroom for %s. SQLite is compiled the first time, which takes a minute or two.\n",
		arch)
	// Flags of the user would change the bytes.
	if _, err := p.goCommand(ctx, "build", "-p", "2", "-trimpath", "-buildvcs=true", "-tags", tags, "-ldflags", ldflags,
		"-o", p.path, "./cmd/mailroom"); err != nil {
		return nil, err
	}
	if err := p.static(m.elf); err != nil {
		return nil, err
	}
	if err := p.identify(ctx); err != nil {
		return nil, err
	}
	return p, p.checkVersion(ctx)
}

// identify reads the version and the time of the commit from the build information of the program.
func (p *program) identify(ctx context.Context) (err error) {
	if p.info, err = buildinfo.ReadFile(p.path); err != nil {
		return err
	}
	if p.at, err = time.Parse(time.RFC3339, p.setting("vcs.time")); err != nil {
		return errors.New("cannot determine the version because the commit is not known; build in a git clone, with git installed")
	}
	p.version = strings.TrimPrefix(p.info.Main.Version, "v")
	return p.isTagged(ctx)
}

// checkVersion starts the program with --version and compares the output with the build information.
func (p *program) checkVersion(ctx context.Context) error {
	said, err := p.run(ctx, "--version")
	if want := "mailroom version " + p.info.Main.Version + "\n"; err == nil && said != want {
		err = fmt.Errorf("the program prints %q, but its build information requires %q", said, want)
	}
	return err
}

// isTagged checks that a tag of the commit became the version. Go ignores tags that the module's path does not allow:
// from v2 on, the path must end in /v2.
func (p *program) isTagged(ctx context.Context) error {
	if p.setting("vcs.modified") == "true" {
		return nil
	}
	tag, err := output(exec.CommandContext(ctx, "git", "-C", top, "describe", "--tags", "--exact-match", "--match",
		"v[0-9]*"))
	if err != nil {
		return nil // without a tag, Go derives the version from the last tag, the time and the commit
	}
	if tag = strings.TrimSpace(tag); tag != p.info.Main.Version {
		return fmt.Errorf("the tag %s is not a valid version of the module %s; Go turned it into %s. From v2 on, the module's path must end in the major version",
			tag, p.info.Main.Path, p.info.Main.Version)
	}
	return nil
}

// static checks that the program needs no shared library.
func (p *program) static(want elf.Machine) error {
	f, err := elf.Open(p.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Machine != want {
		return fmt.Errorf("the program was built for %s", f.Machine)
	}
	for _, part := range f.Progs {
		if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
			return errors.New("the program is not linked statically")
		}
	}
	return nil
}

func (p *program) setting(key string) string {
	for _, s := range p.info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// goCommand runs the go command in the repository, for the program's system and architecture.
func (p *program) goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = top
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS="+p.system, "GOARCH="+p.arch, "CC="+p.cc, "GOFLAGS=", "GOWORK=off")
	if p.client {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	}
	return output(cmd)
}

// run runs the program, in an emulator if the program is for another architecture, and returns its output.
func (p *program) run(ctx context.Context, args ...string) (string, error) {
	name := p.path
	if p.arch != runtime.GOARCH {
		name = machines[p.arch].emu
		if _, err := exec.LookPath(name); err != nil {
			name += "-static"
		}
		args = append([]string{p.path}, args...)
	}
	return output(exec.CommandContext(ctx, name, args...))
}

// output returns the standard output of a command. The error contains the standard error.
func output(cmd *exec.Cmd) (string, error) {
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(said.String()))
	}
	return string(out), err
}
