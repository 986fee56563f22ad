package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// TestMain makes git, and Go, which gets the commit from git, accept the clone as safe, because its owner may be a
// different user.
func TestMain(m *testing.M) {
	for key, value := range map[string]string{"COUNT": "1", "KEY_0": "safe.directory", "VALUE_0": "*"} {
		os.Setenv("GIT_CONFIG_"+key, value)
	}
	os.Exit(m.Run())
}

// need skips a test if a program is missing. In CI, a missing program is an error.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skipf("NOT TESTED: %v", err)
		}
	}
}

// command runs a program and returns its output.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := output(exec.CommandContext(t.Context(), name, args...))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// only returns the only file of a folder that matches a pattern.
func only(t *testing.T, folder, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d files are called %s in %s: %v", len(found), pattern, folder, err)
	}
	return found[0]
}

// TestPackages builds the packages of `make dist`, for this machine's architecture.
func TestPackages(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(filepath.Join(top, ".git")); err != nil {
		t.Skip("NOT TESTED: this is no git clone, from which alone packages are built")
	}
	need(t, "git", "gcc", "dpkg-deb", "dpkg-query")
	out, arch, key := t.TempDir(), runtime.GOARCH, newKey(t)
	var said strings.Builder
	if err := run(t.Context(), options{out: out, key: key, architectures: []string{arch}, clients: []string{"linux/" + arch, "windows/" + arch}}, &said); err != nil {
		t.Fatal(err)
	}
	archive, debian, materials := only(t, out, "mailroom_*_linux_"+arch+".tar.gz"), only(t, out, "*.deb"),
		only(t, out, "*.cdx.json")
	clients := []string{only(t, out, "mailroom-client_*_linux_"+arch+".tar.gz"), only(t, out, "mailroom-client_*_windows_"+arch+".tar.gz")}
	root := t.TempDir()
	command(t, "dpkg-deb", "--extract", debian, root)
	program := filepath.Join(root, "usr", "bin", "mailroom")
	version, is := strings.CutPrefix(strings.TrimSpace(command(t, program, "--version")), "mailroom version v")
	if !is || filepath.Base(archive) != "mailroom_"+version+"_linux_"+arch+".tar.gz" {
		t.Errorf("the program of %s says that its version is %q", archive, version)
	}
	copyright := read(t, filepath.Join(root, "usr/share/doc/mailroom/copyright"))

	t.Run("sums", func(t *testing.T) { // in the format of `sha256sum -c`
		want := map[string]bool{"SHA256SUMS": true, "SHA256SUMS.sig": true}
		for line := range strings.Lines(read(t, filepath.Join(out, "SHA256SUMS"))) {
			sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
			if got := fmt.Sprintf("%x", sha256.Sum256([]byte(read(t, filepath.Join(out, name))))); got != sum || want[name] {
				t.Errorf("%q: the file has %s", line, got)
			}
			want[name] = true
		}
		entries, err := os.ReadDir(out)
		if err != nil || len(entries) != len(want) {
			t.Errorf("%d files, and sums of %d: %v", len(entries), len(want), err)
		}
	})
	t.Run("npm", func(t *testing.T) { testNPM(t, out, program, version) })
	t.Run("homebrew", func(t *testing.T) { testFormula(t, out, version) })
	t.Run("install.sh", func(t *testing.T) { testInstaller(t, out, key, version) })
	t.Run("deb", func(t *testing.T) {
		for field, want := range map[string]string{"Package": "mailroom", "Version": debianVersion(version),
			"Architecture": arch, "Depends": "", "Recommends": "ca-certificates"} {
			if got := strings.TrimSpace(command(t, "dpkg-deb", "--field", debian, field)); got != want {
				t.Errorf("%s is %q, want %q", field, got, want)
			}
		}
		var got []string
		for line := range strings.Lines(command(t, "dpkg-deb", "--contents", debian)) {
			if f := strings.Fields(line); !strings.HasPrefix(f[0], "d") {
				got = append(got, f[0]+" "+f[1]+" "+f[5])
			}
		}
		want := []string{
			"-rwxr-xr-x root/root ./usr/bin/mailroom",
			"-rw-r--r-- root/root ./usr/lib/systemd/user/mailroom.service",
			"-rw-r--r-- root/root ./usr/share/bash-completion/completions/mailroom",
			"-rw-r--r-- root/root ./usr/share/doc/mailroom/CHANGELOG.md.gz",
			"-rw-r--r-- root/root ./usr/share/doc/mailroom/copyright",
			"-rw-r--r-- root/root ./usr/share/fish/vendor_completions.d/mailroom.fish",
			"-rw-r--r-- root/root ./usr/share/man/man1/mailroom.1.gz",
			"-rw-r--r-- root/root ./usr/share/zsh/vendor-completions/_mailroom",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
	t.Run("tarball", func(t *testing.T) {
		unpacked := t.TempDir()
		command(t, "tar", "-xzf", archive, "-C", unpacked, "--strip-components", "1")
		for file, same := range map[string]string{
			"mailroom": program, "COPYRIGHT": filepath.Join(root, "usr/share/doc/mailroom/copyright"),
			"CHANGELOG.md":              filepath.Join(top, "CHANGELOG.md"),
			"README.md":                 filepath.Join(top, "README.md"),
			"docs/hosts/claude.md":      filepath.Join(top, "docs/hosts/claude.md"),
			"completions/mailroom.bash": filepath.Join(root, "usr/share/bash-completion/completions/mailroom"),
			"completions/_mailroom":     filepath.Join(root, "usr/share/zsh/vendor-completions/_mailroom"),
			"completions/mailroom.fish": filepath.Join(root, "usr/share/fish/vendor_completions.d/mailroom.fish"),
		} {
			if read(t, filepath.Join(unpacked, file)) != read(t, same) {
				t.Errorf("%s is not %s", file, same)
			}
		}
		if man := read(t, filepath.Join(unpacked, "mailroom.1")); !strings.HasPrefix(man, ".TH MAILROOM 1") {
			t.Errorf("the man page starts with %.60q", man)
		}
	})
	t.Run("clients", func(t *testing.T) {
		unpacked := t.TempDir()
		for _, archive := range clients {
			command(t, "tar", "-xzf", archive, "-C", unpacked, "--strip-components", "1")
			if text := read(t, filepath.Join(unpacked, "COPYRIGHT")); strings.Contains(text, "SQLite") || !strings.Contains(text, "jackc/pgx") {
				t.Errorf("%s says of its parts: %.1000s", archive, text)
			}
		}
		if got, want := command(t, filepath.Join(unpacked, "mailroom"), "--version"), command(t, program, "--version"); got != want {
			t.Errorf("the client says that it is %q, and the program %q", got, want)
		}
		if text := read(t, filepath.Join(unpacked, "mailroom.exe")); !strings.HasPrefix(text, "MZ") {
			t.Errorf("the client for Windows begins with %.10q", text)
		}
	})
	t.Run("unit", func(t *testing.T) {
		// `service install` would find the program in the place where the package puts it.
		home := t.TempDir()
		printing := exec.CommandContext(t.Context(), program, "service", "install", "--print", "--output", "text",
			"--db", filepath.Join(home, "mailroom.db"))
		printing.Env = append(os.Environ(), "HOME="+home)
		written, err := output(printing)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(withoutPreamble(t, written), program+" serve --db "+filepath.Join(home, "mailroom.db"),
			"/usr/bin/mailroom serve", 1)
		if got := withoutPreamble(t,
			read(t, filepath.Join(root, "usr/lib/systemd/user/mailroom.service"))); got != want {
			t.Errorf("the unit of the package is\n%s\nservice install would write\n%s", got, want)
		}
	})
	t.Run("completion", func(t *testing.T) {
		script := `source "$1"; COMP_WORDS=(mailroom servi); COMP_CWORD=1; _mailroom; echo "${COMPREPLY[@]}"`
		cmd := exec.CommandContext(t.Context(), "bash", "-c", script, "bash",
			filepath.Join(root, "usr/share/bash-completion/completions/mailroom"))
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
		if got, err := output(cmd); err != nil || strings.TrimSpace(got) != "service" {
			t.Errorf("bash completes servi to %q (%v)", got, err)
		}
	})
	t.Run("materials", func(t *testing.T) { // the modules of `go version -m`, and the parts that are not modules
		var bom cyclonedx.BOM
		if err := cyclonedx.NewBOMDecoder(strings.NewReader(read(t, materials)),
			cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
			t.Fatal(err)
		}
		if got := (*bom.Metadata.Component.Hashes)[0].Value; got != fmt.Sprintf("%x",
			sha256.Sum256([]byte(read(t, program)))) {
			t.Errorf("the hash %s is not that of the program", got)
		}
		var got, want []string
		others := map[string]bool{}
		for _, c := range *bom.Components {
			if c.Version == "" || c.Licenses == nil {
				t.Errorf("%s has no version or no licence", c.Name)
			}
			if strings.HasPrefix(c.PackageURL, "pkg:golang/") && !strings.HasPrefix(c.PackageURL, "pkg:golang/std@") {
				got = append(got, c.Name+" "+c.Version)
			} else {
				others[regexp.MustCompile(`^pkg:[a-z]+/(debian/|%40)?[a-z0-9]+`).FindString(c.PackageURL)] = true
			}
		}
		for line := range strings.Lines(command(t, "go", "version", "-m", program)) {
			if f := strings.Fields(line); len(f) > 2 && f[0] == "dep" {
				want = append(want, f[1]+" "+f[2])
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || len(got) == 0 {
			t.Errorf("got the modules\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for _, name := range []string{"pkg:golang/std", "pkg:generic/sqlite", "pkg:deb/debian/libc6",
			"pkg:deb/debian/libgcc", "pkg:npm/age", "pkg:npm/%40noble", "pkg:generic/unicode"} {
			if !others[name] {
				t.Errorf("there is no %s, but %v", name, others)
			}
		}
	})
	t.Run("licences", func(t *testing.T) { // of every module in `go list -deps`, and of the C library
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", tags, "-f",
			"{{with .Module}}{{if not .Main}}{{.Dir}}{{end}}{{end}}", "./cmd/mailroom")
		list.Dir = top
		folders, err := output(list)
		if err != nil {
			t.Fatal(err)
		}
		modules := slices.Compact(slices.Sorted(strings.FieldsSeq(folders)))
		if len(modules) < 10 {
			t.Fatalf("only %q are linked", modules)
		}
		for _, folder := range modules {
			found, _ := filepath.Glob(filepath.Join(folder, "LICENSE*"))
			if len(found) == 0 {
				t.Errorf("%s has no licence", folder)
			}
			for _, file := range found {
				if !strings.Contains(copyright, strings.TrimSpace(read(t, file))) {
					t.Errorf("%s is left out", file)
				}
			}
		}
		for _, words := range []string{"May you do good and not evil.", "GNU LESSER GENERAL PUBLIC LICENSE",
			"GCC Runtime Library Exception", "Copyright (c) 2026 Mailroom authors", "1991-2017 Unicode, Inc."} {
			if !strings.Contains(strings.ToLower(copyright), strings.ToLower(words)) {
				t.Errorf("%q is left out", words)
			}
		}
	})
	t.Run("times", func(t *testing.T) { // the time of the commit, not the current time
		commit := strings.TrimSpace(command(t, "git", "-C", top, "log", "-1", "--format=%ct"))
		data := exec.CommandContext(t.Context(), "dpkg-deb", "--fsys-tarfile", debian)
		content, err := data.Output()
		if err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(bytes.NewReader(content)); ; {
			h, err := r.Next()
			if err != nil {
				break
			}
			if got := fmt.Sprint(h.ModTime.Unix()); got != commit {
				t.Errorf("%s has the time %s, want %s", h.Name, got, commit)
			}
		}
	})
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// withoutPreamble returns a unit without the part that describes its origin and purpose.
func withoutPreamble(t *testing.T, unit string) string {
	t.Helper()
	_, service, found := strings.Cut(unit, "[Service]")
	if !found {
		t.Fatalf("that is no unit: %s", unit)
	}
	return strings.TrimSpace(service)
}

// TestFlagsAreThoseOfMake checks that `make build` and `make dist` build the same program.
func TestFlagsAreThoseOfMake(t *testing.T) {
	t.Parallel()
	makefile := read(t, filepath.Join(top, "Makefile"))
	var own, static string
	for name, to := range map[string]*string{"TAGS": &own, "LDFLAGS": &static} {
		line := regexp.MustCompile(`(?m)^` + name + ` = (.*)$`).FindStringSubmatch(makefile)
		if line == nil {
			t.Fatalf("the Makefile has no %s", name)
		}
		*to = regexp.MustCompile(`\$\(if \$\(STATIC\),(.*)\)`).ReplaceAllString(line[1], "$1")
	}
	if client := "-tags '" + clientTags + "' -ldflags '" + clientLDFlags + " $(COMMIT)'"; !strings.Contains(makefile, client) {
		t.Errorf("the Makefile builds no client with %s", client)
	}
	if own != tags || static != ldflags {
		t.Errorf("the Makefile has %q and %q, packaging has %q and %q", own, static, tags, ldflags)
	}
}

// TestLicencesOfTheApps compares the copies in licences/ with the files that npm installs.
func TestLicencesOfTheApps(t *testing.T) {
	t.Parallel()
	parts, err := embedded(t.Context())
	if err != nil || len(parts) == 0 {
		t.Fatal(parts, err)
	}
	compared := map[string]bool{}
	for _, app := range apps {
		modules := filepath.Join(top, "commands/surface", app, "app/node_modules")
		if _, err := os.Stat(modules); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skipf("NOT TESTED: npm did not install what the apps need (make clients): %v", err)
		}
		for _, m := range parts {
			file := filepath.Join(modules, m.name, "LICENSE")
			if _, err := os.Stat(file); err != nil {
				continue // it is in the other app
			}
			compared[m.name] = true
			if m.texts[0] != read(t, file) {
				t.Errorf("the licence of %s has changed: copy it to licences/%s", m.name, npmFile(m.name))
			}
		}
	}
	for _, m := range parts {
		if !compared[m.name] {
			t.Errorf("npm installed no licence of %s", m.name)
		}
	}
}

func TestSPDX(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Permission is hereby granted, free of charge,\n  to any person obtaining a copy of this software": "MIT",
		"Redistribution and use in source and binary forms ... Neither the name of X":                      "BSD-3-Clause",
		"Redistribution and use in source and binary forms, with or without modification":                  "BSD-2-Clause",
		"Apache License\nVersion 2.0, January 2004":                                                        "Apache-2.0",
		"GNU AFFERO GENERAL PUBLIC LICENSE Version 3":                                                      "",
		"All rights reserved.": "",
		"Apache License Version 2.0 ... Permission is hereby granted, free of charge, to any person obtaining a copy of this software": "Apache-2.0 AND MIT",
	} {
		if got := spdx(text); got != want {
			t.Errorf("%q is taken for %q, want %q", text, got, want)
		}
	}
}

// TestUnknownLicence checks that an unknown licence of a linked part stops the build.
func TestUnknownLicence(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"LICENSE": "GNU AFFERO GENERAL PUBLIC LICENSE",
		"README": "Permission is hereby granted"} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if expression, _, err := readLicences([]string{folder}); err == nil {
			t.Errorf("%s with %q is taken for %s", name, text, expression)
		}
	}
}

// TestDebianVersion checks that dpkg sorts a prerelease before the release, and a later version after it.
func TestDebianVersion(t *testing.T) {
	t.Parallel()
	need(t, "dpkg")
	ascending := []string{
		"0.0.0-20261125232534-05e483e43b26", "0.9.0", "1.0.0-rc.1", "1.0.0-rc.1.0.20261125232534-05e483e43b26",
		"1.0.0-rc.2", "1.0.0",
		"1.0.1-0.20261125232534-05e483e43b26", "1.0.1-0.20261126000000-0123456789ab", "1.0.1",
	}
	for i, version := range ascending[1:] {
		older, newer := debianVersion(ascending[i]), debianVersion(version)
		if err := exec.CommandContext(t.Context(), "dpkg", "--compare-versions", older, "lt", newer).Run(); err != nil {
			t.Errorf("%s is not older than %s for dpkg (%v)", older, newer, err)
		}
		if strings.Contains(newer, "-") {
			t.Errorf("%s has a revision of Debian's", newer)
		}
	}
}
