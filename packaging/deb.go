package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

const (
	maintainer  = "Mailroom authors <mailroom@localhost>"
	description = `passes messages between AI agents on one machine
Mailroom is a message router for AI agents. Agents send messages from the shell,
over MCP, or over HTTP. Mailroom stores the messages in SQLite, delivers them to
each recipient, retries failed deliveries, and keeps a trace of every step.`
)

// deb returns the Debian package. It has no scripts: each user can enable the included systemd unit, and purging the
// package leaves nothing.
func (p *program) deb(t *texts) (file, error) {
	man, err := gzipped(t.man)
	if err != nil {
		return file{}, err
	}
	changelog, err := gzipped(t.changelog)
	if err != nil {
		return file{}, err
	}
	info := &nfpm.Info{
		Name: "mailroom", Arch: p.arch, Version: debianVersion(p.version), VersionSchema: "none", Section: "utils",
		Maintainer: maintainer, Description: description, MTime: p.at,
		// Take the names of the files literally.
		DisableGlobbing: true,
	}
	info.Recommends = []string{"ca-certificates"} // webhooks and phones are reached over HTTPS
	info.Contents = files.Contents{content(p.path, "/usr/bin/mailroom", 0o755)}
	folder := filepath.Dir(p.path)
	for i, f := range []file{
		{"/usr/lib/systemd/user/mailroom.service", 0o644, t.unit},
		{"/usr/share/man/man1/mailroom.1.gz", 0o644, man},
		{"/usr/share/bash-completion/completions/mailroom", 0o644, t.bash},
		{"/usr/share/zsh/vendor-completions/_mailroom", 0o644, t.zsh},
		{"/usr/share/fish/vendor_completions.d/mailroom.fish", 0o644, t.fish},
		{"/usr/share/doc/mailroom/copyright", 0o644, t.copyright},
		{"/usr/share/doc/mailroom/CHANGELOG.md.gz", 0o644, changelog},
	} {
		from := filepath.Join(folder, strconv.Itoa(i))
		if err := os.WriteFile(from, f.data, 0o644); err != nil {
			return file{}, err
		}
		info.Contents = append(info.Contents, content(from, f.path, os.FileMode(f.mode)))
	}
	info = nfpm.WithDefaults(info)
	var b bytes.Buffer
	if err := deb.Default.Package(info, &b); err != nil {
		return file{}, err
	}
	return file{path: deb.Default.ConventionalFileName(info), data: b.Bytes()}, nil
}

// debianVersion converts a Go version for Debian. It replaces the first hyphen by a tilde and the others by dots, as
// in 1.2.0-rc.1 or 1.2.1-0.20261125231859-842a8a88459d. As a result, Debian also sorts these versions before 1.2.0 or
// 1.2.1, and finds no revision in them.
func debianVersion(version string) string {
	release, before, is := strings.Cut(version, "-")
	if !is {
		return version
	}
	return release + "~" + strings.ReplaceAll(before, "-", ".")
}

// content returns an entry for a file of this machine. Its owner and mode are explicit, so that those on this machine
// do not matter.
func content(from, to string, mode os.FileMode) *files.Content {
	return &files.Content{Source: from, Destination: to,
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode}}
}
