package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestConfirmations: before what cannot be undone a person on a terminal is asked; with --yes, and where nobody can be asked, it is
// done at once.
func TestConfirmations(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "ann", "bob", "cid", "dan")
	o.run("group", "set", "team", "ann", "bob")
	for range 2 {
		o.command("send", "nobody", "hello").Run() // a dead letter
	}
	message, _ := o.run("send", "ann", "hello", "--not-before", "1h")["message_id"].(string)
	for _, c := range []struct{ command, answer, asks, ends string }{
		{"agent remove bob", "n\n", `the agent bob: .* Go on\? \[y/N\] $`, "64"},
		{"agent remove bob", "\n", `Go on\?`, "64"},
		{"agent remove bob", "\x04", `Go on\?`, "64"},
		{"agent remove bob", "y\n", `Go on\?`, "0"},
		{"agent remove bob", "y\n", `Go on\?`, "66"}, // it is gone
		{"agent remove cid --yes", "", "", "0"},
		{"agent remove dan </dev/null", "", "", "0"},
		{"group delete team", "yes\n", `the group team\. Go on\?`, "0"},
		{"cancel " + message, "n\n", message + `, which .* Go on\?`, "64"},
		{"cancel last", "y\n", `with this message\?`, "0"}, // asked once
		{"clear_traces", "y\n", `Go on\?`, "0"},
		{"clear_old", "y\n", `Go on\?`, "0"},
		{"clear_old --json", "", "", "0"},
		{"clear_old | cat", "", "", "0"},
		{"dead_letters replay --all", "y\n", `This sends dead letters again: 2\. Go on\?`, "0"},
		{"dead_letters replay " + message, "", "", "65"}, // it is none
		{"status", "", "", "0"},
	} {
		env := append(o.command().Env, "NO_COLOR=1", "LC_ALL=C.UTF-8")
		term := openTTY(t, filepath.Dir(o.db), env, 300, "-c", "mailroom "+c.command+`; printf '\001%d\002' $?`)
		if c.asks != "" {
			asks := regexp.MustCompile(c.asks)
			if !term.await(func(text string) bool { return asks.MatchString(text) && strings.HasSuffix(text, "[y/N] ") }) {
				t.Fatalf("%s does not ask %s: %q", c.command, c.asks, term.text)
			}
			fmt.Fprint(term.master, c.answer)
		}
		if !term.await(ended.MatchString) {
			t.Fatalf("%s does not end: %q", c.command, term.text)
		}
		if status := ended.FindStringSubmatch(term.text)[1]; status != c.ends {
			t.Errorf("%s ends with %s; want %s: %q", c.command, status, c.ends, term.text)
		}
		if asked := strings.Count(term.text, "[y/N]"); asked != min(1, len(c.asks)) {
			t.Errorf("%s asks %d times: %q", c.command, asked, term.text)
		}
	}
}
