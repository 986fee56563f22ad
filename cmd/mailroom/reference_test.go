package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mailroom/commands/surface/cli"
)

// TestReferenceIsComplete compares docs/reference.md, with a table of every setting and one of every flag, with the
// program. With -update the page is written.
func TestReferenceIsComplete(t *testing.T) {
	t.Parallel()
	page := "# Reference\n\n" +
		"Every setting and every flag. This page is written from the program: `go test ./cmd/mailroom -run Reference -update`.\n" +
		"`mailroom COMMAND --help` explains a command with examples, `mailroom man` prints all of it.\n\n" +
		settingsTable(t) + "\n" + flagsTable(t)
	file := filepath.Join("..", "..", "docs", "reference.md")
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := os.ReadFile(file); err != nil || string(there) != page {
		t.Errorf("%s is not what the program says (%v): go test ./cmd/mailroom -run Reference -update", file, err)
	}
}

func settingsTable(t *testing.T) string {
	t.Helper()
	settings, err := newMatrix(t).router.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("## Settings\n\n`mailroom setting set KEY VALUE`; they are of the database, and so of all who use it.\n\n")
	b.WriteString("| setting | default | bounds | what it is |\n|---|---|---|---|\n")
	for _, s := range settings {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", s.Key, s.Default, cell(s.Bounds), cell(s.About))
	}
	return b.String()
}

// cell escapes a text for a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// flagRow is a flag, and the commands that have it with this meaning.
type flagRow struct {
	flag, what string
	of         []string
}

func flagsTable(t *testing.T) string {
	t.Helper()
	var rows []flagRow
	add := func(flag, what, of string) {
		for i := range rows {
			if rows[i].flag == flag && rows[i].what == what {
				rows[i].of = append(rows[i].of, "`"+of+"`")
				return
			}
		}
		rows = append(rows, flagRow{flag, what, []string{"`" + of + "`"}})
	}
	for _, f := range helpFlags(t, "Global flags, anywhere on the line:", "version") {
		rows = append(rows, flagRow{f[0], f[1], []string{"all"}})
	}
	for _, command := range []string{"serve", "console", "mcp", "tail"} {
		for _, f := range helpFlags(t, "Flags:", command) {
			add(f[0], f[1], command)
		}
	}
	for _, d := range config().Catalogue.All() {
		for i := range d.Params() {
			p := &d.Params()[i]
			what := p.Desc
			if bounds := p.Bounds(); bounds != "" {
				what += "; " + bounds
			}
			if p.Default != "" {
				what += " (default: " + p.Default + ")"
			}
			add("--"+p.Flag(), what, strings.TrimPrefix(d.CommandLine(), "mailroom "))
		}
	}
	slices.SortStableFunc(rows, func(a, b flagRow) int { return cmp.Compare(a.flag, b.flag) })
	var b strings.Builder
	b.WriteString("## Flags\n\nThe flag `--reply-to` is the parameter `reply_to` or `replyTo` of `mailroom invoke`, HTTP and MCP, as the command's card has it.\n\n")
	b.WriteString("| flag | of | what it is |\n|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.flag, strings.Join(r.of, ", "), cell(r.what))
	}
	return b.String()
}

// helpLine matches a flag and its description in the help.
var helpLine = regexp.MustCompile(`^  (--[a-z-]+).*?  +(\S.*)$`)

// helpFlags returns the flags in a part of the help.
func helpFlags(t *testing.T, part string, command ...string) (flags [][2]string) {
	t.Helper()
	var out bytes.Buffer
	p := cli.Standard(config())
	p.Out = &out
	if status := p.Run(t.Context(), append(append([]string{"mailroom"}, command...), "--help")); status != 0 {
		t.Fatalf("the help of %q: exit status %d", command, status)
	}
	_, text, found := strings.Cut(out.String(), "\n"+part+"\n")
	if !found {
		t.Fatalf("the help of %q has no %q:\n%s", command, part, &out)
	}
	for line := range strings.Lines(text) {
		match := helpLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if match == nil {
			break
		}
		flags = append(flags, [2]string{match[1], match[2]})
	}
	return flags
}
