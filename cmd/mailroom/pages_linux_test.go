package main

import (
	"cmp"
	"fmt"
	"mailroom/orchestrator/agenthost"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A page shows input and output in console blocks: a command after "$ ", its further lines after "> ", and below it
// the output. TestPages types every command of a page, in the page's order, in a separate terminal, in an empty
// folder with a separate home, and compares the output. A block in an HTML comment is run, too, but readers do not
// see it.
//
// Text that differs between runs (IDs, times, process numbers) is compared by its form. An ID on the page has the
// same meaning everywhere: once a command has printed one, later commands get the real one. All spaces and line ends
// are equivalent. A line of only three dots stands for omitted output.

// unrun are the commands of pages that TestPages does not run, by their beginnings.
var unrun = []struct{ begins, because string }{
	{"claude", "it starts Claude Code; TestHosts does, against a model server"},
	{"gemini", "it starts Gemini CLI; TestHosts does, against a model server"},
	{"make ", "it builds or tests this repository; the target is looked up in the Makefile"},
	{"sudo ", "it installs a package; TestDistInstalled does, in a fresh Debian"},
	{"systemctl ", "it needs systemd; TestDistInstalled runs what the unit starts"},
	{"tar ", "it unpacks what make dist has made; the tests of packaging/ do"},
	{"cd mailroom_*_linux_amd64", "it enters what was unpacked"},
	{"install ", "it copies files into the user's folders"},
	{"npm install ", "it installs packages that make dist has made; the tests of packaging/ do"},
	{"sh install.sh", "it installs what make dist has made; the tests of packaging/ do"},
	{"ssh-keygen ", "it verifies what make dist has signed; install.sh does, and the tests of packaging/ run it"},
	{"sha256sum ", "it compares what make dist has made; install.sh does, and the tests of packaging/ run it"},
	{"docker ", "it needs Docker's engine; TestDistImage builds the image without"},
	{"mailroom serve --otlp", "it needs a receiver; the tests of otlptest/ have one"},
	{"tailscale ", "it needs an account"},
	{"cloudflared ", "it needs an account"},
}

// goesOn matches commands that end when they are interrupted. Each gets a separate terminal, until the end of the
// page.
var goesOn = regexp.MustCompile(`^(?:mailroom (?:serve|tail|ralph watch)|sh worker\.sh)\b`)

// typed is a command of a page.
type typed struct {
	command  string
	printed  []string // its output on the page
	from, to int      // the lines of the page with that output
}

// pageSteps returns the commands of a page.
func pageSteps(lines []string) (steps []typed) {
	inside := false
	for i, line := range lines {
		switch command, isCommand := strings.CutPrefix(line, "$ "); {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case isCommand:
			steps = append(steps, typed{command: command, from: i + 1, to: i + 1})
		case len(steps) > 0:
			last := &steps[len(steps)-1]
			if more, isMore := strings.CutPrefix(line, "> "); isMore && len(last.printed) == 0 {
				last.command += "\n" + more
				last.from, last.to = i+1, i+1
				continue
			}
			last.printed = append(last.printed, line)
			last.to = i + 1
		}
	}
	return steps
}

// isUnrun reports whether a command is one that is not run, and returns its index in unrun.
func isUnrun(command string) (which int, is bool) {
	which = slices.IndexFunc(unrun, func(u struct{ begins, because string }) bool {
		rest, found := strings.CutPrefix(command, u.begins)
		return found && (rest == "" || strings.HasSuffix(u.begins, " ") || rest[0] == ' ')
	})
	return which, which >= 0
}

// TestPages runs every command of the pages. With -update it writes the output of each into the page.
func TestPages(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	used := make([]bool, len(unrun))
	for _, file := range pageFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		steps := pageSteps(lines)
		for _, s := range steps {
			if which, is := isUnrun(s.command); is {
				used[which] = true
			}
			if words := strings.Fields(s.command); words[0] == "make" &&
				!strings.Contains(string(makefile), "\n"+words[1]+":") {
				t.Errorf("%s: the Makefile has no target %s", file, words[1])
			}
		}
		if len(steps) == 0 {
			continue
		}
		t.Run(strings.TrimPrefix(filepath.ToSlash(file), "../../"), func(t *testing.T) {
			t.Parallel()
			for _, program := range []string{"curl", "jq", "sqlite3"} {
				if _, err := exec.LookPath(program); err == nil || !strings.Contains(string(text), "$ "+program+" ") &&
					!strings.Contains(string(text), "| "+program+" ") {
					continue
				}
				if os.Getenv("CI") != "" {
					t.Fatal(program + " is missing: make programs")
				}
				t.Skip(program + " is missing: make programs")
			}
			p := newPage(t, file)
			for i := range steps {
				if _, is := isUnrun(steps[i].command); !is {
					p.run(&steps[i])
				}
			}
			p.interrupt()
			if *update {
				p.rewrite(lines, steps)
			}
		})
	}
	for i, u := range unrun {
		if !used[i] {
			t.Errorf("no page has the command %q: take it out of unrun", u.begins)
		}
	}
}

// page is a page that is run.
type page struct {
	t        *testing.T
	name     string
	env      []string
	home     string // corresponds to /home/me; commands are typed in its folder shop
	loopback string // corresponds to 127.0.0.1, so that every page has all ports for itself
	program  string // the folder of the program, which corresponds to /home/me/.local/bin
	host     string
	shell    *tty
	others   []*tty            // commands that continue
	waiting  []*typed          // the expected output of others at the end
	real     map[string]string // IDs of this run by IDs of the page
}

func newPage(t *testing.T, file string) *page {
	host, err := os.Hostname()
	program, missing := exec.LookPath("mailroom")
	if err != nil || missing != nil {
		t.Fatal(err, missing)
	}
	p := &page{
		t: t, name: file, home: t.TempDir(), program: filepath.Dir(program), host: host, real: map[string]string{},
		loopback: fmt.Sprintf("127.%d.%d.%d", 1+rand.N(254), rand.N(256), 1+rand.N(254)),
	}
	if err := os.Mkdir(filepath.Join(p.home, "shop"), 0o755); err != nil {
		t.Fatal(err)
	}
	// Hosts are installed, and end immediately when they are started.
	hosts := filepath.Join(p.home, "bin")
	if err := os.Mkdir(hosts, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, host := range agenthost.Connectable() {
		if err := os.WriteFile(filepath.Join(hosts, host), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "MAILROOM_") &&
			!strings.HasPrefix(name, "XDG_") && name != "NO_COLOR" {
			p.env = append(p.env, v)
		}
	}
	p.env = append(p.env, "PATH="+hosts+":"+os.Getenv("PATH"), "HOME="+p.home, "TERM=xterm", "TZ=UTC", "LC_ALL=C.UTF-8",
		"TMPDIR="+p.home)
	p.shell = p.tty()
	return p
}

// tty opens a terminal in the folder of the page's project. It is wider by as much as the real home is longer, so
// that lines with a path break at the same place as with the page's home.
func (p *page) tty() *tty {
	return openTTY(p.t, filepath.Join(p.home, "shop"), p.env, 110+len(p.home)-len("/home/me"))
}

// run types a command and compares the output.
func (p *page) run(s *typed) {
	p.t.Helper()
	// mailroom is the same program, already built.
	command := strings.ReplaceAll(p.toRun(s.command), "go run ./cmd/mailroom ", "mailroom ")
	if goesOn.MatchString(command) && !strings.Contains(command, "--once") {
		if len(s.printed) == 0 {
			p.t.Fatalf("%s:%d: nothing says what %s prints, so that nobody knows whether it runs", p.name, s.from,
				s.command)
		}
		other := p.tty()
		other.start(command)
		p.others, p.waiting = append(p.others, other), append(p.waiting, s)
		if strings.HasPrefix(command, "mailroom serve") || strings.HasPrefix(command, "mailroom ralph") {
			first, _ := p.pattern(s.printed[:1], false)
			if !other.await(func(text string) bool { return first.MatchString(uncoloured(text)) }) {
				p.t.Errorf("%s:%d: %s begins with\n%s", p.name, s.from, s.command, other.text)
			}
		}
		return
	}
	printed, status := p.shell.run(command)
	shown := p.compare(s, uncoloured(printed))
	if status != "0" && (len(s.printed) == 0 || slices.Contains(s.printed, "...")) {
		p.t.Errorf("%s:%d: %s ends with status %s:\n%s", p.name, s.from, s.command, status, shown)
	}
}

// interrupt ends the commands that continue, and compares their output.
func (p *page) interrupt() {
	for i, other := range p.others {
		s := p.waiting[i]
		if !other.await(func(text string) bool { return p.bind(s, uncoloured(text), false) }) {
			p.compare(s, uncoloured(other.text))
		}
		if status := other.finish(interrupt); status > 0 && status != 130 {
			p.t.Errorf("%s:%d: %s ends with status %d:\n%s", p.name, s.from, s.command, status, uncoloured(other.text))
		}
	}
}

// compare compares the output of a command with the page, and returns it in the form for the page.
func (p *page) compare(s *typed, got string) (shown string) {
	p.t.Helper()
	got = strings.TrimRight(got, "\n ")
	ok := p.bind(s, got, true)
	if shown = p.toShow(got); ok {
		return shown
	}
	if *update && !slices.Contains(s.printed, "...") {
		s.printed = strings.Split(shown, "\n")
		if shown == "" {
			s.printed = nil
		}
		p.bind(s, got, true)
		return shown
	}
	p.t.Errorf("%s:%d: %s prints\n%s\nand not, as the page says,\n%s", p.name, s.from, s.command, shown,
		strings.Join(s.printed, "\n"))
	return shown
}

var (
	colours     = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]")
	overwritten = regexp.MustCompile("(?m)^.*\r")
)

// uncoloured returns the text that remains on a terminal, without its colours.
func uncoloured(text string) string {
	return colours.ReplaceAllString(overwritten.ReplaceAllString(strings.ReplaceAll(text, "\r\n", "\n"), ""), "")
}

// variant is the form of text that differs between runs. A bound text has the same meaning everywhere.
type variant struct {
	pattern string
	bound   bool
}

var variants = []variant{
	{`\bmsg-[a-z_]+-\d{8}-\d{6}-\d{3,}\b`, true},                    // IDs of document 002
	{`\b[0-9A-HJKMNP-TV-Z]{25,26}\b`, true},                         // IDs
	{`\bmailroom_[\w-]{43}`, true},                                  // tokens
	{`\bwhsec_[\w+/=-]+`, true},                                     // secrets
	{`\b[0-9A-Z]{4}(?:-[0-9A-Z]{4}){2,3}\b`, true},                  // pairing codes, fingerprints
	{`\b[0-9a-f]{32}\b`, true},                                      // traces
	{`\b[0-9a-f]{16}\b`, true},                                      // spans
	{`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?`, false}, // times
	{`\b\d\d:\d\d:\d\d\b`, false},                                   // times of day
	{`[+-]?\b\d+\.\d+ (?:s|MB)\b`, false},                           // durations and sizes
	{`\b(?:now|\d+ (?:s|min|h|d) ago)\b`, false},                    // ages
	{`\b\d{8}T\d{6}\.\d{3}\b`, false},                               // times in file names
	{`\bprocess \d+\b`, false},
	{`\bvm-\d+\b`, false},       // processes
	{`[▀▄█][▀▄█ ]{19,}`, false}, // lines of a QR code
}

var anyVariant = func() *regexp.Regexp {
	var all []string
	for _, f := range variants {
		all = append(all, "("+f.pattern+")")
	}
	return regexp.MustCompile(strings.Join(all, "|"))
}()

// pattern converts output on a page to a pattern of all of the real output, or of its beginning. It also returns the
// IDs of the page whose values in this run are unknown; the pattern has a group for each.
func (p *page) pattern(printed []string, whole bool) (pattern *regexp.Regexp, ids []string) {
	var b strings.Builder
	b.WriteString(`(?s)^\s*`)
	for _, line := range printed {
		if strings.TrimSpace(line) == "..." {
			b.WriteString(`.*?`)
			continue
		}
		line = p.paths(strings.TrimSpace(line))
		at := 0
		for _, m := range anyVariant.FindAllStringSubmatchIndex(line, -1) {
			b.WriteString(literally(line[at:m[0]]))
			variant, id := p.variantOf(line, m)
			b.WriteString(variant)
			if id != "" {
				ids = append(ids, id)
			}
			at = m[1]
		}
		b.WriteString(literally(line[at:]) + `\s*`)
	}
	if whole {
		b.WriteString(`$`)
	}
	return regexp.MustCompile(b.String()), ids
}

// variantOf returns the pattern for a match of anyVariant. A known ID is replaced by its value in this run; an
// unknown one is also returned.
func (p *page) variantOf(line string, match []int) (pattern, id string) {
	which := slices.IndexFunc(variants, func(f variant) bool { return match[2*slices.Index(variants, f)+2] >= 0 })
	found, f := line[match[0]:match[1]], variants[which]
	switch real, known := p.real[found]; {
	case f.bound && known:
		return regexp.QuoteMeta(real), ""
	case f.bound:
		return "(" + f.pattern + ")", found
	case strings.Contains(f.pattern, "vm-"):
		return regexp.QuoteMeta(p.host) + `-\d+`, ""
	}
	return f.pattern, ""
}

var blanks = regexp.MustCompile(`\s+`)

// literally returns a pattern of a text in which all spaces and line ends are equivalent.
func literally(text string) string {
	parts := blanks.Split(text, -1)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return strings.Join(parts, `\s+`)
}

// bind records the values in this run of the IDs in the page's output. It reports whether the output matches the page
// and each ID has one value that no other ID has.
func (p *page) bind(s *typed, got string, whole bool) bool {
	pattern, ids := p.pattern(s.printed, whole)
	values := pattern.FindStringSubmatch(got)
	if values == nil {
		return false
	}
	for i, id := range ids {
		for known, real := range p.real {
			if (known == id) != (real == values[i+1]) {
				return false
			}
		}
		p.real[id] = values[i+1]
	}
	return true
}

// paths replaces the page's folder and address with those of this run.
func (p *page) paths(text string) string {
	return strings.NewReplacer("/home/me/.local/bin", p.program, "/home/me", p.home, "127.0.0.1",
		p.loopback).Replace(text)
}

// toRun replaces the page's IDs in a command with those of this run.
func (p *page) toRun(command string) string {
	return anyVariant.ReplaceAllStringFunc(p.paths(command), func(id string) string { return cmp.Or(p.real[id], id) })
}

// toShow replaces values of this run with those of the page.
func (p *page) toShow(got string) string {
	pairs := []string{p.program, "/home/me/.local/bin", p.home, "/home/me", p.loopback, "127.0.0.1", p.host + "-",
		"vm-"}
	for id, real := range p.real {
		pairs = append(pairs, real, id)
	}
	lines := strings.Split(strings.NewReplacer(pairs...).Replace(got), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// rewrite writes the page with the output of its commands.
func (p *page) rewrite(lines []string, steps []typed) {
	var text []string
	at := 0
	for _, s := range steps {
		text = append(append(text, lines[at:s.from]...), s.printed...)
		at = s.to
	}
	text = append(text, lines[at:]...)
	if err := os.WriteFile(p.name, []byte(strings.Join(text, "\n")), 0o644); err != nil {
		p.t.Fatal(err)
	}
}
