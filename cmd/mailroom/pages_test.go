package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mailroom/commands/surface/cli"
)

// pageFiles returns README.md, ARCHITECTURE.md and all pages below docs.
func pageFiles(t *testing.T) []string {
	t.Helper()
	top := filepath.Join("..", "..")
	var files []string
	for _, pattern := range []string{"README.md", "ARCHITECTURE.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, found, err)
		}
		files = append(files, found...)
	}
	return files
}

// eachPage calls a check for every page.
func eachPage(t *testing.T, check func(t *testing.T, file, text string)) {
	t.Helper()
	for _, file := range pageFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		check(t, strings.TrimPrefix(filepath.ToSlash(file), "../../"), string(text))
	}
}

// TestFilesThatAreNamedExist finds names of files on pages that do not exist. A name is a path from the top, or from
// orchestrator/.
func TestFilesThatAreNamedExist(t *testing.T) {
	t.Parallel()
	top := filepath.Join("..", "..")
	named := regexp.MustCompile("`((?:\\w[\\w.-]*/)*[a-z0-9_-]+\\.(?:go|sql|js|golden))`")
	eachPage(t, func(t *testing.T, file, text string) {
		for _, name := range named.FindAllStringSubmatch(text, -1) {
			_, err := os.Stat(filepath.Join(top, name[1]))
			if _, below := os.Stat(filepath.Join(top, "orchestrator", name[1])); err != nil && below != nil {
				t.Errorf("%s names %s, which does not exist", file, name[1])
			}
		}
	})
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|<img src="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	anchor  = regexp.MustCompile(`[^\w -]`)
)

// TestLinksLead finds links of pages to files and headings that do not exist.
func TestLinksLead(t *testing.T) {
	t.Parallel()
	eachPage(t, func(t *testing.T, file, text string) {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			to := found[1] + found[2]
			if strings.Contains(to, "://") {
				continue
			}
			name, place, _ := strings.Cut(to, "#")
			there := filepath.Join("..", "..", filepath.Dir(file), name)
			if name == "" {
				there = filepath.Join("..", "..", file)
			}
			page, err := os.ReadFile(there)
			if err != nil {
				t.Errorf("%s: there is nothing at %s", file, to)
				continue
			}
			if place != "" &&
				!slices.ContainsFunc(heading.FindAllStringSubmatch(string(page), -1), func(h []string) bool {
					return strings.ReplaceAll(anchor.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == place
				}) {
				t.Errorf("%s: there is no heading at %s", file, to)
			}
		}
	})
}

// TestEveryPageIsInTheIndex checks that docs/README.md lists every page.
func TestEveryPageIsInTheIndex(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile(filepath.Join("..", "..", "docs", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range pageFiles(t) {
		name, below := strings.CutPrefix(filepath.ToSlash(file), "../../docs/")
		if below && name != "README.md" && !strings.Contains(string(index), "]("+name+")") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

// TestFrontPage checks that README.md is short, and shows its subject.
func TestFrontPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 6000 {
		t.Errorf("README.md has %d bytes; 6000 is the most", len(text))
	}
	for _, picture := range []string{"docs/terminals.svg", "docs/console/", "docs/phone/"} {
		if !strings.Contains(string(text), picture) {
			t.Errorf("README.md does not show %s", picture)
		}
	}
}

// blockWithoutCommands lists the languages of blocks that contain no commands. TestGoPage checks those of go.
var blockWithoutCommands = []string{"", "go", "ini", "json", "sql"}

// TestCommandsAreInConsoleBlocks checks that all commands on a page are in console blocks, which TestPages runs.
func TestCommandsAreInConsoleBlocks(t *testing.T) {
	t.Parallel()
	eachPage(t, func(t *testing.T, file, text string) {
		language, inside := "", false
		for i, line := range strings.Split(text, "\n") {
			fence, isFence := strings.CutPrefix(line, "```")
			switch {
			case isFence:
				if inside = !inside; inside {
					language = fence
				}
				if inside && language != "console" && !slices.Contains(blockWithoutCommands, language) {
					t.Errorf("%s:%d: a block of %s; commands are in blocks of console", file, i+1, language)
				}
			case !inside && strings.HasPrefix(line, "    "):
				t.Errorf("%s:%d: an indented block; put commands into a block of console, and what is none behind ```",
					file, i+1)
			case inside && language != "console" &&
				(strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "mailroom ")):
				t.Errorf("%s:%d: a command in a block of %q, which is not run", file, i+1, language)
			}
		}
	})
}

var (
	inPassing = regexp.MustCompile("(?s)`(mailroom [^`]*)`")
	flagOf    = regexp.MustCompile(`--[a-z][a-z-]*`)
	helpOf    = regexp.MustCompile("To see the help, run `([^`]*)`")
)

// TestCommandsThatAreNamedExist checks that a command named in the text of a page exists, and has the flags in that
// text.
func TestCommandsThatAreNamedExist(t *testing.T) {
	t.Parallel()
	var everywhere []string
	for _, f := range helpFlags(t, "Global flags, anywhere on the line:", "version") {
		everywhere = append(everywhere, f[0])
	}
	checked := map[string]bool{}
	eachPage(t, func(t *testing.T, file, text string) {
		for _, found := range inPassing.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(found[1])
			if line := strings.Join(words, " "); checked[line] || slices.Contains(words, "COMMAND") {
				continue
			} else {
				checked[line] = true
			}
			if end := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") }); end > 0 {
				words = words[:end]
			}
			var out bytes.Buffer
			p := cli.Standard(config())
			p.Out, p.Err = &out, &out
			status := p.Run(t.Context(), append(words, "--help"))
			if help := helpOf.FindStringSubmatch(out.String()); status != 0 && help != nil {
				// If a text is accepted at this place, --help is part of it.
				out.Reset()
				status = p.Run(t.Context(), strings.Fields(help[1]))
			}
			if status != 0 {
				t.Errorf("%s: there is no %s", file, found[1])
			}
			for _, flag := range flagOf.FindAllString(found[1], -1) {
				if !slices.Contains(everywhere, flag) && !strings.Contains(out.String(), flag) {
					t.Errorf("%s: %s has no flag %s", file, strings.Join(words, " "), flag)
				}
			}
		}
	})
}
