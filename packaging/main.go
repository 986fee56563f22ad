// Command packaging builds what is given to users into a folder: for each architecture the static program in a .tar.gz
// and a .deb, its bill of materials in CycloneDX, for each system of a client that in a .tar.gz, and SHA256SUMS of all.
// `make dist` runs it:
//
//	cd packaging && go run . -out ../dist -clients "darwin/arm64 windows/amd64" amd64 arm64
//
// It needs Debian or what descends from it, since it asks dpkg which C library is linked. The version, the time and the
// modules come from the build information of the program itself, so the same commit and the same compilers make the
// same bytes.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	out := flag.String("out", filepath.Join(top, "dist"), "folder to write to")
	clients := flag.String("clients", "", "systems to build the client for, as Go calls them")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out, flag.Args(), strings.Fields(*clients), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

// top is the repository, from this module's folder.
const top = ".."

// run builds the packages of the architectures, and the clients, into a folder, and says so on stdout.
func run(ctx context.Context, out string, architectures, clients []string, stdout io.Writer) error {
	if len(architectures)+len(clients) == 0 {
		return errors.New("name the architectures, amd64 and arm64, or systems of clients")
	}
	scratch, err := os.MkdirTemp("", "mailroom-packaging-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var sums strings.Builder
	write := func(made []file) error {
		for _, f := range made {
			if err := os.WriteFile(filepath.Join(out, f.path), f.data, 0o644); err != nil {
				return err
			}
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(f.data), f.path)
			fmt.Fprintln(stdout, filepath.Join(out, f.path))
		}
		return nil
	}
	for _, arch := range architectures {
		p, err := build(ctx, filepath.Join(scratch, arch), arch, stdout)
		var made []file
		if err == nil {
			made, err = p.packages(ctx)
		}
		if err == nil {
			err = write(made)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
	}
	for _, system := range clients {
		made, err := client(ctx, filepath.Join(scratch, "client", system), system)
		if err == nil {
			err = write([]file{made})
		}
		if err != nil {
			return fmt.Errorf("the client for %s: %w", system, err)
		}
	}
	fmt.Fprintln(stdout, filepath.Join(out, "SHA256SUMS"))
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(sums.String()), 0o644)
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
