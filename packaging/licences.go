package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([.-].*)?$`)
	noticeFile  = regexp.MustCompile(`(?i)^(notice|patents)([.-].*)?$`)
	source      = regexp.MustCompile(`\.(go|c|h|s)$`)
)

// readLicences returns the texts of the licences and notices in folders, and the SPDX expression of all of them. It
// returns an error if there is no licence, or if one is unknown.
func readLicences(folders []string) (expression string, texts []string, err error) {
	var ids []string
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return "", nil, err
		}
		for _, entry := range entries {
			name := entry.Name()
			isLicence := licenceFile.MatchString(name)
			if entry.IsDir() || source.MatchString(name) || !isLicence && !noticeFile.MatchString(name) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				return "", nil, err
			}
			texts = append(texts, string(text))
			if !isLicence {
				continue
			}
			id := spdx(string(text))
			if id == "" {
				return "", nil, fmt.Errorf("the license is not known; read %s, and if the license allows linking, add it to the function spdx", filepath.Join(folder, name))
			}
			ids = append(ids, id)
		}
	}
	if ids == nil {
		return "", nil, fmt.Errorf("there is no license in %s", strings.Join(folders, ", "))
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), " AND "), texts, nil
}

// spdx recognizes the licences of code that may be linked, by phrases that only those licences contain. It returns ""
// for other texts. A file may contain several licences.
func spdx(text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	has := func(words string) bool { return strings.Contains(text, words) }
	var ids []string
	if has("apache license") && has("version 2.0") {
		ids = append(ids, "Apache-2.0")
	}
	if has("redistribution and use in source and binary forms") {
		if has("neither the name") || has("names of its contributors") || has("names of the contributors") {
			ids = append(ids, "BSD-3-Clause")
		} else {
			ids = append(ids, "BSD-2-Clause")
		}
	}
	if has("permission to use, copy, modify, and distribute this software for any purpose") ||
		has("permission to use, copy, modify, and/or distribute this software for any purpose") {
		ids = append(ids, "ISC")
	}
	if has("permission is hereby granted, free of charge, to any person obtaining a copy of this software") {
		ids = append(ids, "MIT")
	}
	return strings.Join(ids, " AND ")
}

// copyright returns the content of the file that accompanies the program: the program's own licence, the list of its
// parts, and the texts that the licences of the parts require.
func (p *program) copyright(parts []part) (string, error) {
	own, err := os.ReadFile(filepath.Join(top, "LICENSE"))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Mailroom %s is available under this license:\n\n%s\n", p.version, strings.TrimSpace(string(own)))
	b.WriteString("\nThe program contains third-party parts, which are available under the licenses below.")
	if !p.client {
		b.WriteString(` The C library is linked statically. Mailroom's source
is free, so you can link the program with another version of the library: run make build. For the source of the library
and of GCC's runtime, see the sources of the Debian packages that are named below.`)
	}
	b.WriteString("\n\n")
	for _, m := range parts {
		fmt.Fprintf(&b, "  %s %s: %s\n", m.name, m.version, m.licence)
	}
	// Many parts have the same text.
	of := map[string][]string{}
	var order []string
	for _, m := range parts {
		for _, text := range m.texts {
			text = strings.TrimSpace(text)
			if of[text] == nil {
				order = append(order, text)
			}
			if name := m.name + " " + m.version; !slices.Contains(of[text], name) {
				of[text] = append(of[text], name)
			}
		}
	}
	for _, text := range order {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("-", 80), strings.Join(of[text], "\n"), text)
	}
	return b.String(), nil
}
