package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// part is a third-party part of the program.
type part struct {
	name, version string
	purl          string   // package URL
	licence       string   // SPDX expression
	texts         []string // of its licence and notices
}

// parts returns all third-party parts that are linked into the program or embedded in it: Go, modules, SQLite, the C
// library, the npm packages of the apps, and an excerpt of Unicode's data. They are sorted by name and version.
func (p *program) parts(ctx context.Context) ([]part, error) {
	var list []part
	collectors := []func(context.Context) ([]part, error){p.modules, p.goItself, embedded, unicode}
	if !p.client {
		collectors = append(collectors, p.sqlite, p.libraries)
	}
	for _, collect := range collectors {
		some, err := collect(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	slices.SortFunc(list, func(a, b part) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.version, b.version))
	})
	return list, nil
}

// modules returns the Go modules in the build information, with the licences in the folders of the linked packages
// and in the folders above.
func (p *program) modules(ctx context.Context) (list []part, err error) {
	folders, err := p.folders(ctx)
	if err != nil {
		return nil, err
	}
	for _, dep := range p.info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		m := part{name: dep.Path, version: dep.Version, purl: purl("golang", dep.Path, dep.Version)}
		if m.licence, m.texts, err = readLicences(folders[dep.Path]); err != nil {
			return nil, fmt.Errorf("the module %s: %w", dep.Path, err)
		}
		list = append(list, m)
	}
	return list, nil
}

// folders returns, for each module, the folders that may contain licences of its linked packages.
func (p *program) folders(ctx context.Context) (map[string][]string, error) {
	out, err := p.goCommand(ctx, "list", "-deps", "-tags", p.tags(), "-json=Dir,Module", "./cmd/mailroom")
	if err != nil {
		return nil, err
	}
	folders := map[string][]string{}
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var pkg struct {
			Dir    string
			Module *struct{ Path, Dir string }
		}
		if err := d.Decode(&pkg); errors.Is(err, io.EOF) {
			return folders, nil
		} else if err != nil {
			return nil, err
		}
		if pkg.Module == nil {
			continue
		}
		of := pkg.Module.Path
		for dir := pkg.Dir; !slices.Contains(folders[of], dir); dir = filepath.Dir(dir) {
			folders[of] = append(folders[of], dir)
			if dir == pkg.Module.Dir {
				break
			}
		}
	}
}

func (p *program) goItself(ctx context.Context) ([]part, error) {
	root, err := p.goCommand(ctx, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	version := strings.TrimPrefix(p.info.GoVersion, "go")
	std := part{name: "Go's runtime and standard library", version: version, purl: purl("golang", "std", version)}
	if std.licence, std.texts, err = readLicences([]string{strings.TrimSpace(root)}); err != nil {
		return nil, fmt.Errorf("the license of Go: %w", err)
	}
	return []part{std}, nil
}

// sqlite returns the copy of SQLite in the module go-sqlite3.
func (p *program) sqlite(ctx context.Context) ([]part, error) {
	dir, err := p.goCommand(ctx, "list", "-tags", tags, "-f", "{{.Dir}}", "github.com/mattn/go-sqlite3")
	if err != nil {
		return nil, err
	}
	header, err := os.ReadFile(filepath.Join(strings.TrimSpace(dir), "sqlite3-binding.h"))
	if err != nil {
		return nil, err
	}
	version := regexp.MustCompile(`#define SQLITE_VERSION +"([0-9.]+)"`).FindSubmatch(header)
	blessing := regexp.MustCompile(`(?s)The author disclaims copyright.*?never taking more than you give\.`).Find(header)
	if version == nil || blessing == nil {
		return nil, errors.New("cannot find SQLite's version or notice in sqlite3-binding.h")
	}
	text := strings.ReplaceAll(string(blessing), "\n** ", "\n")
	return []part{{
		name: "SQLite", version: string(version[1]), purl: purl("generic", "sqlite", string(version[1])),
		licence: "blessing", texts: []string{strings.ReplaceAll(text, "\n**", "\n")},
	}}, nil
}

// libraries returns the static libraries that the C compiler adds, as packaged by Debian.
func (p *program) libraries(ctx context.Context) (list []part, err error) {
	for _, l := range []struct{ file, name, licence, text string }{
		{"libc.a", "GNU C Library", "LGPL-2.1-or-later", "LGPL-2.1"},
		{"libgcc.a", "GCC runtime library", "GPL-3.0-or-later WITH GCC-exception-3.1", "GPL-3"},
	} {
		file, err := output(exec.CommandContext(ctx, p.cc, "-print-file-name="+l.file))
		if err != nil {
			return nil, err
		}
		if file, err = filepath.EvalSymlinks(strings.TrimSpace(file)); err != nil {
			return nil, fmt.Errorf("%s has no %s: %w", p.cc, l.file, err)
		}
		owner, err := output(exec.CommandContext(ctx, "dpkg-query", "--search", file))
		if err != nil {
			return nil, err
		}
		owner, _, _ = strings.Cut(owner, ": ")
		name, _, _ := strings.Cut(owner, ":")
		version, err := output(exec.CommandContext(ctx, "dpkg-query", "--show", "--showformat", "${Version}", owner))
		if err != nil {
			return nil, err
		}
		lib := part{name: l.name + " (" + name + ")", version: version, purl: purl("deb", "debian/"+name, version),
			licence: l.licence}
		for _, text := range []string{"/usr/share/doc/" + name + "/copyright", "/usr/share/common-licenses/" + l.text} {
			content, err := os.ReadFile(text)
			if err != nil {
				return nil, err
			}
			lib.texts = append(lib.texts, string(content))
		}
		list = append(list, lib)
	}
	return list, nil
}

// apps lists the apps in the program that npm packages are part of, by their folders in commands/surface.
var apps = []string{"phone", "console"}

// embedded returns the npm packages in the apps, each once, with the copies of their licences in licences/.
func embedded(context.Context) ([]part, error) {
	byPURL := map[string]part{}
	for _, app := range apps {
		list, err := packagesOf(app)
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			byPURL[m.purl] = m
		}
	}
	return slices.Collect(maps.Values(byPURL)), nil
}

// packagesOf returns the npm packages in one app, according to its lock file.
func packagesOf(app string) (list []part, err error) {
	content, err := os.ReadFile(filepath.Join(top, "commands", "surface", app, "app", "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version string
			Dev     bool
		}
	}
	if err := json.Unmarshal(content, &lock); err != nil {
		return nil, err
	}
	for path, pkg := range lock.Packages {
		i := strings.LastIndex(path, "node_modules/")
		if pkg.Dev || i < 0 {
			continue
		}
		name := path[i+len("node_modules/"):]
		m := part{name: name, version: pkg.Version,
			purl: purl("npm", strings.Replace(name, "@", "%40", 1), pkg.Version)}
		text, err := os.ReadFile(filepath.Join("licences", npmFile(name)))
		if err != nil {
			return nil, fmt.Errorf("the license of the npm package %s is missing; copy it to packaging/licences: %w", name, err)
		}
		if m.licence, m.texts = spdx(string(text)), []string{string(text)}; m.licence == "" {
			return nil, fmt.Errorf("the license of the npm package %s is not known", name)
		}
		list = append(list, m)
	}
	return list, nil
}

// npmFile returns the name of the file in licences/ for an npm package.
func npmFile(name string) string {
	return strings.ReplaceAll(strings.TrimPrefix(name, "@"), "/", "-") + ".txt"
}

// unicode returns the excerpt of Unicode's confusables.txt, version 10, in orchestrator/confusables.
func unicode(context.Context) ([]part, error) {
	text, err := os.ReadFile(filepath.Join("licences", "unicode.txt"))
	return []part{{
		name: "Unicode confusables.txt (excerpt)", version: "10.0.0",
		purl:    purl("generic", "unicode-confusables", "10.0.0"),
		licence: "Unicode-DFS-2016", texts: []string{string(bytes.TrimSpace(text))},
	}}, err
}

func purl(kind, name, version string) string {
	return "pkg:" + kind + "/" + name + "@" + url.QueryEscape(version)
}
