package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/width"
)

// screens lists the commands whose output people look at, each with its name.
var screens = [][2]string{
	{"help", "mailroom help"},
	{"help-send", "mailroom help send"},
	{"status", "mailroom status"},
	{"list", "mailroom list"},
	{"inbox", "mailroom inbox tester"},
	{"show", "mailroom show last"},
	{"stats", "mailroom stats"},
	{"agents", "mailroom agent list"},
	{"agent", "mailroom agent show courier"},
	{"threads", "mailroom thread list --agent lead"},
	{"settings", "mailroom setting list"},
	{"connect", "mailroom connect"},
	{"why", "mailroom why " + refused},
	{"trace", "mailroom trace " + refused},
	{"dead-letters", "mailroom dead_letters list"},
	{"refusal", "mailroom send bilder hello"},
	{"doctor", "mailroom doctor"}, // records a command trace
}

// refused is a placeholder for the ID of the shop's message that could not be delivered.
const refused = "MESSAGE"

// clocked runs the program with the clock set to the time in the environment.
func clocked() {
	at, err := time.Parse(time.RFC3339, os.Getenv("MAILROOM_TEST_NOW"))
	if err != nil {
		panic(err)
	}
	options.Now = func() time.Time { return at }
	os.Exit(run(config()))
}

// shop is a folder with a database in which messages have been exchanged. Its name has the same length on every
// machine.
type shop struct {
	t       *testing.T
	folder  string
	env     []string
	message string // ID that replaces refused
}

func newShop(t *testing.T) *shop {
	folder := fmt.Sprintf("/tmp/screens-%08x", rand.Uint32())
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	program, err := exec.LookPath("mailroom-clocked")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(folder, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	const closed = "echo The other office is closed >&2\nexit 1"
	for name, does := range map[string]string{"mailroom": "exec " + program + ` "$@"`, "claude": closed,
		"codex": closed, "deliver-to-the-other-office": closed} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+does+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &shop{t: t, folder: folder, env: []string{
		"HOME=" + folder, "PATH=" + bin, "TERM=xterm", "TZ=UTC", "ORCHESTRATOR_INSTANCE_ID=desk",
	}}
	s.at("08:00:00", "init")
	s.at("08:00:10", "agent", "add", "lead", "--role", "plans the work")
	s.at("08:00:20", "agent", "add", "builder", "--role", "writes the code of the shop, and its tests")
	s.at("08:00:30", "agent", "add", "tester", "--role", "试验 and tests")
	s.at("08:00:40", "agent", "add", "courier", "--deliver",
		"exec:"+folder+"/bin/deliver-to-the-other-office --format json --retries none")
	s.at("08:00:50", "group", "set", "everybody", "lead", "builder", "tester")
	s.at("08:30:00", "--as", "lead", "send", "builder",
		"Please build the cart. It holds what a customer wants to buy, and forgets it after a day.")
	s.at("08:30:10", "read", "builder")
	s.at("09:10:00", "--as", "builder", "send", "tester", "the cart is built; 買い物かごができました、テストしてください。よろしくお願いします")
	s.at("09:20:00", "--as", "tester", "coral", "create_thread", "--thread-name", "Colours of the cart",
		"--participant-ids", "lead,builder")
	answer := s.at("09:30:00", "--as", "tester", "send", "courier", "a parcel for the other office", "--max-retries",
		"0")
	s.message = regexp.MustCompile(`"message_id":"(msg-\w+)"`).FindStringSubmatch(answer)[1]
	s.at("09:30:01", "deliver_all")
	s.at("09:58:00", "--as", "lead", "send", "everybody", "A meeting at noon.\nBring the plans.")
	s.at("09:59:50", "deliver_all")
	return s
}

// at runs a command at a time of the shop's day and returns its output. The command must succeed.
func (s *shop) at(hms string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(s.folder, "bin", "mailroom"), args...)
	cmd.Dir, cmd.Env = s.folder, append(slices.Clone(s.env), "MAILROOM_TEST_NOW=2026-01-02T"+hms+"Z")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("mailroom %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// show returns what a command displays in a terminal. Parts that differ from run to run are replaced by fixed text of
// the same width.
func (s *shop) show(term *tty, command string) string {
	printed, status := term.run(strings.ReplaceAll(command, refused, s.message))
	text := overwritten.ReplaceAllString(strings.ReplaceAll(printed, "\r\n", "\n"), "")
	text = inBrokenLines(strings.Split(s.folder, ""), "", text, func(string) string { return "/home/me/screens/shop" })
	// The type of the file system depends on the machine.
	text = regexp.MustCompile(`file system: .*`).ReplaceAllString(text, "file system: local (type 0xef53)")
	known := map[string]string{}
	for _, form := range []struct {
		pattern []string // one regular expression per character
		as      string   // replacement
	}{
		{slices.Repeat([]string{`[0-9A-HJKMNP-TV-Z]`}, 26), "01KDYEXAMPLE00000000000000"},
		{slices.Repeat([]string{`[0-9a-f]`}, 32), "0123456789abcdef0123456789abcdef"},
		{[]string{`\d\.\d MB`}, "0.1 MB"},
	} {
		text = inBrokenLines(form.pattern, `\b`, text, func(id string) string {
			if known[id] == "" {
				number := fmt.Sprint(len(known) + 1)
				known[id] = form.as
				if len(form.as) > 10 {
					known[id] = form.as[:len(form.as)-len(number)] + number
				}
			}
			return known[id]
		})
	}
	if status != "0" {
		text += "exit status " + status + "\n"
	}
	return text
}

// inBrokenLines replaces every match of a pattern that lies between two bounds, even if a line break follows any of
// its characters.
func inBrokenLines(pattern []string, bound, text string, replaced func(found string) string) string {
	broken := regexp.MustCompile(`\n[ │|]*`)
	whole := regexp.MustCompile(bound + strings.Join(pattern, `(?:`+broken.String()+`)?`) + bound)
	return whole.ReplaceAllStringFunc(text, func(found string) string {
		as := replaced(broken.ReplaceAllString(found, ""))
		if at := broken.FindStringIndex(found); at != nil {
			as = as[:at[0]] + found[at[0]:at[1]] + as[at[0]:]
		}
		return as
	})
}

// TestScreens compares the output of screens in terminals of several widths with testdata/screens. With -update, it
// rewrites those files.
func TestScreens(t *testing.T) {
	t.Parallel()
	for _, look := range []struct {
		name    string
		columns int
		env     []string
	}{
		{"40", 40, []string{"LC_ALL=C.UTF-8", "NO_COLOR=1"}},
		{"80", 80, []string{"LANG=en_US.UTF-8", "NO_COLOR=1"}},
		{"120", 120, []string{"LC_CTYPE=C.UTF-8", "NO_COLOR=1"}},
		{"200", 200, []string{"LC_ALL=C.UTF-8", "NO_COLOR=1"}},
		{"ascii", 80, []string{"LC_ALL=C", "LANG=en_US.UTF-8", "NO_COLOR=1"}},
		{"colour", 120, []string{"LC_ALL=C.UTF-8"}},
	} {
		// Each look needs its own shop, because a command that reads the database records a trace in it.
		s := newShop(t)
		term := openTTY(t, s.folder,
			append(append(slices.Clone(s.env), "MAILROOM_TEST_NOW=2026-01-02T10:00:00Z"), look.env...), look.columns)
		var all strings.Builder
		for _, screen := range screens {
			text := s.show(term, screen[1])
			if strings.Contains(text, "\x1b") && look.name != "colour" {
				t.Errorf("%s at %s is coloured: %q", screen[0], look.name, text)
			}
			for line := range strings.Lines(uncoloured(text)) {
				s.fits(look.name, screen[0], strings.TrimSuffix(line, "\n"), look.columns)
			}
			text = strings.ReplaceAll(text, "\x1b", "ESC")
			fmt.Fprintf(&all, "$ %s\n%s\n", screen[1], text)
		}
		file := filepath.Join("testdata", "screens", look.name+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(all.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := all.String(); got != string(want) {
			t.Errorf("%s is not what the screens show; go test ./cmd/mailroom -run Screens -update writes it:\n%s",
				file, firstDifference(got, string(want)))
		}
	}
}

// firstDifference describes the first line in which two texts differ.
func firstDifference(got, want string) string {
	gots, wants := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(gots), len(wants)) {
		if gots[i] != wants[i] {
			return fmt.Sprintf("line %d: %q; want %q", i+1, gots[i], wants[i])
		}
	}
	return fmt.Sprintf("%d lines; want %d", len(gots), len(wants))
}

var lastWord = regexp.MustCompile("(?:`[^`]+`\\S*|\\S+)$")

// fits checks that a line fits the terminal's width, unless it ends in a word that is too long for any line. In ASCII
// it also checks that only wide characters are outside ASCII: the texts of messages are in Chinese and Japanese.
func (s *shop) fits(look, screen, line string, columns int) {
	s.t.Helper()
	cells := 0
	for _, r := range line {
		cells++
		if kind := width.LookupRune(r).Kind(); kind == width.EastAsianWide || kind == width.EastAsianFullwidth {
			cells++
		} else if r > 0x7e && look == "ascii" {
			s.t.Errorf("%s in ASCII has %q: %s", screen, r, line)
		}
	}
	before := strings.TrimRight(lastWord.ReplaceAllString(line, ""), " ")
	if screen == "help-send" && strings.HasPrefix(line, "    ") {
		return // an example, meant to be copied
	}
	if cells > columns && (len(before) > columns/2 || strings.Contains(strings.TrimSpace(before), " ")) {
		s.t.Errorf("%s at %s columns: %q has %d", screen, look, line, cells)
	}
}
