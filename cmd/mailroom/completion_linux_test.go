package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mailroom/orchestrator/store/postgres"
)

// completed are beginnings of command lines, and a pattern that a line of the shell's completions must match.
var completed = []struct{ line, offers string }{
	{"mailroom sen", `\bsend\b`},
	{"mailroom send b", `\bbob\b.*tests`},
	{"mailroom show ms", `\bmsg-[0-9A-Z]{26}\b.*operator to bob: the tests are green`},
	{"mailroom why la", `\blast\b`},
	{"mailroom list --sin", `--since\b`},
	{"mailroom setting set retry.l", `retry\.ladder\b`},
	{"mailroom sql --named over", `\boverdue\b`},
	{"mailroom thread show th", `\bthread-[0-9A-Z]{26}\b`},
}

// completing creates an office with data to complete, and a file with the script of a shell.
func completing(t *testing.T, shell string) (o *office, folder, script string) {
	if _, err := exec.LookPath(shell); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(shell + " is missing: make programs")
		}
		t.Skip(shell + " is missing: make programs")
	}
	o = newOffice(t, "bob --role tests")
	o.run("send", "bob", "the tests are green")
	o.run("--as", "operator", "coral", "create_thread", "--thread-name", "The cart", "--participant-ids", "bob")
	folder = o.folder
	text, err := o.command("completion", shell).Output()
	if err == nil {
		script = filepath.Join(folder, "mailroom."+shell)
		err = os.WriteFile(script, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o, folder, script
}

// offered compares the completions that a shell shows with the expected ones.
func offered(t *testing.T, number int, shows string) {
	t.Helper()
	c := completed[number]
	for line := range strings.Lines(shows) {
		if regexp.MustCompile(c.offers).MatchString(line) {
			return
		}
	}
	t.Errorf("%q is completed to %q; want %s", c.line, shows, c.offers)
}

// TestCompletionInFish gets the completions from fish itself.
func TestCompletionInFish(t *testing.T) {
	t.Parallel()
	o, folder, script := completing(t, "fish")
	complete := func(line string) string {
		fish := exec.Command("fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", script, line)
		fish.Env, fish.Dir = o.command().Env, folder
		out, err := fish.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
		return string(out)
	}
	for i, c := range completed {
		shows := complete(c.line)
		offered(t, i, shows)
		if strings.Contains(shows, "mailroom.db") {
			t.Errorf("%q is also completed to files: %s", c.line, shows)
		}
	}
	phone := o.paired("pixel")
	o.run("signal", "device", "approve", phone["fingerprint"])
	o.run("--as", "bob", "signal", "ask_question", "--question", "Proceed?", "--encrypt=false")
	lines := map[string]string{
		"mailroom signal cancel q":        `^q-\w+\tpending, asked by bob\n$`,
		"mailroom signal device revoke d": `^d-\w+\tpixel, active\n$`,
		"mailroom backup mailroom.d":      `mailroom\.db`,
	}
	if postgres.IsAddress(o.db) {
		delete(lines, "mailroom backup mailroom.d")
	}
	for line, offers := range lines {
		if shows := complete(line); !regexp.MustCompile(offers).MatchString(shows) {
			t.Errorf("%q is completed to %q; want %s", line, shows, offers)
		}
	}
}

// TestCompletionInZsh types the lines in zsh, followed by the key that lists completions.
func TestCompletionInZsh(t *testing.T) {
	t.Parallel()
	typeCompletions(t, "zsh", "exec zsh -f -i",
		"autoload -Uz compinit; compinit -u -D; zstyle ':completion:*' insert-tab false; setopt NO_ALWAYS_LAST_PROMPT; unsetopt LIST_AMBIGUOUS; ", "\x04")
}

func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	typeCompletions(t, "bash", "exec bash --norc --noprofile -i",
		"bind 'set show-all-if-ambiguous on'; bind 'set enable-bracketed-paste off'; ", "\x1b?")
}

// typeCompletions types the lines in a shell, each followed by the key that lists completions.
func typeCompletions(t *testing.T, shell, start, prepares, lists string) {
	o, folder, script := completing(t, shell)
	env := append(o.command().Env, "TERM=dumb", "PS1=", "LC_ALL=C.UTF-8")
	for i, c := range completed {
		term := openTTY(t, folder, env, 200, "-c", start)
		typed := func(keys, until string) string {
			if _, err := term.master.WriteString(keys); err != nil {
				t.Fatal(err)
			}
			wanted := regexp.MustCompile(until)
			if !term.await(func(text string) bool { return wanted.MatchString(text) }) {
				t.Fatalf("%s shows %q after %q; want %s", shell, term.text, keys, until)
			}
			text := term.text
			term.text = ""
			return text
		}
		typed(prepares+"PS1='ready> '; source "+script+"; echo 'so''urced'\n", `sourced[\s\S]*ready> `)
		until := c.offers
		if shell == "bash" {
			until, _, _ = strings.Cut(until, ".*") // bash shows no descriptions
		}
		shows := typed(c.line+lists, `\n.*`+until)
		if shell == "zsh" {
			offered(t, i, shows)
		}
	}
}
