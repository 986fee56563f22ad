package main

import (
	"cmp"
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

var pictures = flag.Bool("pictures", false, "write the picture of the README's terminals, where it has changed")

// TestPicture compares docs/terminals.svg with a new run of its scene: two agents in a terminal each, and a person
// who watches. With -pictures the picture is written (make pictures), unless only IDs and times differ.
func TestPicture(t *testing.T) {
	t.Parallel()
	drawn := talk(t)
	file := filepath.Join("..", "..", "docs", "terminals.svg")
	there, _ := os.ReadFile(file)
	got, want := withoutVariants(drawn), withoutVariants(string(there))
	if got == want {
		return
	}
	if !*pictures {
		t.Fatalf("%s is not what the terminals show now: make pictures. %s", file, firstDifference(got, want))
	}
	if err := os.WriteFile(file, []byte(drawn), 0o644); err != nil {
		t.Fatal(err)
	}
}

// withoutVariants returns a text without the parts that differ between runs.
func withoutVariants(text string) string { return anyVariant.ReplaceAllString(text, "…") }

// pane is a terminal of the picture.
type pane struct {
	*tty
	title, prompt string
	prompts       int // how many it has shown
}

// talk lets two agents talk, each typing in a shell, and returns the picture.
func talk(t *testing.T) string {
	t.Helper()
	p := newPage(t, "")
	p.shell.run("mailroom init; mailroom agent add alice; mailroom agent add bob")
	daemon := p.tty()
	daemon.start("mailroom serve")
	if !daemon.await(func(text string) bool { return strings.Contains(text, "Serving") }) {
		t.Fatal(daemon.text)
	}
	open := func(name, prompt string) *pane {
		env := append(p.env[:len(p.env):len(p.env)], "MAILROOM_AGENT="+name, "PS1="+prompt)
		return &pane{openTTY(t, filepath.Join(p.home, "shop"), env, columns, "--norc", "--noprofile", "--noediting",
			"-i"), cmp.Or(name, "you"), prompt, 0}
	}
	alice, bob, you := open("alice", "alice$ "), open("bob", "bob$ "), open("", "$ ")
	for _, one := range []*pane{alice, bob, you} {
		one.ready()
	}
	bob.enter("mailroom wait")
	bob.await(func(text string) bool { return strings.Contains(text, "for a message to bob") })
	alice.enter(`mailroom send bob "Are the tests green?"`)
	alice.ready()
	bob.ready()
	bob.enter(`mailroom send alice "412 passed, none failed"`)
	bob.ready()
	alice.enter("mailroom wait")
	alice.ready()
	alice.enter("mailroom show last")
	alice.ready()
	bob.enter("mailroom why last")
	bob.ready()
	you.enter("mailroom tail")
	you.await(func(text string) bool {
		return strings.Count(uncoloured(text), " read ") == 2 && strings.HasSuffix(text, "\n")
	})
	return draw([]*pane{alice, bob}, you)
}

// enter types a line.
func (p *pane) enter(line string) {
	p.t.Helper()
	if _, err := p.master.WriteString(line + "\n"); err != nil {
		p.t.Fatal(err)
	}
}

// ready waits for the next prompt.
func (p *pane) ready() {
	p.t.Helper()
	p.prompts++
	if !p.await(func(text string) bool {
		return strings.HasSuffix(text, p.prompt) && strings.Count(text, p.prompt) == p.prompts
	}) {
		p.t.Fatalf("%s: no prompt comes:\n%s", p.title, p.text)
	}
}

// Sizes of the picture, in its own units, and its colours.
const (
	columns    = 68       // of each terminal
	wide, high = 7.22, 17 // of a character
	edge       = 12
	ink        = "#d7dae0"
)

// draw draws two terminals beside each other, and one below.
func draw(upper []*pane, lower *pane) string {
	const one = columns*wide + 2*edge
	width, tallest := 2*one+edge, 0
	for _, p := range upper {
		tallest = max(tallest, len(p.lines()))
	}
	var body strings.Builder
	for i, p := range upper {
		p.draw(&body, float64(i)*(one+edge), 0, one, tallest)
	}
	top, lines := float64(tallest*high+4*edge), len(lower.lines())
	lower.draw(&body, 0, top, width, lines)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="12">`+"\n"+
		"<!-- Made by `make pictures` from a run; do not edit it. -->\n%s</svg>\n", width,
		top+float64(lines*high+3*edge), body.String())
}

// lines returns the lines of a terminal, with their colours.
func (p *pane) lines() []string {
	p.t.Helper()
	text := strings.TrimSuffix(strings.ReplaceAll(p.text, "\r\n", "\n"), p.prompt)
	lines := strings.Split(strings.TrimRight(overwritten.ReplaceAllString(text, ""), "\n"), "\n")
	for _, line := range lines {
		if utf8.RuneCountInString(uncoloured(line)) > columns {
			p.t.Fatalf("longer than the picture is wide: %s", line)
		}
	}
	return lines
}

// draw draws one terminal.
func (p *pane) draw(b *strings.Builder, x, y, width float64, rows int) {
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" rx="6" fill="#1d2026"/>`+"\n", x, y, width,
		rows*high+3*edge)
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" fill="#8b919d" text-anchor="middle">%s</text>`+"\n", x+width/2, y+edge+5,
		p.title)
	for i, line := range p.lines() {
		if line != "" {
			fmt.Fprintf(b, `<text x="%.1f" y="%.1f" fill="%s" xml:space="preserve">%s</text>`+"\n", x+edge,
				y+float64(2*edge+(i+1)*high)-2, ink, p.coloured(line))
		}
	}
}

// styles are the SVG attributes for the program's colours.
var styles = map[string]string{
	"\x1b[1m": `font-weight="bold"`, "\x1b[2m": `fill="#8b919d"`,
	"\x1b[31m": `fill="#f0736a"`, "\x1b[32m": `fill="#7ec96f"`, "\x1b[33m": `fill="#e0b558"`,
}

// coloured returns a line in SVG.
func (p *pane) coloured(line string) string {
	var b strings.Builder
	open := ""
	write := func(text string) {
		switch text = html.EscapeString(text); {
		case text == "":
		case open == "":
			b.WriteString(text)
		default:
			fmt.Fprintf(&b, "<tspan %s>%s</tspan>", open, text)
		}
	}
	if typed, is := strings.CutPrefix(line, p.prompt); is {
		fmt.Fprintf(&b, `<tspan fill="#6fb3e0">%s</tspan>`, html.EscapeString(p.prompt))
		line = typed
	}
	at := 0
	for _, m := range colours.FindAllStringIndex(line, -1) {
		write(line[at:m[0]])
		open, at = styles[line[m[0]:m[1]]], m[1]
	}
	write(line[at:])
	return b.String()
}
