package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Tags and flags of the client's build.
const (
	clientTags    = "client urfave_cli_no_docs"
	clientLDFlags = "-s -w"
)

// tags returns the build tags of the program.
func (p *program) tags() string {
	if p.client {
		return clientTags
	}
	return tags
}

// client builds the client for a system, such as darwin/arm64, into a folder, and returns the client and its archive.
// It starts the client only if the client is for this machine.
func client(ctx context.Context, folder, system string) (*program, file, error) {
	p := &program{client: true}
	var is bool
	if p.system, p.arch, is = strings.Cut(system, "/"); !is {
		return nil, file{}, fmt.Errorf("name a system and an architecture, such as darwin/arm64")
	}
	p.path = filepath.Join(folder, "mailroom")
	if p.system == "windows" {
		p.path += ".exe"
	}
	if _, err := p.goCommand(ctx, "build", "-p", "2", "-trimpath", "-buildvcs=true", "-tags", clientTags, "-ldflags", clientLDFlags,
		"-o", p.path, "./cmd/mailroom"); err != nil {
		return nil, file{}, err
	}
	if err := p.identify(ctx); err != nil {
		return nil, file{}, err
	}
	if p.system == runtime.GOOS && p.arch == runtime.GOARCH {
		if err := p.checkVersion(ctx); err != nil {
			return nil, file{}, err
		}
	}
	parts, err := p.parts(ctx)
	if err != nil {
		return nil, file{}, err
	}
	copyright, err := p.copyright(parts)
	if err != nil {
		return nil, file{}, err
	}
	changelog, err := os.ReadFile(filepath.Join(top, "CHANGELOG.md"))
	if err != nil {
		return nil, file{}, err
	}
	p.licences = []byte(copyright)
	made, err := p.pack([]file{{"COPYRIGHT", 0o644, p.licences}, {"CHANGELOG.md", 0o644, changelog}})
	return p, made, err
}
