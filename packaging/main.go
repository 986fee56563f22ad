// Command packaging builds the files that users install, into a folder:
//
//   - for each Linux architecture, the static program in a .tar.gz, a .deb and an npm package, and its bill of
//     materials in CycloneDX
//   - for each system with a client, the client in a .tar.gz and an npm package
//   - the source with a Homebrew formula
//   - SHA256SUMS of all files
//   - with a key, the signature of SHA256SUMS, and an install.sh that verifies the signature
//
// `make dist` runs it:
//
//	cd packaging && go run . -out ../dist -clients "darwin/arm64 windows/amd64" amd64 arm64
//
// The command needs Debian or a distribution based on Debian, because it uses dpkg to find out which C library is
// linked. The version, the time and the modules come from the build information of the program, so that the same
// commit and the same compilers produce the same bytes.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	var o options
	flag.StringVar(&o.out, "out", filepath.Join(top, "dist"), "folder to write to")
	clients := flag.String("clients", "", "systems to build the client for, such as darwin/arm64")
	flag.StringVar(&o.url, "url", "", "base address of the published files; without an address, the formula and install.sh use the files next to them, and no npm package depends on another")
	flag.StringVar(&o.key, "key", "", "file with an OpenSSH private key that signs SHA256SUMS; without a key, install.sh is not written")
	flag.Parse()
	o.architectures, o.clients = flag.Args(), strings.Fields(*clients)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

// top is the path of the repository from this module's folder.
const top = ".."

// options configures what to build, and contains the URL of the published files.
type options struct {
	out, url, key          string
	architectures, clients []string
}

// run builds the packages of the architectures and of the clients into a folder, and prints their names.
func run(ctx context.Context, o options, stdout io.Writer) error {
	if len(o.architectures)+len(o.clients) == 0 {
		return errors.New("name an architecture (amd64 or arm64) or, with -clients, a system for the client")
	}
	scratch, err := os.MkdirTemp("", "mailroom-packaging-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"install.sh", "SHA256SUMS.sig"} { // of an earlier run with a key
		if err := os.Remove(filepath.Join(o.out, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	w := &writer{folder: o.out, stdout: stdout}
	var built []*program
	for _, arch := range o.architectures {
		p, err := build(ctx, filepath.Join(scratch, arch), arch, stdout)
		var made []file
		if err == nil {
			made, err = p.packages(ctx)
		}
		if err == nil {
			err = w.write(made...)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		built = append(built, p)
	}
	for _, system := range o.clients {
		p, made, err := client(ctx, filepath.Join(scratch, "client", system), system)
		if err == nil {
			err = w.write(made)
		}
		if err != nil {
			return fmt.Errorf("cannot build the client for %s: %w", system, err)
		}
		built = append(built, p)
	}
	for _, p := range built {
		if p.version != built[0].version {
			return fmt.Errorf("the sources changed during the build, from %s to %s: build again", built[0].version, p.version)
		}
	}
	made, err := npmPackages(built, o.url != "")
	if err == nil {
		err = w.write(made...)
	}
	if err == nil {
		made, err = built[0].source(ctx, o.url)
	}
	if err == nil {
		err = w.write(made...)
	}
	if err == nil && o.key != "" {
		err = w.sign(ctx, built[0].version, o)
	}
	if err != nil {
		return err
	}
	return w.put("SHA256SUMS", []byte(w.sums.String()))
}

// writer writes files into a folder and collects their checksums.
type writer struct {
	folder string
	stdout io.Writer
	sums   strings.Builder
}

func (w *writer) write(made ...file) error {
	for _, f := range made {
		if err := w.put(f.path, f.data); err != nil {
			return err
		}
		fmt.Fprintf(&w.sums, "%x  %s\n", sha256.Sum256(f.data), f.path)
	}
	return nil
}

// put writes a file without adding its checksum.
func (w *writer) put(name string, data []byte) error {
	path := filepath.Join(w.folder, name)
	fmt.Fprintln(w.stdout, path)
	return os.WriteFile(path, data, 0o644)
}

// packages returns the files that users download.
func (p *program) packages(ctx context.Context) ([]file, error) {
	parts, err := p.parts(ctx)
	if err != nil {
		return nil, err
	}
	texts, err := p.texts(ctx, parts)
	if err != nil {
		return nil, err
	}
	archive, err := p.tarball(texts)
	if err != nil {
		return nil, err
	}
	debian, err := p.deb(texts)
	if err != nil {
		return nil, err
	}
	materials, err := p.sbom(parts)
	if err != nil {
		return nil, err
	}
	return []file{archive, debian, materials}, nil
}
