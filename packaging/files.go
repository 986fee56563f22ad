package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"mailroom/commands/admin/operations"
)

// file is a file of a package.
type file struct {
	path string
	mode int64
	data []byte
}

// texts holds the texts that accompany the program.
type texts struct{ copyright, changelog, man, bash, zsh, fish, unit []byte }

// texts gets the man page and the completions from the program, and collects the other texts.
func (p *program) texts(ctx context.Context, parts []part) (*texts, error) {
	var t texts
	for _, ask := range []struct {
		to    *[]byte
		words []string
	}{
		{&t.man, []string{"man"}},
		{&t.bash, []string{"completion", "bash"}},
		{&t.zsh, []string{"completion", "zsh"}},
		{&t.fish, []string{"completion", "fish"}},
	} {
		said, err := p.run(ctx, ask.words...)
		if err != nil {
			return nil, err
		}
		*ask.to = []byte(said)
	}
	copyright, err := p.copyright(parts)
	if err != nil {
		return nil, err
	}
	t.copyright = []byte(copyright)
	p.licences = t.copyright
	// This unit is the one of `mailroom service install`, but without --db: it uses the database of the user whose
	// systemd runs it.
	t.unit = []byte(operations.ServiceUnit("From Mailroom's package. For the database of a project, run `mailroom service install --name NAME`", "mailroom.service", "for the user",
		[]string{"/usr/bin/mailroom", "serve", "--log-level", "info"}))
	t.changelog, err = os.ReadFile(filepath.Join(top, "CHANGELOG.md"))
	return &t, err
}

// name returns the prefix of file names for this version, system and architecture.
func (p *program) name() string {
	name := "mailroom"
	if p.client {
		name = "mailroom-client"
	}
	return name + "_" + p.version + "_" + p.system + "_" + p.arch
}

// tarball returns an archive of a folder with the program and its texts, for all distributions.
func (p *program) tarball(t *texts) (file, error) {
	others, err := pages()
	if err != nil {
		return file{}, err
	}
	return p.pack(append(others,
		file{"COPYRIGHT", 0o644, t.copyright},
		file{"CHANGELOG.md", 0o644, t.changelog},
		file{"mailroom.1", 0o644, t.man},
		file{"completions/mailroom.bash", 0o644, t.bash},
		file{"completions/_mailroom", 0o644, t.zsh},
		file{"completions/mailroom.fish", 0o644, t.fish}))
}

// pages returns README.md and the pages of docs/, without pictures.
func pages() (list []file, err error) {
	here := os.DirFS(top)
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/hosts/*.md"} {
		names, err := fs.Glob(here, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := fs.ReadFile(here, name)
			if err != nil {
				return nil, err
			}
			list = append(list, file{name, 0o644, text})
		}
	}
	return list, nil
}

// pack returns an archive of a folder with the program and other files.
func (p *program) pack(others []file) (file, error) {
	content, err := os.ReadFile(p.path)
	if err != nil {
		return file{}, err
	}
	data, err := archive(p.name(), p.at, append([]file{{filepath.Base(p.path), 0o755, content}}, others...))
	return file{path: p.name() + ".tar.gz", data: data}, err
}

// archive returns a .tar.gz of a folder with files. All files have the same time.
func archive(folder string, at time.Time, files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		header := &tar.Header{Name: path.Join(folder, f.path), Mode: f.mode, Size: int64(len(f.data)), ModTime: at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return gzipped(b.Bytes())
}

// gzipped compresses data, and records neither a name nor a time.
func gzipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // an error would mean that the level does not exist
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}
