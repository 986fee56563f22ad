package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/commands/surface/cli"
)

// TestForms checks that without a terminal, a command answers with JSON if its card declares that, and otherwise with
// text; a command for people answers with text. Its page lists them all.
func TestForms(t *testing.T) {
	t.Parallel()
	forms := map[string][]string{}
	for _, d := range config().Catalogue.All() {
		form := formOf(t, d.Path)
		if want := map[bool]string{true: "JSON", false: "text"}[d.Card().Answers == "json"]; form != want ||
			d.IsDocument() != (want == "JSON") {
			t.Errorf("%s answers with %s; its card: %s", strings.Join(d.Path, " "), form, want)
		}
		forms[form] = append(forms[form], "`"+strings.Join(d.Path, " ")+"`")
		for _, w := range d.Words {
			if form := formOf(t, w.Path); form != "text" {
				t.Errorf("%s answers with %s", strings.Join(w.Path, " "), form)
			}
			forms["text"] = append(forms["text"], "`"+strings.Join(w.Path, " ")+"`")
		}
	}
	table := fmt.Sprintf("| output without a terminal | commands |\n|---|---|\n| JSON | %s |\n| text | %s |\n",
		strings.Join(forms["JSON"], ", "), strings.Join(forms["text"], ", "))
	file := filepath.Join("..", "..", "docs", "cli.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const begins, ends = "-run Forms -update -->\n", "<!-- end of forms -->"
	before, rest, _ := strings.Cut(string(page), begins)
	there, after, found := strings.Cut(rest, ends)
	if *update && found {
		if err := os.WriteFile(file, []byte(before+begins+table+ends+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if there != table {
		t.Errorf("%s does not list the forms: go test ./cmd/mailroom -run Forms -update", file)
	}
}

// formOf returns the form in which a command answers, determined from its error for an unknown flag.
func formOf(t *testing.T, path []string) string {
	t.Helper()
	var out bytes.Buffer
	p := cli.Standard(config())
	p.Out, p.Err, p.OutTerminal, p.Getenv = &out, &bytes.Buffer{}, false, func(string) string { return "" }
	if status := p.Run(t.Context(), append(append([]string{"mailroom"}, path...), "--nonesuch")); status == 0 {
		t.Fatalf("%q takes --nonesuch", path)
	}
	if strings.HasPrefix(out.String(), "{") {
		return "JSON"
	}
	return "text"
}
